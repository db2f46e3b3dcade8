package activity

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"
)

// The types of actions. The list may grow: display an unknown type as it is, and do not treat it
// as an error.
const (
	TypePageview = "pageview"
	TypeClick    = "click"
	TypeSubmit   = "submit"
	TypeChange   = "change"
	TypeEvent    = "event" // a custom event that the product lists
	TypeError    = "error"
)

// Action is one thing a user did. Its JSON is the action object of the REST
// response and of the MCP tool.
type Action struct {
	// ID is the source's ID of the event, unique within a product. It serves to detect
	// duplicates and is not part of the JSON.
	ID string `json:"-"`

	Type        string `json:"type" jsonschema:"pageview, click, submit, change, event or error."`
	Title       string `json:"title"` // "Click Export CSV"
	Description string `json:"description" jsonschema:"The action in a sentence, with its page."`

	// Properties are a custom event's properties that the product lists, as text.
	Properties map[string]string `json:"properties,omitempty" jsonschema:"Of a custom event."`

	// Marks describe the outcome of a click: [MarkRage], [MarkDead] or both.
	Marks []string `json:"marks,omitempty" jsonschema:"The outcome of a click: rage, dead or both."`

	TimestampStart float64 `json:"timestamp_start" jsonschema:"Epoch seconds."`
	TimestampEnd   float64 `json:"timestamp_end" jsonschema:"Epoch seconds."` // never before the start

	RawURL       string `json:"raw_url"`
	CanonicalURL string `json:"canonical_url" jsonschema:"The URL with identifiers replaced by :id."`

	// Index counts from zero: over the returned array in a lookup, over the
	// session in a batch.
	Index int `json:"index"`
}

// Start returns the action's start as a time in UTC.
func (a Action) Start() time.Time {
	return time.UnixMicro(int64(math.Round(a.TimestampStart * 1e6))).UTC()
}

// Clean returns a copy of the action that is safe to store: URLs, in texts as well, as [CleanURL]
// returns them, texts folded to one line of at most 500 characters, at most ten properties of at
// most 60 characters, and no marks other than [MarkRage] and [MarkDead]. Actions from [NewAction],
// [NewEvent] and [NewError] are clean.
func (a Action) Clean() Action {
	const most = 10
	names := slices.Sorted(maps.Keys(a.Properties))
	properties := a.Properties
	a.Properties = nil
	for _, name := range names[:min(most, len(names))] {
		if a.Properties == nil {
			a.Properties = make(map[string]string, len(names))
		}
		a.Properties[CleanLabel(name)] = cut(foldStart(withoutSecrets(properties[name]), maxValue), maxValue)
	}
	a.Marks = slices.DeleteFunc(slices.Clone(a.Marks), func(m string) bool { return m != MarkRage && m != MarkDead })
	a.Marks = a.Marks[:min(len(a.Marks), len(markWords))]
	for _, text := range []*string{&a.Type, &a.Title, &a.Description} {
		*text = cut(fold(withoutSecrets(*text)), maxSentence)
	}
	raw, canonical := CleanURL(a.RawURL)
	if a.CanonicalURL != "" {
		_, canonical = CleanURL(a.CanonicalURL)
	}
	a.RawURL, a.CanonicalURL = raw, canonical
	return a
}

// BatchAction is an action inside a [Batch]. It has its own session and user, so a consumer can
// handle it without its batch.
type BatchAction struct {
	Action
	SessionID      string `json:"session_id"`
	UserID         string `json:"user_id"`
	Email          string `json:"email"`
	ConversationID string `json:"conversation_id,omitempty"`
}

// BatchType is the type field of every [Batch].
const BatchType = "actions"

// Batch holds the actions of one session from one request. It is the data of an "actions" event
// on the stream. The batch has the present identity of the session, and each action has the user
// ID of its own event. SessionID, UserID and Email are empty while unknown.
type Batch struct {
	Type           string        `json:"type"` // BatchType
	ProductID      string        `json:"product_id"`
	SessionID      string        `json:"session_id"`
	UserID         string        `json:"user_id"`
	Email          string        `json:"email"`
	ConversationID string        `json:"conversation_id,omitempty"`
	Count          int           `json:"count"`        // len(Actions)
	ForwardedAt    float64       `json:"forwarded_at"` // epoch seconds
	Actions        []BatchAction `json:"actions"`      // in time order, never empty
}

// Event is one observation by a source: an action of a user, the identity of a session's user, or
// both.
type Event struct {
	// ID is the source's own ID of the event, by which duplicates are dropped. It must not be
	// empty.
	ID string
	// Time is the time of the event by the sender's clock. The sink corrects it using Sent and
	// Received. Zero means that the event happened Age before Received.
	Time time.Time
	// ServerTime means that the sender vouches for Time, which then needs no correction.
	ServerTime bool
	// Age is how long before Received the event happened if Time is zero.
	Age time.Duration
	// Markable means that the action is a click, and that events with its marks may follow.
	Markable bool
	// Sent is the time of the request's sending by the sender's clock; zero if unknown.
	Sent time.Time
	// Received is the time of the request's arrival by the service's clock; zero means now.
	Received time.Time
	// SessionID, UserID and Email are empty if the event has none.
	SessionID, UserID, Email string
	// Placed means that the service chose the session, by UserID. The event does not show that the
	// session is the user's, and so gives it no higher standing.
	Placed bool
	// Standing applies to UserID, EmailStanding to Email.
	Standing, EmailStanding Standing
	// Identified means that the source knows UserID to be an identified user, not an
	// anonymous visitor.
	Identified bool
	// Anonymous is the session's former visitor ID if the event identifies that visitor as
	// UserID, else empty.
	Anonymous string
	// Visitor is the anonymous ID of the browser or device, if the source sends one with every
	// event, beside UserID or as UserID. Unlike Anonymous it assigns no actions to UserID.
	Visitor string
	// Action has the type, title, description and URLs of the user's action. It is nil for
	// an event that carries only an identity.
	Action *Action
}

// IsMark reports whether the event adds no action of its own, but marks the click that its Action
// describes, which happened shortly before or after.
func (e *Event) IsMark() bool { return e.Action != nil && len(e.Action.Marks) > 0 && !e.Markable }

// Standing is the trustworthiness of an identity. Standings are ordered: a lower one never
// overrides a higher one.
type Standing uint8

// The standings, from the lowest.
const (
	Claimed  Standing = iota // by anyone, such as a browser with the public capture token
	Reported                 // by a webhook that proved its secret, or by a program through its own sink
	Signed                   // under one of the product's identity secrets
)

// String returns "claimed", "reported" or "signed".
func (s Standing) String() string {
	return [...]string{"claimed", "reported", "signed"}[min(s, Signed)]
}

// Result counts the events of one call of a [Sink] by outcome.
type Result struct {
	Accepted  int // made an action or updated what is known of a session
	Duplicate int // seen before within the retention window
	Expired   int // happened before the retention window
	Repeated  int // repeated an error within ten seconds
	Unmarked  int // marked no known click, or one with the same mark
	Ignored   int // had an ID that is missing, too long or not UTF-8, or carried no information
}

// Plus returns the sums of two results.
func (r Result) Plus(s Result) Result {
	return Result{r.Accepted + s.Accepted, r.Duplicate + s.Duplicate, r.Expired + s.Expired,
		r.Repeated + s.Repeated, r.Unmarked + s.Unmarked, r.Ignored + s.Ignored}
}

// Sink records the events of one request. It corrects their times for the sender's clock: never
// later than their arrival, and in a session always in the order of the sender's timestamps, even
// across requests. Events older than the retention are not recorded. When Record returns nil, all
// other actions are stored and readable. After an error the result counts the events that were
// recorded before it, and the caller may retry the whole request; no action is recorded twice. Record
// must be safe for concurrent use. It must not retain the slice, but may retain the events' strings,
// which should not be substrings of larger ones.
type Sink interface {
	Record(ctx context.Context, productID string, events []Event) (Result, error)
}

// DefaultTTL is the default lifetime of an action.
const DefaultTTL = 4 * time.Hour

// Seconds returns t as epoch seconds, to the microsecond.
func Seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

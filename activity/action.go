package activity

import (
	"context"
	"crypto/sha256"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
)

// The types of action the service makes. The list may grow; treat an unknown
// type as a word to show, not as an error.
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
	// ID names the source's event, unique within a product. It finds
	// duplicates and is not part of the JSON.
	ID string `json:"-"`

	Type        string `json:"type" jsonschema:"pageview, click, submit, change, event or error."`
	Title       string `json:"title"` // "Click Export CSV"
	Description string `json:"description" jsonschema:"The action in a sentence, with its page."`

	// Properties are the listed properties of a custom event, as text.
	Properties map[string]string `json:"properties,omitempty" jsonschema:"Of a custom event."`

	// Marks tell the outcome of a click: [MarkRage], [MarkDead] or both.
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

// Clean returns the action as it may be kept: with its URLs as [CleanURL] returns them, and
// its texts on one line of at most 500 characters each, at most ten properties of 60 characters,
// and no marks but [MarkRage] and [MarkDead]. An action that [NewAction], [NewEvent]
// or [NewError] has made is clean.
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
		*text = cut(fold(*text), maxSentence)
	}
	raw, canonical := CleanURL(a.RawURL)
	if a.CanonicalURL != "" {
		_, canonical = CleanURL(a.CanonicalURL)
	}
	a.RawURL, a.CanonicalURL = raw, canonical
	return a
}

// BatchAction is an action inside a [Batch]: it says itself whose it is, so a
// consumer can handle it without its envelope.
type BatchAction struct {
	Action
	SessionID      string `json:"session_id"`
	UserID         string `json:"user_id"`
	Email          string `json:"email"`
	ConversationID string `json:"conversation_id,omitempty"`
}

// BatchType is the type field of every [Batch].
const BatchType = "actions"

// Batch is the actions that one request brought for one session: the envelope of an
// "actions" event on the stream. The envelope states the identity of the
// session now; each action states the user id of its own event.
// SessionID, UserID and Email are empty strings while unknown.
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

// Event is one observation of a source: something a user did, or something
// learned about a session's owner, or both.
type Event struct {
	// ID is the source's own id of the event; an event seen before is dropped
	// by it. It must not be empty.
	ID string
	// Time is when it happened, by the sender's clock. The sink corrects it by
	// Sent and Received.
	Time time.Time
	// ServerTime says that Time is by the service's own clock instead.
	ServerTime bool
	// Markable says that the action is a click which marks may follow, as further events.
	Markable bool
	// Sent is when the request that brought it left the sender, by the sender's
	// clock; zero when unknown.
	Sent time.Time
	// Received is when the request arrived, by the service's clock; zero for now.
	Received time.Time
	// SessionID, UserID and Email are empty if the event has none.
	SessionID, UserID, Email string
	// Standing rates UserID, EmailStanding rates Email.
	Standing, EmailStanding Standing
	// Identified says that the source knows UserID to name an identified user
	// and no anonymous visitor.
	Identified bool
	// Anonymous is the id under which the session's visitor was known before,
	// where the event says that it is UserID's: see [Identity]. Else it is empty.
	Anonymous string
	// Visitor is the anonymous ID of the browser or device, where the source states one with
	// every event, beside UserID or as UserID. It moves nothing, as Anonymous does.
	Visitor string
	// Action holds type, title, description and URLs of the user's action.
	// It is nil for an event that only carries identity.
	Action *Action
}

// IsMark reports whether the event adds no action but marks a click of a moment before or
// after, which its Action describes.
func (e *Event) IsMark() bool { return e.Action != nil && len(e.Action.Marks) > 0 && !e.Markable }

// Result counts the events of one call of a [Sink] by outcome.
type Result struct {
	Accepted  int // made an action or updated what is known of a session
	Duplicate int // seen before within the retention window
	Expired   int // happened before the retention window
	Repeated  int // were the same error again, within ten seconds
	Unmarked  int // were a mark for no click, or for one that has it
	Ignored   int // had an ID that is missing, too long or not UTF-8, or told nothing of anybody
}

// Plus returns the sums of two results.
func (r Result) Plus(s Result) Result {
	return Result{r.Accepted + s.Accepted, r.Duplicate + s.Duplicate, r.Expired + s.Expired,
		r.Repeated + s.Repeated, r.Unmarked + s.Unmarked, r.Ignored + s.Ignored}
}

// Sink takes the events of one request. It gives them their times: corrected
// for the sender's clock, never after their arrival, and of two events of a
// session the one that the sender's clock stamped later is never placed before
// the other, whichever requests bring them. Events older than the retention are
// not recorded. When Record returns nil, every other action is where readers
// find it; after an error the whole request may be retried, and actions that
// were recorded are not recorded twice. Record must be safe for concurrent
// use. It must not keep the slice, but may keep the events' strings, which should
// not be parts of larger ones.
type Sink interface {
	Record(ctx context.Context, productID string, events []Event) (Result, error)
}

// DefaultTTL is how long an action is kept, by default.
const DefaultTTL = 4 * time.Hour

// Key is the fixed-size form of an event id, for sets of ids seen.
type Key [16]byte

// EventKey returns the key of an event id: the bytes of a UUID in its usual
// 36-character form, else the first half of the SHA-256 digest of the id.
func EventKey(id string) Key {
	if len(id) == 36 {
		if u, err := uuid.Parse(id); err == nil {
			return Key(u)
		}
	}
	var few [128]byte // most ids do not allocate
	sum := sha256.Sum256(append(few[:0], id...))
	return Key(sum[:16])
}

// Seconds returns t as epoch seconds, to the microsecond.
func Seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

package segment

import (
	"cmp"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// Segment, RudderStack and Jitsu send the same events with small differences, all of which are
// handled here. An event is read in one pass into fields, and its meaning is chosen from them:
// the order in a call of cmp.Or decides which vendor's address, session ID or time counts.

// Source is the form of the family's events.
var Source = intake.NewSource(intake.Form{
	Batch: "batch", Tokens: [2]string{"writeKey"}, SentAt: "sentAt", Trim: keyID, Recognizes: recognizes,
}, func(r *intake.Reader) intake.Decoder { return &decoder{Reader: r} })

// recognizes reports whether an event is one of the family. PostHog's events may
// have a type as well.
func recognizes(of map[string]string) bool {
	_, isPostHogs := of["distinct_id"]
	return types[of["type"]] && !isPostHogs
}

// The types of events that mean something here.
const (
	typePage     = "page"
	typeScreen   = "screen"
	typeIdentify = "identify"
	typeAlias    = "alias"
	typeTrack    = "track"
	typeGroup    = "group"
	typeDelete   = "delete"
)

// types are the types of the family's events.
var types = map[string]bool{typePage: true, typeScreen: true, typeIdentify: true, typeAlias: true, typeTrack: true,
	typeGroup: true, typeDelete: true}

// event is an event of any type. Its strings are bounded copies.
type event struct {
	Type              string        `in:"type"`
	Name              string        `in:"name"`  // of a page or screen
	Track             string        `in:"event"` // the name of a track event
	ID                string        `in:"messageId,scalar"`
	AnonymousID       string        `in:"anonymousId,scalar"`
	UserID            string        `in:"userId,scalar"`
	PreviousID        string        `in:"previousId,scalar"`
	WriteKey          string        `in:"writeKey,token"`
	Timestamp         string        `in:"timestamp,scalar"`
	OriginalTimestamp string        `in:"originalTimestamp,scalar"`
	SentAt            string        `in:"sentAt,scalar"`
	Properties        properties    `in:"properties"`
	Traits            intake.Traits `in:"traits"`
	Context           struct {
		intake.Proof
		Page struct {
			URL string `in:"url,url"`
		} `in:"page"`
		SessionID string        `in:"sessionId,scalar"` // a number: two people can have the same one
		OwnID     string        `in:"session_id,scalar"`
		Traits    intake.Traits `in:"traits"`
	} `in:"context"`
}

// properties are the properties that matter here.
type properties struct {
	intake.Span
	intake.Proof
	URL       string `in:"url,url"`     // a page's canonical address
	TabURL    string `in:"tab_url,url"` // the address that the browser shows
	Name      string `in:"name"`
	SessionID string `in:"session_id,scalar"` // the site's own
}

var fields = intake.FieldsOf[event]()

// proof returns the event's evidence of its user: a hash or a token.
func (e *event) proof() intake.Proof {
	return e.Traits.Proof.Or(e.Context.Traits.Proof).Or(e.Context.Proof).Or(e.Properties.Proof)
}

// decoder decodes one event at a time.
type decoder struct {
	*intake.Reader
	event event
}

// Next implements [intake.Decoder].
func (d *decoder) Next() (token string) {
	d.event = event{}
	d.Event(&d.event.ID, func() { fields.Read(d.Reader, &d.event) })
	return keyID(d.event.WriteKey)
}

// keyID returns a write key without the secret that Jitsu appends to it.
func keyID(writeKey string) string {
	id, _, _ := strings.Cut(writeKey, ":")
	return id
}

// Meaning implements [intake.Decoder]. An event that asks for an erasure has no time and no
// session: it does nothing else.
func (d *decoder) Meaning(from *intake.Request, m *intake.Meaning) {
	e := &d.event
	if e.ID == "" {
		m.Reason = intake.ReasonMalformed
		return
	}
	e.Type = strings.ToLower(cmp.Or(e.Type, from.Kind))
	m.Key, m.Proof, m.SeeksSession = e.ID, e.proof(), true
	m.Event = e.who()
	switch e.Type {
	case typePage, typeScreen:
		if action, ok := e.view(); ok {
			m.Action = &action
			break
		}
		m.Reason = intake.ReasonMalformed
	case typeTrack:
		if rule := from.Events.Find(e.Track); rule != nil && e.Track != intake.EventException {
			page := cmp.Or(e.Context.Page.URL, e.Properties.TabURL, e.Properties.URL)
			m.Action = rule.Action(e.Track, d.Reader, e.Properties.Span, page)
			break
		}
		m.Reason = intake.ReasonOther
	case typeIdentify, typeAlias:
		m.NameVisitor()
	case typeDelete:
		m.UserID, m.Erases = intake.UnsharedID(intake.Trimmed(e.UserID)), true
		if m.UserID == "" || intake.IsUnusable(m.UserID) {
			m.Reason = intake.ReasonMalformed
		}
		return
	case "":
		m.Reason = intake.ReasonMalformed
	default:
		m.Reason = intake.ReasonOther
	}
	// The vendors' webhooks carry the corrected time beside the original one.
	stamp := cmp.Or(e.OriginalTimestamp, e.Timestamp)
	if m.ServerTime = from.Webhook && e.Timestamp != ""; m.ServerTime {
		stamp = e.Timestamp
	}
	m.Finish(from, stamp, cmp.Or(e.SentAt, from.SentAt))
}

// who returns an event with its session and its user. An anonymous visitor is a user as well.
// The session is the site's own ID, or else the device with its session number, or else the
// device alone. Session numbers by themselves are not unique.
func (e *event) who() activity.Event {
	visitor := e.AnonymousID
	if e.Type == typeAlias && intake.UnsharedID(intake.Trimmed(visitor)) == "" { // from a server: it is the previous ID
		visitor = e.PreviousID
	}
	out := intake.Who(e.ID, e.UserID, visitor, e.Traits.Email, e.Context.Traits.Email)
	if number := intake.Trimmed(e.Context.SessionID); out.Visitor != "" && number != "" {
		out.SessionID += ":" + number
	}
	own := intake.UnsharedID(intake.Trimmed(cmp.Or(e.Properties.SessionID, e.Context.OwnID)))
	out.SessionID = cmp.Or(own, out.SessionID)
	return out
}

// view returns the view of a page or of an app's screen. A page that a server reports by name
// alone is treated like a screen.
func (e *event) view() (activity.Action, bool) {
	p := &e.Properties
	address := cmp.Or(p.TabURL, p.URL, e.Context.Page.URL)
	if e.Type == typeScreen || address == "" {
		name := cmp.Or(e.Name, p.Name)
		return activity.NewAction(activity.TypePageview, activity.Target{}, intake.ScreenURL(name)), name != ""
	}
	a := activity.NewAction(activity.TypePageview, activity.Target{}, address)
	return a, a.RawURL != ""
}

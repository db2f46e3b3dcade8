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
	typ               string
	name              string // of a page or screen
	track             string // the name of a track event
	from, to          int64  // where the JSON of the properties begins and ends
	id                string // messageId
	anonymousID       string
	userID            string
	previousID        string
	writeKey          string
	timestamp         string
	originalTimestamp string
	sentAt            string
	properties        properties
	context           struct {
		pageURL   string
		sessionID string // a number: two people can have the same one
		ownID     string // session_id
		email     string // of the traits, like the next one
	}
	email string
	proof intake.Proof
}

// properties are the properties that matter here.
type properties struct {
	url, tabURL string // a page's canonical address and the one that the browser shows
	name        string
	sessionID   string // the site's own
}

// decoder decodes one event at a time.
type decoder struct {
	*intake.Reader
	event event
}

// Next implements [intake.Decoder].
func (d *decoder) Next() (token string) {
	d.event = event{}
	d.Event(&d.event.id, func() { fields.Read(d.Reader, &d.event) })
	return keyID(d.event.writeKey)
}

// keyID returns a write key without the secret that Jitsu appends to it.
func keyID(writeKey string) string {
	id, _, _ := strings.Cut(writeKey, ":")
	return id
}

// fields are the places in an event that matter here.
var fields = intake.Fields[event]{
	"type":              func(r *intake.Reader, e *event) { r.SetString(&e.typ, intake.MaxText) },
	"name":              func(r *intake.Reader, e *event) { r.SetString(&e.name, intake.MaxText) },
	"event":             func(r *intake.Reader, e *event) { r.SetString(&e.track, intake.MaxText) },
	"messageId":         func(r *intake.Reader, e *event) { r.SetText(&e.id) },
	"anonymousId":       func(r *intake.Reader, e *event) { r.SetText(&e.anonymousID) },
	"userId":            func(r *intake.Reader, e *event) { r.SetText(&e.userID) },
	"previousId":        func(r *intake.Reader, e *event) { r.SetText(&e.previousID) },
	"writeKey":          func(r *intake.Reader, e *event) { r.SetString(&e.writeKey, intake.MaxToken) },
	"timestamp":         func(r *intake.Reader, e *event) { r.SetText(&e.timestamp) },
	"originalTimestamp": func(r *intake.Reader, e *event) { r.SetText(&e.originalTimestamp) },
	"sentAt":            func(r *intake.Reader, e *event) { r.SetText(&e.sentAt) },
	"properties": func(r *intake.Reader, e *event) {
		e.from = r.Offset()
		ofProperties.Read(r, e)
		e.to = r.Offset()
	},
	"context": ofContext.Read,
	"traits":  intake.Traits(func(e *event) *string { return &e.email }, proof).Read,
}

var ofProperties = intake.Fields[event]{
	"url":        func(r *intake.Reader, e *event) { r.SetString(&e.properties.url, intake.MaxURL) },
	"tab_url":    func(r *intake.Reader, e *event) { r.SetString(&e.properties.tabURL, intake.MaxURL) },
	"name":       func(r *intake.Reader, e *event) { r.SetString(&e.properties.name, intake.MaxText) },
	"session_id": func(r *intake.Reader, e *event) { r.SetText(&e.properties.sessionID) },
}.WithProof(proof)

var ofContext = intake.Fields[event]{
	"page": intake.Fields[event]{
		"url": func(r *intake.Reader, e *event) { r.SetString(&e.context.pageURL, intake.MaxURL) },
	}.Read,
	"sessionId":  func(r *intake.Reader, e *event) { r.SetText(&e.context.sessionID) },
	"session_id": func(r *intake.Reader, e *event) { r.SetText(&e.context.ownID) },
	"traits":     intake.Traits(func(e *event) *string { return &e.context.email }, proof).Read,
}.WithProof(proof)

func proof(e *event) *intake.Proof { return &e.proof }

// Meaning implements [intake.Decoder]. An event that asks for an erasure has no time and no
// session: it does nothing else.
func (d *decoder) Meaning(from *intake.Request, m *intake.Meaning) {
	e := &d.event
	if e.id == "" {
		m.Reason = intake.ReasonMalformed
		return
	}
	e.typ = strings.ToLower(cmp.Or(e.typ, from.Kind))
	m.Key, m.Proof, m.SeeksSession = e.id, e.proof, true
	m.Event = e.who()
	switch e.typ {
	case typePage, typeScreen:
		if action, ok := e.view(); ok {
			m.Action = &action
			break
		}
		m.Reason = intake.ReasonMalformed
	case typeTrack:
		if rule := from.Events.Find(e.track); rule != nil && e.track != intake.EventException {
			page := cmp.Or(e.context.pageURL, e.properties.tabURL, e.properties.url)
			m.Action = rule.Action(e.track, d.Reader, e.from, e.to, page)
			break
		}
		m.Reason = intake.ReasonOther
	case typeIdentify, typeAlias:
		m.NameVisitor()
	case typeDelete:
		m.UserID, m.Erases = intake.UnsharedID(intake.Trimmed(e.userID)), true
		if m.UserID == "" || intake.IsLongID(m.UserID) {
			m.Reason = intake.ReasonMalformed
		}
		return
	case "":
		m.Reason = intake.ReasonMalformed
	default:
		m.Reason = intake.ReasonOther
	}
	// The vendors' webhooks carry the corrected time beside the original one.
	stamp := cmp.Or(e.originalTimestamp, e.timestamp)
	if m.ServerTime = from.Webhook && e.timestamp != ""; m.ServerTime {
		stamp = e.timestamp
	}
	m.Finish(from, stamp, cmp.Or(e.sentAt, from.SentAt))
}

// who returns an event with its session and its user. An anonymous visitor is a user as well.
// The session is the site's own ID, or else the device with its session number, or else the
// device alone. Session numbers by themselves are not unique.
func (e *event) who() activity.Event {
	visitor := e.anonymousID
	if e.typ == typeAlias && intake.UnsharedID(intake.Trimmed(visitor)) == "" { // from a server: it is the previous ID
		visitor = e.previousID
	}
	out := intake.Who(e.id, e.userID, visitor, e.email, e.context.email)
	if number := intake.Trimmed(e.context.sessionID); out.Visitor != "" && number != "" {
		out.SessionID += ":" + number
	}
	own := intake.UnsharedID(intake.Trimmed(cmp.Or(e.properties.sessionID, e.context.ownID)))
	out.SessionID = cmp.Or(own, out.SessionID)
	return out
}

// view returns the view of a page or of an app's screen. A page that a server reports by name
// alone is treated like a screen.
func (e *event) view() (activity.Action, bool) {
	p := &e.properties
	address := cmp.Or(p.tabURL, p.url, e.context.pageURL)
	if e.typ == typeScreen || address == "" {
		name := cmp.Or(e.name, p.name)
		return intake.NewAction(activity.TypePageview, activity.Target{}, intake.ScreenURL(name)), name != ""
	}
	a := intake.NewAction(activity.TypePageview, activity.Target{}, address)
	return a, a.RawURL != ""
}

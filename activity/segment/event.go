package segment

import (
	"cmp"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// Segment, RudderStack and Jitsu send the same events with small differences, all of which are
// here. An event is read in one pass into fields, and its meaning chosen from them: which of
// the addresses, session IDs and times of several vendors counts is the order in a call of
// First.

// Source is the form of the family's events.
var Source = intake.NewSource(intake.Form{
	Batch: "batch", Tokens: [2]string{"writeKey"}, SentAt: "sentAt", Trim: keyID, Recognizes: recognizes,
}, func(r *intake.Reader) intake.Decoder { return &decoder{Reader: r} })

// recognizes reports whether an event is one of the family. PostHog's, too, may have a
// type.
func recognizes(fields map[string]string) bool {
	_, isPostHogs := fields["distinct_id"]
	return words[fields["type"]] && !isPostHogs
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

// words are the types of the family's events.
var words = intake.Words(typePage, typeScreen, typeIdentify, typeAlias, typeTrack, typeGroup, typeDelete)

// event is an event of any type. Its strings are bounded copies.
type event struct {
	typ               string
	name              string // of a page or screen
	did               string // of track: the name of the event
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
	d.Event(&d.event.id, func() { d.Object(d.field) })
	return keyID(d.event.writeKey)
}

// keyID returns a write key without the secret that Jitsu has behind it.
func keyID(writeKey string) string {
	id, _, _ := strings.Cut(writeKey, ":")
	return id
}

// field, property and contextField read one field each, and skip one that does not matter.
func (d *decoder) field(key []byte) {
	e := &d.event
	switch string(key) {
	case "type":
		d.SetString(&e.typ, intake.MaxText)
	case "name":
		d.SetString(&e.name, intake.MaxText)
	case "event":
		d.SetString(&e.did, intake.MaxText)
	case "messageId":
		d.SetText(&e.id)
	case "anonymousId":
		d.SetText(&e.anonymousID)
	case "userId":
		d.SetText(&e.userID)
	case "previousId":
		d.SetText(&e.previousID)
	case "writeKey":
		d.SetString(&e.writeKey, intake.MaxToken)
	case "timestamp":
		d.SetText(&e.timestamp)
	case "originalTimestamp":
		d.SetText(&e.originalTimestamp)
	case "sentAt":
		d.SetText(&e.sentAt)
	case "properties":
		e.from = d.Offset()
		d.Object(d.property)
		e.to = d.Offset()
	case "context":
		d.Object(d.contextField)
	case "traits":
		d.Object(func(key []byte) { d.SetTrait(&e.email, &e.proof, key) })
	default:
		d.Skip()
	}
}

func (d *decoder) property(key []byte) {
	p := &d.event.properties
	switch string(key) {
	case "url":
		d.SetString(&p.url, intake.MaxURL)
	case "tab_url":
		d.SetString(&p.tabURL, intake.MaxURL)
	case "name":
		d.SetString(&p.name, intake.MaxText)
	case "session_id":
		d.SetText(&p.sessionID)
	default:
		d.SetProof(&d.event.proof, key)
	}
}

func (d *decoder) contextField(key []byte) {
	c := &d.event.context
	switch string(key) {
	case "page":
		d.Field("url", func() { d.SetString(&c.pageURL, intake.MaxURL) })
	case "sessionId":
		d.SetText(&c.sessionID)
	case "session_id":
		d.SetText(&c.ownID)
	case "traits":
		d.Object(func(key []byte) { d.SetTrait(&c.email, &d.event.proof, key) })
	default:
		d.SetProof(&d.event.proof, key)
	}
}

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
		if rule := from.Events.Find(e.did); rule != nil && e.did != intake.EventException {
			page := cmp.Or(e.context.pageURL, e.properties.tabURL, e.properties.url)
			action := activity.NewEvent(e.did, rule.Sentence, rule.Read(d.Again(e.from, e.to)), page)
			m.Action = &action
			break
		}
		m.Reason = intake.ReasonOther
	case typeIdentify, typeAlias:
	case typeDelete:
		m.UserID, m.Erases = intake.UserID(intake.Trimmed(e.userID)), true
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

// who returns an event of its session and its user. An anonymous visitor is a user, too. The
// session is the site's own ID, else the device with its session number, else the device.
// Numbers alone are not unique.
func (e *event) who() activity.Event {
	device, user := intake.UserID(intake.Trimmed(e.anonymousID)), intake.UserID(intake.Trimmed(e.userID))
	if e.typ == typeAlias && device == "" { // a server's: the visitor is the one before
		device = intake.UserID(intake.Trimmed(e.previousID))
	}
	out := activity.Event{ID: e.id, UserID: cmp.Or(user, device), Visitor: device, Identified: user != "",
		SessionID: intake.Trimmed(cmp.Or(e.properties.sessionID, e.context.ownID)),
		Email:     intake.FirstEmail(e.email, e.context.email)}
	if number := intake.Trimmed(e.context.sessionID); out.SessionID == "" && device != "" && number != "" {
		out.SessionID = device + ":" + number
	}
	out.SessionID = cmp.Or(out.SessionID, device)
	if (e.typ == typeIdentify || e.typ == typeAlias) && user != "" && !intake.IsLongID(device) {
		out.Anonymous = device
	}
	return out
}

// view returns the view of a page or of an app's screen. A page that a server reports by its name
// alone is like a screen.
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

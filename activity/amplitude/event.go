package amplitude

import (
	"cmp"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/element"
)

// Amplitude's autocapture reports the text of an element but not always its kind, so a text
// counts as typed unless the kind is known to have a caption: see captioned and
// [element.Target]. Custom events and marks count only if the product lists them.

// Source is the form of Amplitude's events.
var Source = intake.NewSource(intake.Form{
	Batch: "events", Tokens: [2]string{"api_key"}, SentAt: "client_upload_time", Recognizes: recognizes,
}, func(r *intake.Reader) intake.Decoder { return &decoder{Reader: r} })

// recognizes reports whether an event is Amplitude's. The flat form of PostHog's events has an
// event_type as well, next to the event.
func recognizes(of map[string]string) bool {
	_, isPostHogs := of["event"]
	return of["event_type"] != "" && !isPostHogs
}

// The events that mean something here.
const (
	eventPage     = "[Amplitude] Page Viewed"
	eventClick    = "[Amplitude] Element Clicked"
	eventChange   = "[Amplitude] Element Changed"
	eventSubmit   = "[Amplitude] Form Submitted"
	eventIdentify = "$identify"

	eventRageClick = "[Amplitude] Rage Click"
	eventDeadClick = "[Amplitude] Dead Click"
)

// listedAs are the names by which a product lists events of autocapture.
var listedAs = map[string]string{eventRageClick: intake.EventRageClick, eventDeadClick: intake.EventDeadClick}

// maxElements bounds how many elements around the target are read.
const maxElements = 128

// maxClasses bounds how many CSS classes of an element are read.
const maxClasses = 32

// event is an event. Its strings are bounded copies.
type event struct {
	Type       string     `in:"event_type"`
	ID         string     `in:"insert_id,scalar"`
	DeviceID   string     `in:"device_id,scalar"`
	SessionID  string     `in:"session_id,scalar"` // a number: two people can have the same one
	UserID     string     `in:"user_id,scalar"`
	APIKey     string     `in:"api_key,token"`
	Time       string     `in:"time,scalar"` // in milliseconds
	Properties properties `in:"event_properties"`
	User       struct {
		intake.Traits
		Set intake.Traits `in:"$set"`
	} `in:"user_properties"`
}

// properties are the properties of an event that matter here.
type properties struct {
	intake.Span
	intake.Proof
	Location  string   `in:"[Amplitude] Page Location,url"` // may already be the next page's
	PageURL   string   `in:"[Amplitude] Page URL,url"`      // without a query
	Text      string   `in:"[Amplitude] Element Text"`      // of the target, like the next three
	AriaLabel string   `in:"[Amplitude] Element Aria Label"`
	ID        string   `in:"[Amplitude] Element ID"`
	Tag       string   `in:"[Amplitude] Element Tag"`
	Elements  elements `in:"[Amplitude] Element Hierarchy"`
	FormName  string   `in:"[Amplitude] Form Name"`
	FormID    string   `in:"[Amplitude] Form ID"`
}

var fields = intake.FieldsOf[event]()

// proof returns the event's evidence of its user: a hash or a token.
func (e *event) proof() intake.Proof {
	return e.User.Set.Proof.Or(e.User.Proof).Or(e.Properties.Proof)
}

// decoder decodes one event at a time.
type decoder struct {
	*intake.Reader
	event event
}

// Next implements [intake.Decoder].
func (d *decoder) Next() (token string) {
	d.event = event{Properties: properties{Elements: d.event.Properties.Elements[:0]}}
	d.Event(&d.event.ID, func() { fields.Read(d.Reader, &d.event) })
	return d.event.APIKey
}

// elements are at most maxElements elements from the target outwards.
type elements []element.Element

// Read implements [intake.Value].
func (es *elements) Read(r *intake.Reader) {
	if r.Kind() == '[' {
		*es = (*es)[:0]
	}
	r.Array(maxElements, func() {
		var e element.Element
		r.Object(func(key []byte) { readPart(r, &e, key) })
		*es = append(*es, e)
	})
}

// readPart reads a field of an element.
func readPart(r *intake.Reader, e *element.Element, key []byte) {
	switch string(key) {
	case "tag":
		r.SetString(&e.Tag, intake.MaxText)
	case "id":
		r.SetString(&e.ID, intake.MaxText)
	case "classes":
		r.Array(maxClasses, func() { e.Class += " " + r.Text(intake.MaxText) })
	case "attrs":
		r.Object(func(key []byte) { attribute(r, e, key) })
	default:
		r.Skip()
	}
}

// attribute reads an attribute of an element. Only a flag may be something other than a string.
// For an editable element, SDKs report no attribute except the type.
func attribute(r *intake.Reader, e *element.Element, key []byte) {
	name := "attr__" + string(key)
	if e.ContentEditable == "" && string(key) != "type" {
		e.ContentEditable = "false"
	}
	if e.Attribute(name) == nil {
		r.Skip()
		return
	}
	e.Set(name, r.Text(intake.MaxText))
}

// Meaning implements [intake.Decoder]. The time in a webhook is the vendor's, which has already
// corrected it.
func (d *decoder) Meaning(from *intake.Request, m *intake.Meaning) {
	e := &d.event
	if e.Type == "" {
		m.Reason = intake.ReasonMalformed
		return
	}
	m.Key, m.Proof, m.SeeksSession = e.ID, e.proof(), true
	m.Event = e.who()
	switch e.Type {
	case eventPage, eventClick, eventChange, eventSubmit:
		action := e.action()
		if m.Action = &action; action.RawURL == "" && e.Type == eventPage {
			m.Reason = intake.ReasonMalformed
		}
		m.Markable = e.Type == eventClick && from.Events.Marks()
	case eventIdentify:
		m.NameVisitor()
	case eventRageClick, eventDeadClick:
		action := e.action()
		action.Marks = []string{from.Events.Mark(listedAs[e.Type])}
		if m.Action = &action; action.Marks[0] == "" {
			m.Reason = intake.ReasonOther
		}
	default:
		rule := from.Events.Find(e.Type)
		if rule == nil || isAmplitudes(e.Type) || e.Type == intake.EventException {
			m.Reason = intake.ReasonOther
			break
		}
		m.Action = rule.Action(e.Type, d.Reader, e.Properties.Span, cmp.Or(e.Properties.PageURL, e.Properties.Location))
	}
	m.ServerTime = from.Webhook
	m.Finish(from, e.Time, from.SentAt)
}

// isAmplitudes reports whether an event is one that the SDKs send by themselves.
func isAmplitudes(typ string) bool {
	return typ == "session_start" || typ == "session_end" || strings.HasPrefix(typ, "[Amplitude] ") ||
		typ == "$groupidentify"
}

// who returns an event with the session and the user. An anonymous visitor is a user as well.
// The session is the device with its session number: numbers alone are not unique.
func (e *event) who() activity.Event {
	out := intake.Who(e.ID, e.UserID, e.DeviceID, e.User.Set.Email, e.User.Email)
	if number := intake.Trimmed(e.SessionID); out.Visitor != "" && number != "" && !strings.HasPrefix(number, "-") {
		out.SessionID += ":" + number // -1 is outside of any session
	}
	return out
}

// captioned are the tags of elements whose text is a caption. SDKs other than a browser's
// have no tags.
var captioned = map[string]bool{"a": true, "button": true, "label": true, "summary": true, "": true}

// action describes an event of autocapture. Only a page view may use the page's location: a
// click may already have changed it. It modifies the elements.
func (e *event) action() activity.Action {
	p := &e.Properties
	switch e.Type {
	case eventPage:
		return activity.NewAction(activity.TypePageview, activity.Target{}, cmp.Or(p.Location, p.PageURL))
	case eventSubmit:
		form := []element.Element{{Tag: "form", Name: p.FormName, ID: p.FormID}}
		return activity.NewAction(activity.TypeSubmit, element.Target(activity.TypeSubmit, form, ""), p.PageURL)
	}
	if len(p.Elements) == 0 {
		p.Elements = make(elements, 1)
	}
	for i := range p.Elements {
		p.Elements[i].Fold()
	}
	target := &p.Elements[0]
	target.Tag = cmp.Or(target.Tag, strings.ToLower(p.Tag))
	target.ID = cmp.Or(target.ID, p.ID)
	target.AriaLabel = cmp.Or(target.AriaLabel, p.AriaLabel)
	if target.ContentEditable == "" && !captioned[target.Tag] {
		target.ContentEditable = "true" // its text may have been typed
	}
	typ := activity.TypeClick
	if e.Type == eventChange {
		typ = activity.TypeChange
	}
	return activity.NewAction(typ, element.Target(typ, p.Elements, p.Text), p.PageURL)
}

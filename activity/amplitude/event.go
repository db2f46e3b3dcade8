package amplitude

import (
	"cmp"
	"maps"
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
	typ       string
	id        string // insert_id
	deviceID  string
	sessionID string // a number: two people can have the same one
	userID    string
	apiKey    string
	time      string // in milliseconds
	email     string
	proof     intake.Proof
	from, to  int64 // where the JSON of the properties begins and ends
	properties
}

// properties are the properties of an event that matter here.
type properties struct {
	location string // of the page, which may already be the next one
	pageURL  string // without a query
	text     string // of the target
	target   element.Element
	formName string
	formID   string
	elements []element.Element // from the target outwards
}

// decoder decodes one event at a time.
type decoder struct {
	*intake.Reader
	event event
}

// Next implements [intake.Decoder].
func (d *decoder) Next() (token string) {
	d.event = event{properties: properties{elements: d.event.elements[:0]}}
	d.Event(&d.event.id, func() { fields.Read(d.Reader, &d.event) })
	return d.event.apiKey
}

// fields are the places in an event that matter here.
var fields = intake.Fields[event]{
	"event_type": func(r *intake.Reader, e *event) { r.SetString(&e.typ, intake.MaxText) },
	"insert_id":  func(r *intake.Reader, e *event) { r.SetText(&e.id) },
	"device_id":  func(r *intake.Reader, e *event) { r.SetText(&e.deviceID) },
	"session_id": func(r *intake.Reader, e *event) { r.SetText(&e.sessionID) },
	"user_id":    func(r *intake.Reader, e *event) { r.SetText(&e.userID) },
	"api_key":    func(r *intake.Reader, e *event) { r.SetString(&e.apiKey, intake.MaxToken) },
	"time":       func(r *intake.Reader, e *event) { r.SetText(&e.time) },
	"event_properties": func(r *intake.Reader, e *event) {
		e.from = r.Offset()
		ofProperties.Read(r, e)
		e.to = r.Offset()
	},
	"user_properties": ofUser.Read,
}

var ofSet = intake.Traits(func(e *event) *string { return &e.email }, proof)

// ofUser are the places in the properties of a user, which may also be inside $set.
var ofUser = func() intake.Fields[event] {
	all := maps.Clone(ofSet)
	all["$set"] = ofSet.Read
	return all
}()

var ofProperties = intake.Fields[event]{
	"[Amplitude] Page Location": func(r *intake.Reader, e *event) { r.SetString(&e.location, intake.MaxURL) },
	"[Amplitude] Page URL":      func(r *intake.Reader, e *event) { r.SetString(&e.pageURL, intake.MaxURL) },
	"[Amplitude] Element Text":  func(r *intake.Reader, e *event) { r.SetString(&e.text, intake.MaxText) },
	"[Amplitude] Element Aria Label": func(r *intake.Reader, e *event) {
		r.SetString(&e.target.AriaLabel, intake.MaxText)
	},
	"[Amplitude] Element ID":        func(r *intake.Reader, e *event) { r.SetString(&e.target.ID, intake.MaxText) },
	"[Amplitude] Element Tag":       func(r *intake.Reader, e *event) { r.SetString(&e.target.Tag, intake.MaxText) },
	"[Amplitude] Form Name":         func(r *intake.Reader, e *event) { r.SetString(&e.formName, intake.MaxText) },
	"[Amplitude] Form ID":           func(r *intake.Reader, e *event) { r.SetString(&e.formID, intake.MaxText) },
	"[Amplitude] Element Hierarchy": hierarchy,
}.WithProof(proof)

func proof(e *event) *intake.Proof { return &e.proof }

// hierarchy reads the elements from the target outwards, at most maxElements of them.
func hierarchy(r *intake.Reader, e *event) {
	if r.Kind() == '[' {
		e.elements = e.elements[:0]
	}
	r.Array(maxElements, func() {
		var one element.Element
		ofElement.Read(r, &one)
		e.elements = append(e.elements, one)
	})
}

var ofElement = intake.Fields[element.Element]{
	"tag": func(r *intake.Reader, e *element.Element) { r.SetString(&e.Tag, intake.MaxText) },
	"id":  func(r *intake.Reader, e *element.Element) { r.SetString(&e.ID, intake.MaxText) },
	"classes": func(r *intake.Reader, e *element.Element) {
		r.Array(maxClasses, func() { e.Class += " " + r.Text(intake.MaxText) })
	},
	"attrs": func(r *intake.Reader, e *element.Element) {
		r.Object(func(key []byte) { attribute(r, e, key) })
	},
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
	value := ""
	r.SetText(&value)
	e.Set(name, value)
}

// Meaning implements [intake.Decoder]. The time in a webhook is the vendor's, which has already
// corrected it.
func (d *decoder) Meaning(from *intake.Request, m *intake.Meaning) {
	e := &d.event
	if e.typ == "" {
		m.Reason = intake.ReasonMalformed
		return
	}
	m.Key, m.Proof, m.SeeksSession = e.id, e.proof, true
	m.Event = e.who()
	switch e.typ {
	case eventPage, eventClick, eventChange, eventSubmit:
		action := e.action()
		if m.Action = &action; action.RawURL == "" && e.typ == eventPage {
			m.Reason = intake.ReasonMalformed
		}
		m.Markable = e.typ == eventClick && from.Events.Marks()
	case eventIdentify:
		m.NameVisitor()
	case eventRageClick, eventDeadClick:
		action := e.action()
		action.Marks = []string{from.Events.Mark(listedAs[e.typ])}
		if m.Action = &action; action.Marks[0] == "" {
			m.Reason = intake.ReasonOther
		}
	default:
		rule := from.Events.Find(e.typ)
		if rule == nil || isAmplitudes(e.typ) || e.typ == intake.EventException {
			m.Reason = intake.ReasonOther
			break
		}
		m.Action = rule.Action(e.typ, d.Reader, e.from, e.to, cmp.Or(e.pageURL, e.location))
	}
	m.ServerTime = from.Webhook
	m.Finish(from, e.time, from.SentAt)
}

// isAmplitudes reports whether an event is one that the SDKs send by themselves.
func isAmplitudes(typ string) bool {
	return typ == "session_start" || typ == "session_end" || strings.HasPrefix(typ, "[Amplitude] ") ||
		typ == "$groupidentify"
}

// who returns an event with the session and the user. An anonymous visitor is a user as well.
// The session is the device with its session number: numbers alone are not unique.
func (e *event) who() activity.Event {
	out := intake.Who(e.id, e.userID, e.deviceID, e.email)
	if number := intake.Trimmed(e.sessionID); out.Visitor != "" && number != "" && !strings.HasPrefix(number, "-") {
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
	switch e.typ {
	case eventPage:
		return intake.NewAction(activity.TypePageview, activity.Target{}, cmp.Or(e.location, e.pageURL))
	case eventSubmit:
		form := []element.Element{{Tag: "form", Name: e.formName, ID: e.formID}}
		return intake.NewAction(activity.TypeSubmit, element.Target(activity.TypeSubmit, form, ""), e.pageURL)
	}
	if len(e.elements) == 0 {
		e.elements = append(e.elements, element.Element{})
	}
	for i := range e.elements {
		e.elements[i].Fold()
	}
	target := &e.elements[0]
	target.Tag = cmp.Or(target.Tag, strings.ToLower(e.target.Tag))
	target.ID = cmp.Or(target.ID, e.target.ID)
	target.AriaLabel = cmp.Or(target.AriaLabel, e.target.AriaLabel)
	if target.ContentEditable == "" && !captioned[target.Tag] {
		target.ContentEditable = "true" // its text may have been typed
	}
	typ := activity.TypeClick
	if e.typ == eventChange {
		typ = activity.TypeChange
	}
	return intake.NewAction(typ, element.Target(typ, e.elements, e.text), e.pageURL)
}

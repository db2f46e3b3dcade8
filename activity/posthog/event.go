package posthog

import (
	"cmp"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/element"
)

// An event comes in three forms, which this file reads as one: an SDK's, with everything in
// properties; a webhook's, {"event": {…}, "person": {…}}; and the flat fields of a custom
// destination. A field that occurs in several places is stored for each place, and its readers
// choose later. All fields are read in one pass, in any order.

// maxChain is how many bytes of an elements chain are read.
const maxChain = 128 << 10

// traits are the properties of a person that matter here.
type traits struct {
	email string
	proof intake.Proof
}

// properties are the properties of an event that matter here. The slice of elements is
// reused for the next event.
type properties struct {
	distinctID    string
	userID        string // from identify on
	isIdentified  bool
	anonID        string // $anon_distinct_id
	token         string
	sessionID     string
	currentURL    string
	screenName    string
	eventType     string
	elText        string
	deadClickAt   string // the time of the click, in milliseconds by the sender's clock
	elementsChain string
	elements      []element.Element
	set           traits
	proof         intake.Proof
}

// event is an event in any of the forms it comes in: as SDKs send it, as
// PostHog hands it to webhooks, and the flat fields of a custom destination.
// Its strings are bounded copies.
type event struct {
	name string

	uuid          string
	digest        string // half a SHA-256 of the JSON as a UUID, only without one
	distinctID    string
	properties    properties
	timestamp     string
	offset        string // a number: milliseconds before sending
	sentAt        string
	clockIsRight  bool // the sender vouches for the timestamp
	set           traits
	elementsChain string
	from, to      int64 // where the JSON of the properties begins and ends
	apiKey        string
	token         string
	person        struct{ properties traits }

	email            string
	elementID        string
	eventType        string
	sessionID        string
	currentURL       string
	inputFieldName   string
	linkDestination  string
	buttonOrLinkText string
}

// token returns the capture token that the event itself carries.
func (e *event) projectToken() string { return cmp.Or(e.apiKey, e.token, e.properties.token) }

// proof returns the event's evidence of its user: a hash or a token.
func (e *event) proof() intake.Proof {
	return e.properties.proof.Or(e.properties.set.proof).Or(e.set.proof).Or(e.person.properties.proof)
}

// readEvent reads an event, which is an object. A nil inner means that this is the inner event:
// events do not nest any deeper.
func (d *decoder) readEvent(e, inner *event) {
	*e = event{properties: properties{elements: e.properties.elements[:0]}}
	d.Object(func(key []byte) {
		if inner != nil && string(key) == "event" && d.Kind() == '{' {
			d.wrapped = true
			d.readEvent(inner, nil)
			return
		}
		fields.Field(d.Reader, e, key)
	})
}

// fields are the places in an event, and in a custom destination's payload, that matter
// here. A value of a wrong type changes nothing.
var fields = intake.Fields[event]{
	"event":       func(r *intake.Reader, e *event) { r.SetString(&e.name, intake.MaxText) },
	"uuid":        func(r *intake.Reader, e *event) { r.SetText(&e.uuid) },
	"distinct_id": func(r *intake.Reader, e *event) { r.SetText(&e.distinctID) },
	"properties": func(r *intake.Reader, e *event) {
		e.from = r.Offset()
		ofProperties.Read(r, &e.properties)
		e.to = r.Offset()
	},
	"timestamp": func(r *intake.Reader, e *event) { r.SetText(&e.timestamp) },
	"offset": func(r *intake.Reader, e *event) {
		if r.Kind() == '"' {
			r.Skip()
			return
		}
		r.SetText(&e.offset)
	},
	"sent_at": func(r *intake.Reader, e *event) { r.SetText(&e.sentAt) },
	"options": intake.Fields[event]{
		"disable_skew_correction": func(r *intake.Reader, e *event) { e.clockIsRight = r.Bool() },
	}.Read,
	"$set": func(r *intake.Reader, e *event) { ofPerson.Read(r, &e.set) },
	"person": intake.Fields[event]{
		"properties": func(r *intake.Reader, e *event) { ofPerson.Read(r, &e.person.properties) },
	}.Read,
	"elements_chain": func(r *intake.Reader, e *event) { r.SetString(&e.elementsChain, maxChain) },
	"api_key":        func(r *intake.Reader, e *event) { r.SetString(&e.apiKey, intake.MaxToken) },
	"token":          func(r *intake.Reader, e *event) { r.SetString(&e.token, intake.MaxToken) },

	"email":               func(r *intake.Reader, e *event) { r.SetString(&e.email, intake.MaxText) },
	"element_id":          func(r *intake.Reader, e *event) { r.SetString(&e.elementID, intake.MaxText) },
	"event_type":          func(r *intake.Reader, e *event) { r.SetString(&e.eventType, intake.MaxText) },
	"session_id":          func(r *intake.Reader, e *event) { r.SetText(&e.sessionID) },
	"current_url":         func(r *intake.Reader, e *event) { r.SetString(&e.currentURL, intake.MaxURL) },
	"input_field_name":    func(r *intake.Reader, e *event) { r.SetString(&e.inputFieldName, intake.MaxText) },
	"link_destination":    func(r *intake.Reader, e *event) { r.SetString(&e.linkDestination, intake.MaxText) },
	"button_or_link_text": func(r *intake.Reader, e *event) { r.SetString(&e.buttonOrLinkText, intake.MaxText) },
}

var ofProperties = intake.Fields[properties]{
	"distinct_id":                 func(r *intake.Reader, p *properties) { r.SetText(&p.distinctID) },
	"$user_id":                    func(r *intake.Reader, p *properties) { r.SetText(&p.userID) },
	"$anon_distinct_id":           func(r *intake.Reader, p *properties) { r.SetText(&p.anonID) },
	"$is_identified":              func(r *intake.Reader, p *properties) { p.isIdentified = r.Bool() },
	"token":                       func(r *intake.Reader, p *properties) { r.SetString(&p.token, intake.MaxToken) },
	"$session_id":                 func(r *intake.Reader, p *properties) { r.SetText(&p.sessionID) },
	"$current_url":                func(r *intake.Reader, p *properties) { r.SetString(&p.currentURL, intake.MaxURL) },
	"$screen_name":                func(r *intake.Reader, p *properties) { r.SetString(&p.screenName, intake.MaxText) },
	"$event_type":                 func(r *intake.Reader, p *properties) { r.SetString(&p.eventType, intake.MaxText) },
	"$el_text":                    func(r *intake.Reader, p *properties) { r.SetString(&p.elText, intake.MaxText) },
	"$dead_click_event_timestamp": func(r *intake.Reader, p *properties) { r.SetText(&p.deadClickAt) },
	"$elements_chain":             func(r *intake.Reader, p *properties) { r.SetString(&p.elementsChain, maxChain) },
	"$elements":                   elements,
	"$set":                        func(r *intake.Reader, p *properties) { ofPerson.Read(r, &p.set) },
}.WithProof(func(p *properties) *intake.Proof { return &p.proof })

var ofPerson = intake.Traits(func(t *traits) *string { return &t.email },
	func(t *traits) *intake.Proof { return &t.proof })

// elements reads the elements from the target outwards, at most maxElements of them.
func elements(r *intake.Reader, p *properties) {
	if r.Kind() == '[' {
		p.elements = p.elements[:0]
	}
	r.Array(maxElements+1, func() {
		if len(p.elements) == maxElements {
			p.elements = append(p.elements, element.Unread)
			r.Skip()
			return
		}
		var e element.Element
		r.Object(func(key []byte) { attribute(r, &e, key) })
		p.elements = append(p.elements, e)
	})
}

// attribute reads an attribute of an element. Only a flag may be something other than a string.
func attribute(r *intake.Reader, e *element.Element, key []byte) {
	value := e.Attribute(string(key))
	switch {
	case string(key) == "attributes": // of an element as PostHog stores it
		r.Object(func(key []byte) { attribute(r, e, key) })
	case value == nil, string(key) == "text", string(key) == "attr_id": // keys of a chain
		r.Skip()
	case value == &e.ContentEditable, r.Kind() == '"':
		e.Set(string(key), r.Text(intake.MaxText))
	default:
		r.Skip()
	}
}

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
	Email string
	Proof intake.Proof
}

// properties are the properties of an event that matter here. The slice of Elements is
// reused for the next event.
type properties struct {
	DistinctID    string
	UserID        string // from identify on
	IsIdentified  bool
	AnonID        string // $anon_distinct_id
	Token         string
	SessionID     string
	CurrentURL    string
	ScreenName    string
	EventType     string
	ElText        string
	DeadClickAt   string // the time of the click, in milliseconds by the sender's clock
	ElementsChain string
	Elements      []element.Element
	Set           traits
	Proof         intake.Proof
}

// event is an event in any of the forms it comes in: as SDKs send it, as
// PostHog hands it to webhooks, and the flat fields of a custom destination.
// Its strings are bounded copies.
type event struct {
	Name string

	UUID          string
	Digest        string // half a SHA-256 of the JSON as a UUID, only without one
	DistinctID    string
	Properties    properties
	Timestamp     string
	Offset        string // a number: milliseconds before sending
	SentAt        string
	ClockIsRight  bool // the sender vouches for the timestamp
	Set           traits
	ElementsChain string
	From, To      int64 // where the JSON of the properties begins and ends
	APIKey        string
	Token         string
	Person        struct{ Properties traits }

	Email            string
	ElementID        string
	EventType        string
	SessionID        string
	CurrentURL       string
	InputFieldName   string
	LinkDestination  string
	ButtonOrLinkText string
}

// token returns the project token that the event itself carries.
func (e *event) token() string { return cmp.Or(e.APIKey, e.Token, e.Properties.Token) }

// proof returns the event's evidence of its user: a hash or a token.
func (e *event) proof() intake.Proof {
	return e.Properties.Proof.Or(e.Properties.Set.Proof).Or(e.Set.Proof).Or(e.Person.Properties.Proof)
}

// readEvent reads an event, which is an object. A nil inner means that this is the inner event:
// events do not nest any deeper.
func (r *reader) readEvent(e, inner *event) {
	*e = event{Properties: properties{Elements: e.Properties.Elements[:0]}}
	r.Object(func(key []byte) {
		if inner != nil && string(key) == "event" && r.Kind() == '{' {
			r.wrapped = true
			r.readEvent(inner, nil)
			return
		}
		fields.Field(r.Reader, e, key)
	})
}

// fields are the places in an event, and in a custom destination's payload, that matter
// here. A value of a wrong type changes nothing.
var fields = intake.Fields[event]{
	"event":       func(r *intake.Reader, e *event) { r.SetString(&e.Name, intake.MaxText) },
	"uuid":        func(r *intake.Reader, e *event) { r.SetText(&e.UUID) },
	"distinct_id": func(r *intake.Reader, e *event) { r.SetText(&e.DistinctID) },
	"properties": func(r *intake.Reader, e *event) {
		e.From = r.Offset()
		ofProperties.Read(r, &e.Properties)
		e.To = r.Offset()
	},
	"timestamp": func(r *intake.Reader, e *event) { r.SetText(&e.Timestamp) },
	"offset": func(r *intake.Reader, e *event) {
		if r.Kind() == '"' {
			r.Skip()
			return
		}
		r.SetText(&e.Offset)
	},
	"sent_at": func(r *intake.Reader, e *event) { r.SetText(&e.SentAt) },
	"options": intake.Fields[event]{
		"disable_skew_correction": func(r *intake.Reader, e *event) { e.ClockIsRight = r.Bool() },
	}.Read,
	"$set": func(r *intake.Reader, e *event) { ofPerson.Read(r, &e.Set) },
	"person": intake.Fields[event]{
		"properties": func(r *intake.Reader, e *event) { ofPerson.Read(r, &e.Person.Properties) },
	}.Read,
	"elements_chain": func(r *intake.Reader, e *event) { r.SetString(&e.ElementsChain, maxChain) },
	"api_key":        func(r *intake.Reader, e *event) { r.SetString(&e.APIKey, intake.MaxToken) },
	"token":          func(r *intake.Reader, e *event) { r.SetString(&e.Token, intake.MaxToken) },

	"email":               func(r *intake.Reader, e *event) { r.SetString(&e.Email, intake.MaxText) },
	"element_id":          func(r *intake.Reader, e *event) { r.SetString(&e.ElementID, intake.MaxText) },
	"event_type":          func(r *intake.Reader, e *event) { r.SetString(&e.EventType, intake.MaxText) },
	"session_id":          func(r *intake.Reader, e *event) { r.SetText(&e.SessionID) },
	"current_url":         func(r *intake.Reader, e *event) { r.SetString(&e.CurrentURL, intake.MaxURL) },
	"input_field_name":    func(r *intake.Reader, e *event) { r.SetString(&e.InputFieldName, intake.MaxText) },
	"link_destination":    func(r *intake.Reader, e *event) { r.SetString(&e.LinkDestination, intake.MaxText) },
	"button_or_link_text": func(r *intake.Reader, e *event) { r.SetString(&e.ButtonOrLinkText, intake.MaxText) },
}

var ofProperties = intake.Fields[properties]{
	"distinct_id":                 func(r *intake.Reader, p *properties) { r.SetText(&p.DistinctID) },
	"$user_id":                    func(r *intake.Reader, p *properties) { r.SetText(&p.UserID) },
	"$anon_distinct_id":           func(r *intake.Reader, p *properties) { r.SetText(&p.AnonID) },
	"$is_identified":              func(r *intake.Reader, p *properties) { p.IsIdentified = r.Bool() },
	"token":                       func(r *intake.Reader, p *properties) { r.SetString(&p.Token, intake.MaxToken) },
	"$session_id":                 func(r *intake.Reader, p *properties) { r.SetText(&p.SessionID) },
	"$current_url":                func(r *intake.Reader, p *properties) { r.SetString(&p.CurrentURL, intake.MaxURL) },
	"$screen_name":                func(r *intake.Reader, p *properties) { r.SetString(&p.ScreenName, intake.MaxText) },
	"$event_type":                 func(r *intake.Reader, p *properties) { r.SetString(&p.EventType, intake.MaxText) },
	"$el_text":                    func(r *intake.Reader, p *properties) { r.SetString(&p.ElText, intake.MaxText) },
	"$dead_click_event_timestamp": func(r *intake.Reader, p *properties) { r.SetText(&p.DeadClickAt) },
	"$elements_chain":             func(r *intake.Reader, p *properties) { r.SetString(&p.ElementsChain, maxChain) },
	"$elements":                   elements,
	"$set":                        func(r *intake.Reader, p *properties) { ofPerson.Read(r, &p.Set) },
}.WithProof(func(p *properties) *intake.Proof { return &p.Proof })

var ofPerson = intake.Traits(func(t *traits) *string { return &t.Email },
	func(t *traits) *intake.Proof { return &t.Proof })

// elements reads the elements from the target outwards, at most maxElements of them.
func elements(r *intake.Reader, p *properties) {
	if r.Kind() == '[' {
		p.Elements = p.Elements[:0]
	}
	r.Array(maxElements+1, func() {
		if len(p.Elements) == maxElements {
			p.Elements = append(p.Elements, element.Unread)
			r.Skip()
			return
		}
		var e element.Element
		r.Object(func(key []byte) { attribute(r, &e, key) })
		p.Elements = append(p.Elements, e)
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

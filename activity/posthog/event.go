package posthog

import (
	"cmp"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/element"
)

// An event comes in three forms, which this reads as one: an SDK's, with everything in
// properties; a webhook's, {"event": {…}, "person": {…}}; and the flat fields of a custom
// destination. A field that is in several places is stored in each, and First chooses later.
// All fields are read in one pass, in any order.

// maxChain is how many bytes of an elements chain are read.
const maxChain = 128 << 10

// traits are the properties of a person that matter here.
type traits struct {
	Email string
	Proof intake.Proof
}

// properties are the properties of an event that matter here. The slice of Elements is used
// again for the next event.
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
	Offset        *float64 // milliseconds before sending
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

// token returns the project token the event carries itself.
func (e *event) token() string { return cmp.Or(e.APIKey, e.Token, e.Properties.Token) }

// proof returns the event's evidence of its user: a hash or a token.
func (e *event) proof() intake.Proof {
	return e.Properties.Proof.Or(e.Properties.Set.Proof).Or(e.Set.Proof).Or(e.Person.Properties.Proof)
}

// fields reads an event, which is an object. A nil inner means that it is the inner one: events
// do not nest any deeper.
func (r *reader) fields(e, inner *event) {
	*e = event{Properties: properties{Elements: e.Properties.Elements[:0]}}
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		r.field(e, inner, key)
	}
}

// field reads one field of an event. One of a wrong type changes nothing.
func (r *reader) field(e, inner *event, key []byte) {
	switch string(key) {
	case "event":
		if r.Kind() == '{' && inner != nil {
			r.wrapped = true
			r.fields(inner, nil)
			return
		}
		r.SetString(&e.Name, intake.MaxText)
	case "uuid":
		r.SetText(&e.UUID)
	case "distinct_id":
		r.SetText(&e.DistinctID)
	case "properties":
		e.From = r.Offset()
		r.Object(func(key []byte) { r.property(&e.Properties, key) })
		e.To = r.Offset()
	case "timestamp":
		r.SetText(&e.Timestamp)
	case "offset":
		if f, ok := r.Float(); ok {
			e.Offset = &f
		}
	case "sent_at":
		r.SetText(&e.SentAt)
	case "options":
		r.Field("disable_skew_correction", func() { e.ClockIsRight = r.Bool() })
	case "$set":
		r.traits(&e.Set)
	case "person":
		r.Field("properties", func() { r.traits(&e.Person.Properties) })
	case "elements_chain":
		r.SetString(&e.ElementsChain, maxChain)
	case "api_key":
		r.SetString(&e.APIKey, intake.MaxToken)
	case "token":
		r.SetString(&e.Token, intake.MaxToken)
	default:
		r.flat(e, key)
	}
}

// flat reads a field that only a custom destination's payload has.
func (r *reader) flat(e *event, key []byte) {
	switch string(key) {
	case "email":
		r.SetString(&e.Email, intake.MaxText)
	case "element_id":
		r.SetString(&e.ElementID, intake.MaxText)
	case "event_type":
		r.SetString(&e.EventType, intake.MaxText)
	case "session_id":
		r.SetText(&e.SessionID)
	case "current_url":
		r.SetString(&e.CurrentURL, intake.MaxURL)
	case "input_field_name":
		r.SetString(&e.InputFieldName, intake.MaxText)
	case "link_destination":
		r.SetString(&e.LinkDestination, intake.MaxText)
	case "button_or_link_text":
		r.SetString(&e.ButtonOrLinkText, intake.MaxText)
	default:
		r.Skip()
	}
}

// property reads one of an event's properties.
func (r *reader) property(p *properties, key []byte) {
	switch string(key) {
	case "distinct_id":
		r.SetText(&p.DistinctID)
	case "$user_id":
		r.SetText(&p.UserID)
	case "$anon_distinct_id":
		r.SetText(&p.AnonID)
	case "$is_identified":
		p.IsIdentified = r.Bool()
	case "token":
		r.SetString(&p.Token, intake.MaxToken)
	case "$session_id":
		r.SetText(&p.SessionID)
	case "$current_url":
		r.SetString(&p.CurrentURL, intake.MaxURL)
	case "$screen_name":
		r.SetString(&p.ScreenName, intake.MaxText)
	case "$event_type":
		r.SetString(&p.EventType, intake.MaxText)
	case "$el_text":
		r.SetString(&p.ElText, intake.MaxText)
	case "$dead_click_event_timestamp":
		r.SetText(&p.DeadClickAt)
	case "$elements_chain":
		r.SetString(&p.ElementsChain, maxChain)
	case "$elements":
		r.elements(p)
	case "$set":
		r.traits(&p.Set)
	default:
		r.SetProof(&p.Proof, key)
	}
}

// elements reads the elements from the target outwards, as many as are looked at.
func (r *reader) elements(p *properties) {
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
		r.Object(func(key []byte) { r.attribute(&e, key) })
		p.Elements = append(p.Elements, e)
	})
}

// attribute reads an attribute of an element. Only one that is a flag may be no string.
func (r *reader) attribute(e *element.Element, key []byte) {
	value := e.Attribute(string(key))
	switch {
	case string(key) == "attributes": // of an element as PostHog stores it
		r.Object(func(key []byte) { r.attribute(e, key) })
	case value == nil, string(key) == "text", string(key) == "attr_id": // those are a chain's
		r.Skip()
	case value == (*string)(&e.ContentEditable):
		*value = cmp.Or(r.Text(intake.MaxText), "true")
	case r.Kind() == '"':
		*value = r.String(intake.MaxText)
	default:
		r.Skip()
	}
}

// traits reads the properties of a person.
func (r *reader) traits(t *traits) {
	r.Object(func(key []byte) { r.SetTrait(&t.Email, &t.Proof, key) })
}

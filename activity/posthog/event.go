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

// chain is the start of an elements chain.
type chain string

// Read implements [intake.Value].
func (c *chain) Read(r *intake.Reader) { r.SetString((*string)(c), maxChain) }

// properties are the properties of an event that matter here. The slice of elements is
// reused for the next event.
type properties struct {
	intake.Span
	intake.Proof
	DistinctID    string        `in:"distinct_id,scalar"`
	UserID        string        `in:"$user_id,scalar"` // from identify on
	IsIdentified  bool          `in:"$is_identified"`
	AnonID        string        `in:"$anon_distinct_id,scalar"`
	ProjectToken  string        `in:"token,token"`
	SessionID     string        `in:"$session_id,scalar"`
	CurrentURL    string        `in:"$current_url,url"`
	ScreenName    string        `in:"$screen_name"`
	EventType     string        `in:"$event_type"`
	ElText        string        `in:"$el_text"`
	DeadClickAt   string        `in:"$dead_click_event_timestamp,scalar"` // in milliseconds by the sender's clock
	ElementsChain chain         `in:"$elements_chain"`
	Elements      elements      `in:"$elements"`
	Set           intake.Traits `in:"$set"`
}

// event is an event in any of the forms it comes in: as SDKs send it, as
// PostHog hands it to webhooks, and the flat fields of a custom destination.
// Its strings are bounded copies.
type event struct {
	digest string // half a SHA-256 of the JSON as a UUID, only without a UUID

	Name       string     `in:"event"`
	UUID       string     `in:"uuid,scalar"`
	DistinctID string     `in:"distinct_id,scalar"`
	Properties properties `in:"properties"`
	Timestamp  string     `in:"timestamp,scalar"`
	Offset     offset     `in:"offset"`
	SentAt     string     `in:"sent_at,scalar"`
	Options    struct {
		ClockIsRight bool `in:"disable_skew_correction"` // the sender vouches for the timestamp
	} `in:"options"`
	Set           intake.Traits `in:"$set"`
	ElementsChain chain         `in:"elements_chain"`
	APIKey        string        `in:"api_key,token"`
	Token         string        `in:"token,token"`
	Person        struct {
		Properties intake.Traits `in:"properties"`
	} `in:"person"`

	Email            string `in:"email"`
	ElementID        string `in:"element_id"`
	EventType        string `in:"event_type"`
	SessionID        string `in:"session_id,scalar"`
	CurrentURL       string `in:"current_url,url"`
	InputFieldName   string `in:"input_field_name"`
	LinkDestination  string `in:"link_destination"`
	ButtonOrLinkText string `in:"button_or_link_text"`
}

var fields = intake.FieldsOf[event]()

// projectToken returns the capture token that the event itself carries.
func (e *event) projectToken() string { return cmp.Or(e.APIKey, e.Token, e.Properties.ProjectToken) }

// proof returns the event's evidence of its user: a hash or a token.
func (e *event) proof() intake.Proof {
	return e.Properties.Proof.Or(e.Properties.Set.Proof).Or(e.Set.Proof).Or(e.Person.Properties.Proof)
}

// readEvent reads an event, which is an object. A nil inner means that this is the inner event:
// events do not nest any deeper.
func (d *decoder) readEvent(e, inner *event) {
	*e = event{Properties: properties{Elements: e.Properties.Elements[:0]}}
	d.Object(func(key []byte) {
		if inner != nil && string(key) == "event" && d.Kind() == '{' {
			d.wrapped = true
			d.readEvent(inner, nil)
			return
		}
		fields.Field(d.Reader, e, key)
	})
}

// offset is a number of milliseconds before sending.
type offset string

// Read implements [intake.Value].
func (o *offset) Read(r *intake.Reader) {
	if r.Kind() == '"' {
		r.Skip()
		return
	}
	r.SetText((*string)(o))
}

// elements are the elements of an event from the target outwards, at most maxElements of them.
type elements []element.Element

// Read implements [intake.Value].
func (es *elements) Read(r *intake.Reader) {
	if r.Kind() == '[' {
		*es = (*es)[:0]
	}
	r.Array(maxElements+1, func() {
		if len(*es) == maxElements {
			*es = append(*es, element.Unread)
			r.Skip()
			return
		}
		var e element.Element
		r.Object(func(key []byte) { attribute(r, &e, key) })
		*es = append(*es, e)
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

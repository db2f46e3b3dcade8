package posthog

import (
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// How many bytes of a string are read, at most: more than are used of it, so that an
// id that is too long still is.
const (
	maxText      = 2 * maxID // of ids, names, times and labels
	maxLongURL   = 65 << 10  // activity.CleanURL reads 64 KiB to leave secrets out
	maxChain     = 32 << 10
	maxTokenText = 256
)

// text is a JSON string, or a number or boolean taken as one. Anything else is
// empty. PostHog's own servers are as lenient with ids.
type text string

// traits are the properties of a person that matter here.
type traits struct {
	Email string
	Proof intake.Proof
}

// properties are the properties of an event that matter here.
type properties struct {
	DistinctID    text
	UserID        text // from identify on
	IsIdentified  bool
	AnonID        text // $anon_distinct_id
	Token         string
	SessionID     text
	CurrentURL    string
	ScreenName    string
	EventType     string
	ElText        string
	ElementsChain string
	Elements      []element
	Set           traits
	Proof         intake.Proof
}

// event is an event in any of the forms it comes in: as SDKs send it, as
// PostHog hands it to webhooks, and the flat fields of a custom destination.
// Its strings are bounded copies.
type event struct {
	Name string

	UUID          text
	Digest        text // half a SHA-256 of the JSON as a UUID, only without one
	DistinctID    text
	Properties    properties
	Timestamp     text
	Offset        *float64 // milliseconds before sending
	SentAt        text
	ClockIsRight  bool // the sender vouches for the timestamp
	Set           traits
	ElementsChain string
	APIKey        string
	Token         string
	Person        struct{ Properties traits }

	Email            string
	ElementID        string
	EventType        string
	SessionID        text
	CurrentURL       string
	InputFieldName   string
	LinkDestination  string
	ButtonOrLinkText string
}

// token returns the project token the event carries itself.
func (e *event) token() string { return first(e.APIKey, e.Token, e.Properties.Token) }

// proof returns the event's evidence of its user: a hash or a token.
func (e *event) proof() intake.Proof {
	return e.Properties.Proof.Or(e.Properties.Set.Proof).Or(e.Set.Proof).Or(e.Person.Properties.Proof)
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// fields reads an event. A nil inner means that it is the inner one: events do
// not nest any deeper.
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
		r.word(&e.Name)
	case "uuid":
		r.text(&e.UUID)
	case "distinct_id":
		r.text(&e.DistinctID)
	case "properties":
		r.object(func(key []byte) { r.property(&e.Properties, key) })
	case "timestamp":
		r.text(&e.Timestamp)
	case "offset":
		if f, ok := r.Float(); ok {
			e.Offset = &f
		}
	case "sent_at":
		r.text(&e.SentAt)
	case "options":
		r.object(func(key []byte) {
			if string(key) != "disable_skew_correction" {
				r.Skip()
				return
			}
			e.ClockIsRight = r.Bool()
		})
	case "$set":
		r.traits(&e.Set)
	case "person":
		r.object(func(key []byte) {
			if string(key) != "properties" {
				r.Skip()
				return
			}
			r.traits(&e.Person.Properties)
		})
	case "elements_chain":
		r.string(&e.ElementsChain, maxChain)
	case "api_key":
		r.string(&e.APIKey, maxTokenText)
	case "token":
		r.string(&e.Token, maxTokenText)
	default:
		r.flat(e, key)
	}
}

// flat reads a field that only a custom destination's payload has.
func (r *reader) flat(e *event, key []byte) {
	switch string(key) {
	case "email":
		r.string(&e.Email, maxText)
	case "element_id":
		r.string(&e.ElementID, maxText)
	case "event_type":
		r.string(&e.EventType, maxText)
	case "session_id":
		r.text(&e.SessionID)
	case "current_url":
		r.string(&e.CurrentURL, maxLongURL)
	case "input_field_name":
		r.string(&e.InputFieldName, maxText)
	case "link_destination":
		r.string(&e.LinkDestination, maxText)
	case "button_or_link_text":
		r.string(&e.ButtonOrLinkText, maxText)
	default:
		r.Skip()
	}
}

// property reads one of an event's properties.
func (r *reader) property(p *properties, key []byte) {
	switch string(key) {
	case "distinct_id":
		r.text(&p.DistinctID)
	case "$user_id":
		r.text(&p.UserID)
	case "$anon_distinct_id":
		r.text(&p.AnonID)
	case "$is_identified":
		p.IsIdentified = r.Bool()
	case "token":
		r.string(&p.Token, maxTokenText)
	case "$session_id":
		r.text(&p.SessionID)
	case "$current_url":
		r.string(&p.CurrentURL, maxLongURL)
	case "$screen_name":
		r.string(&p.ScreenName, maxText)
	case "$event_type":
		r.word(&p.EventType)
	case "$el_text":
		r.string(&p.ElText, maxText)
	case "$elements_chain":
		r.string(&p.ElementsChain, maxChain)
	case "$elements":
		r.elements(p)
	case "$set":
		r.traits(&p.Set)
	default:
		r.proof(&p.Proof, key)
	}
}

// proof reads a property that proves an identity, and skips any other.
func (r *reader) proof(p *intake.Proof, key []byte) {
	if field := p.Field(string(key)); field != nil {
		r.string(field, intake.MaxProof)
		return
	}
	r.Skip()
}

// elements reads the elements from the target outwards, as many as are looked at.
func (r *reader) elements(p *properties) {
	if r.Kind() != '[' {
		r.Skip()
		return
	}
	p.Elements = p.Elements[:0]
	for r.BeginArray(); r.Element(); {
		if len(p.Elements) == maxElements {
			r.Skip()
			continue
		}
		var e element
		r.object(func(key []byte) { r.attribute(&e, key) })
		p.Elements = append(p.Elements, e)
	}
}

// attribute reads an attribute of an element. Only one that is a flag may be no string.
func (r *reader) attribute(e *element, key []byte) {
	value := e.attribute(string(key))
	switch {
	case value == nil, string(key) == "text", string(key) == "attr_id": // those are a chain's
		r.Skip()
	case value == (*string)(&e.ContentEditable):
		*value = first(r.Text(maxText), "true")
	case r.Kind() == '"':
		*value = r.String(maxText)
	default:
		r.Skip()
	}
}

func (r *reader) traits(t *traits) {
	r.object(func(key []byte) {
		if string(key) == "email" {
			r.string(&t.Email, maxText)
			return
		}
		r.proof(&t.Proof, key)
	})
}

// object calls field, which reads the value, for each key of an object.
func (r *reader) object(field func(key []byte)) {
	if r.Kind() != '{' {
		r.Skip()
		return
	}
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		field(key)
	}
}

// words are the values that most events have in some field: they cost no copy.
var words = func() map[string]string {
	m := map[string]string{}
	for _, word := range []string{eventPageview, eventScreen, eventAutocapture, eventIdentify, eventSet, eventAlias, "$pageleave",
		activity.TypeClick, activity.TypeSubmit, activity.TypeChange, typeTouch} {
		m[word] = word
	}
	return m
}()

// word reads a string that may be one of words.
func (r *reader) word(s *string) {
	if r.Kind() != '"' {
		r.Skip()
		return
	}
	r.buf = r.AppendString(r.buf[:0], maxText)
	if word, ok := words[string(r.buf)]; ok {
		*s = word
		return
	}
	*s = string(r.buf)
}

func (r *reader) string(s *string, limit int) {
	if r.Kind() != '"' {
		r.Skip()
		return
	}
	*s = r.String(limit)
}

func (r *reader) text(t *text) {
	switch r.Kind() {
	case '{', '[', 'n':
		r.Skip()
	default:
		*t = text(r.Text(maxText))
	}
}

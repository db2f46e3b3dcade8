package posthog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// maxEvents is how many events one request may bring. SDKs send tens.
const maxEvents = 10_000

// How many bytes of a string are read, at most: more than what is used of it. An
// id that is longer than it may be is thereby still longer.
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
type traits struct{ Email string }

// properties are those of an event's properties that matter here.
type properties struct {
	DistinctID    text
	UserID        text // from identify on
	IsIdentified  bool
	Token         string
	SessionID     text
	CurrentURL    string
	ScreenName    string
	EventType     string
	ElText        string
	ElementsChain string
	Elements      []element
	Set           traits
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

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// envelope is what a request says once for all its events.
type envelope struct {
	APIKey, Token string
	SentAt        text
}

// readPayload reads a body and calls yield for every event in it, one at a time;
// the event is reused for the next one. One that is not a JSON object is yielded
// as nil. The envelope is complete only when readPayload returns.
func readPayload(json *jsonscan.Scanner, yield func(*event)) (envelope, error) {
	r := &payloadReader{Scanner: json, digest: sha256.New(), yield: yield}
	var env envelope
	switch r.Kind() {
	case '[':
		r.events("The request body")
	case '{':
		env = r.request()
	default:
		r.refuse(httpx.BadRequest("The request body must be a JSON object or array."))
	}
	return env, r.end()
}

// payloadReader reads events. It needs one of each kind, whatever the body
// contains.
type payloadReader struct {
	*jsonscan.Scanner
	digest hash.Hash // of the event's JSON
	sum    []byte    // the digest
	yield  func(*event)
	batch  bool // the body is {"batch": […]}
	answer error

	event, inner event
	wrapped      bool // the event is the inner one
}

// refuse ends reading with an answer.
func (r *payloadReader) refuse(answer error) {
	if r.Err() == nil && r.answer == nil {
		r.answer = answer
	}
}

// end makes sure that nothing follows, and returns what is wrong with the body.
func (r *payloadReader) end() error {
	if r.answer != nil {
		return r.answer
	}
	return endOf(r.Scanner)
}

// endOf makes sure that nothing follows, and returns the answer to what is wrong.
func endOf(s *jsonscan.Scanner) error {
	broken := s.Err()
	s.End()
	var mistake *jsonscan.SyntaxError
	switch err := s.Err(); {
	case err == nil:
		return nil
	case broken == nil && errors.As(err, &mistake):
		return httpx.BadRequest("Something follows the end of the JSON in the request body, at byte %d.", mistake.Offset)
	case errors.As(err, &mistake):
		return &httpx.Error{Status: http.StatusBadRequest, Cause: err,
			Detail: fmt.Sprintf("The request body is not valid JSON: the mistake is near byte %d.", mistake.Offset)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &httpx.Error{Status: http.StatusBadRequest, Detail: "The JSON of the request body breaks off before its end.", Cause: err}
	case errors.As(err, new(*httpx.Error)):
		return err
	default: // of what is around the JSON
		return &httpx.Error{Status: http.StatusBadRequest, Detail: "The base64 data of the request body is damaged.", Cause: err}
	}
}

// request reads {"batch": […], …}, or else the one event that the body is.
func (r *payloadReader) request() envelope {
	var whole event
	r.beginDigest()
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		if string(key) != "batch" || r.batch {
			r.field(&whole, &r.inner, string(key))
			continue
		}
		r.batch = true
		if r.events("The field batch"); r.answer != nil {
			return envelope{}
		}
	}
	if !r.batch {
		r.emit(&whole)
	}
	return envelope{APIKey: whole.APIKey, Token: whole.Token, SentAt: whole.SentAt}
}

// events reads an array of events.
func (r *payloadReader) events(what string) {
	if kind := r.Kind(); kind != '[' {
		if kind != 0 {
			r.refuse(httpx.BadRequest("%s must be an array of events.", what))
		}
		return
	}
	count := 0
	for r.BeginArray(); r.Element(); {
		if count++; count > maxEvents {
			r.refuse(httpx.Errorf(http.StatusRequestEntityTooLarge, "The request brings more than the limit of %d events.", maxEvents))
			return
		}
		if r.Kind() != '{' {
			r.Skip()
			r.yield(nil)
			continue
		}
		r.beginDigest()
		r.wrapped = false // whatever stands beside the array
		r.fields(&r.event, &r.inner)
		r.emit(&r.event)
	}
}

// beginDigest begins the digest of the event that comes next.
func (r *payloadReader) beginDigest() {
	r.digest.Reset()
	r.Tee(r.digest)
}

// emit yields the event that was read: the one inside a webhook body
// together with the person beside it. One without an id gets a digest of its
// JSON for one.
func (r *payloadReader) emit(e *event) {
	if r.Err() != nil {
		return
	}
	if r.wrapped {
		outer := e
		e = &r.inner
		if outer.Person.Properties.Email != "" {
			e.Person = outer.Person
		}
		e.SentAt = text(first(string(e.SentAt), string(outer.SentAt)))
		e.APIKey = first(e.token(), outer.token())
	}
	if e.UUID = text(trimmed(string(e.UUID))); e.UUID == "" {
		r.EndTee()
		r.sum = r.digest.Sum(r.sum[:0])
		e.Digest = text(uuid.UUID(r.sum[:len(uuid.UUID{})]).String())
	}
	r.Tee(nil)
	r.yield(e)
}

// fields reads an event. A nil inner means that it is the inner one: events do
// not nest any deeper.
func (r *payloadReader) fields(e, inner *event) {
	*e = event{Properties: properties{Elements: e.Properties.Elements[:0]}}
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		r.field(e, inner, string(key))
	}
}

// field reads one field of an event. One of a wrong type changes nothing.
func (r *payloadReader) field(e, inner *event, key string) {
	switch key {
	case "event":
		if r.Kind() == '{' && inner != nil {
			r.wrapped = true
			r.fields(inner, nil)
			return
		}
		r.string(&e.Name, maxText)
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
func (r *payloadReader) property(p *properties, key []byte) {
	switch string(key) {
	case "distinct_id":
		r.text(&p.DistinctID)
	case "$user_id":
		r.text(&p.UserID)
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
		r.string(&p.EventType, maxText)
	case "$el_text":
		r.string(&p.ElText, maxText)
	case "$elements_chain":
		r.string(&p.ElementsChain, maxChain)
	case "$elements":
		r.elements(p)
	case "$set":
		r.traits(&p.Set)
	default:
		r.Skip()
	}
}

// elements reads the elements from the target outwards, as many as are looked at.
func (r *payloadReader) elements(p *properties) {
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
func (r *payloadReader) attribute(e *element, key []byte) {
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

func (r *payloadReader) traits(t *traits) {
	r.object(func(key []byte) {
		if string(key) != "email" {
			r.Skip()
			return
		}
		r.string(&t.Email, maxText)
	})
}

// object calls field, which reads the value, for each key of an object.
func (r *payloadReader) object(field func(key []byte)) {
	if r.Kind() != '{' {
		r.Skip()
		return
	}
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		field(key)
	}
}

func (r *payloadReader) string(s *string, limit int) {
	if r.Kind() != '"' {
		r.Skip()
		return
	}
	*s = r.String(limit)
}

func (r *payloadReader) text(t *text) {
	switch r.Kind() {
	case '{', '[', 'n':
		r.Skip()
	default:
		*t = text(r.Text(maxText))
	}
}

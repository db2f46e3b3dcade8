package posthog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// maxEvents is how many events one request may bring. SDKs send tens.
const maxEvents = 10_000

// text is a JSON string, or a number or boolean taken as one. Anything else is
// empty. PostHog's own servers are as lenient with ids.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	switch {
	case b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = text(s)
	case b[0] == '{', b[0] == '[', b[0] == 'n':
	default:
		*t = text(b)
	}
	return nil
}

// traits are the properties of a person that matter here.
type traits struct {
	Email string `json:"email"`
	namesakes
}

// properties are those of an event's properties that matter here.
type properties struct {
	DistinctID    text      `json:"distinct_id"`
	UserID        text      `json:"$user_id"` // from identify on
	IsIdentified  bool      `json:"$is_identified"`
	Token         string    `json:"token"`
	SessionID     text      `json:"$session_id"`
	CurrentURL    string    `json:"$current_url"`
	EventType     string    `json:"$event_type"`
	ElText        string    `json:"$el_text"`
	ElementsChain string    `json:"$elements_chain"`
	Elements      []element `json:"$elements"`
	Set           traits    `json:"$set"`

	namesakes
}

// namesakes keep properties of a page's own from being taken for the ones that
// mean something: encoding/json ignores case, but prefers a field of the exact
// name.
type namesakes struct {
	Token1 json.RawMessage `json:"Token"`
	Token2 json.RawMessage `json:"TOKEN"`
	Email1 json.RawMessage `json:"Email"`
	Email2 json.RawMessage `json:"EMAIL"`
}

// event is an event in any of the forms it comes in: as SDKs send it, as
// PostHog hands it to webhooks, and the flat fields of a custom destination.
type event struct {
	Name string `json:"-"`

	UUID          text       `json:"uuid"`
	DistinctID    text       `json:"distinct_id"`
	Properties    properties `json:"properties"`
	Timestamp     text       `json:"timestamp"`
	Offset        *float64   `json:"offset"` // milliseconds before sending
	SentAt        text       `json:"sent_at"`
	Set           traits     `json:"$set"`
	ElementsChain string     `json:"elements_chain"`
	APIKey        string     `json:"api_key"`
	Token         string     `json:"token"`
	Person        struct {
		Properties traits `json:"properties"`
	} `json:"person"`

	Email            string `json:"email"`
	ElementID        string `json:"element_id"`
	EventType        string `json:"event_type"`
	SessionID        text   `json:"session_id"`
	CurrentURL       string `json:"current_url"`
	InputFieldName   string `json:"input_field_name"`
	LinkDestination  string `json:"link_destination"`
	ButtonOrLinkText string `json:"button_or_link_text"`
}

// wireEvent is an [event] with its name, or with the event inside it.
type wireEvent struct {
	event
	Event eventField `json:"event"`
}

// eventField is an event's name or, in a webhook body, the event itself.
type eventField struct {
	name  string
	inner *event
}

func (f *eventField) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		return json.Unmarshal(b, &f.name)
	case '{':
		// Events do not nest any deeper: a type that cannot be nested
		// keeps a hostile body from being read once per level.
		var inner struct {
			event
			Event text `json:"event"`
		}
		err := lenient(json.Unmarshal(b, &inner))
		inner.event.Name = string(inner.Event)
		f.inner = &inner.event
		return err
	}
	return nil
}

// unwrapped returns the event, or the one inside a webhook body together with
// the person beside it.
func (e *wireEvent) unwrapped() *event {
	inner := e.Event.inner
	if inner == nil {
		e.Name = e.Event.name
		return &e.event
	}
	if e.Person.Properties.Email != "" {
		inner.Person = e.Person
	}
	inner.SentAt = text(first(string(inner.SentAt), string(e.SentAt)))
	inner.APIKey = first(inner.token(), e.token())
	return inner
}

// token returns the project token the event carries itself.
func (e *event) token() string { return first(e.APIKey, e.Token, e.Properties.Token) }

// lenient forgives fields of a wrong type: they stay empty.
func lenient(err error) error {
	var typeError *json.UnmarshalTypeError
	if errors.As(err, &typeError) {
		return nil
	}
	return err
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// envelope is what a request says once for all its events: api_key, token and
// sent_at.
type envelope struct {
	APIKey, Token string
	SentAt        text
}

// readPayload calls yield for every event of a JSON body, one at a time, so
// that a body of a million empty events costs no more than one of them. An
// event that is not a JSON object is yielded as nil. The envelope is complete
// only when readPayload returns.
func readPayload(body []byte, yield func(*event)) (envelope, error) {
	r := &payloadReader{body: body, dec: json.NewDecoder(bytes.NewReader(body)), yield: yield}
	if len(body) > 0 && body[0] == '[' {
		if err := r.events("The request body"); err != nil {
			return envelope{}, err
		}
		return envelope{}, r.end()
	}
	return r.object()
}

type payloadReader struct {
	body  []byte
	dec   *json.Decoder
	yield func(*event)
	count int
}

// object reads {"batch": […], …}, or else the one event that the body is.
func (r *payloadReader) object() (env envelope, err error) {
	if t, err := r.dec.Token(); err != nil {
		return env, r.syntax(err)
	} else if t != json.Delim('{') {
		return env, httpx.BadRequest("The request body must be a JSON object or array.")
	}
	batch := false
	for r.dec.More() {
		key, err := r.dec.Token()
		switch {
		case err != nil:
			return env, r.syntax(err)
		case key == "batch" && !batch:
			batch, err = true, r.events("The field batch")
		default:
			err = r.syntax(lenient(r.dec.Decode(env.field(key))))
		}
		if err != nil {
			return env, err
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return env, r.syntax(err)
	}
	if err := r.end(); err != nil || batch {
		return env, err
	}
	var e wireEvent
	if err := lenient(json.Unmarshal(r.body, &e)); err != nil {
		return env, r.syntax(err)
	}
	r.emit(&e, r.body)
	return env, nil
}

// field returns where to put a field of that name.
func (env *envelope) field(name json.Token) any {
	switch name {
	case "api_key":
		return &env.APIKey
	case "token":
		return &env.Token
	case "sent_at":
		return &env.SentAt
	}
	return new(json.RawMessage)
}

// events reads an array of events.
func (r *payloadReader) events(what string) error {
	if t, err := r.dec.Token(); err != nil {
		return r.syntax(err)
	} else if t != json.Delim('[') {
		return httpx.BadRequest("%s must be an array of events.", what)
	}
	for r.dec.More() {
		if r.count++; r.count > maxEvents {
			return httpx.Errorf(http.StatusRequestEntityTooLarge, "The request brings more than the limit of %d events.", maxEvents)
		}
		start := r.dec.InputOffset()
		var e wireEvent
		if err := lenient(r.dec.Decode(&e)); err != nil {
			return r.syntax(err)
		}
		r.emit(&e, r.body[start:r.dec.InputOffset()])
	}
	_, err := r.dec.Token()
	return r.syntax(err)
}

// emit yields an event. One without an id gets a digest of its JSON for one.
func (r *payloadReader) emit(wire *wireEvent, raw []byte) {
	raw = bytes.TrimLeft(raw, ", \t\r\n")
	if len(raw) == 0 || raw[0] != '{' {
		r.yield(nil)
		return
	}
	e := wire.unwrapped()
	if e.UUID = text(strings.TrimSpace(string(e.UUID))); e.UUID == "" {
		sum := sha256.Sum256(raw)
		e.UUID = text("sha256:" + hex.EncodeToString(sum[:]))
	}
	r.yield(e)
}

// end makes sure that nothing follows.
func (r *payloadReader) end() error {
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return httpx.BadRequest("Something follows the end of the JSON in the request body, at byte %d.", r.dec.InputOffset())
	}
	return nil
}

// syntax turns a decoder's error into an answer; nil stays nil.
func (r *payloadReader) syntax(err error) error {
	var syntaxError *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntaxError):
		// The decoder counts from where it read last.
		_ = errors.As(json.Unmarshal(r.body, new(json.RawMessage)), &syntaxError)
		return &httpx.Error{Status: http.StatusBadRequest, Cause: err,
			Detail: fmt.Sprintf("The request body is not valid JSON: the mistake is near byte %d.", syntaxError.Offset)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &httpx.Error{Status: http.StatusBadRequest, Detail: "The JSON of the request body breaks off before its end.", Cause: err}
	}
	return &httpx.Error{Status: http.StatusBadRequest, Detail: "The request body is not valid JSON.", Cause: err}
}

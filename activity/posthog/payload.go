package posthog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// maxEvents is how many events one request may bring. SDKs send tens.
const maxEvents = 10_000

// payload is a request's JSON, known to be valid, with the fields that it states
// once for all its events.
type payload struct {
	events []byte // an array, or the one event
	count  int    // of the events

	apiKey, ownToken string
	sentAt           text
}

// open returns the payload of a body.
func open(ctx context.Context, b *intake.Body) (payload, error) {
	json, err := b.JSON(ctx)
	if err != nil {
		return payload{}, err
	}
	return parse(json)
}

// parse checks a body's JSON and finds its events, without decoding them. Its
// errors are answers.
func parse(json []byte) (payload, error) {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	r.Reset(json)
	p := payload{events: json, count: 1}
	var err error
	switch r.Kind() {
	case '[':
		p.events, p.count, err = r.span("The request body")
	case '{':
		err = r.envelope(&p)
	default:
		if r.Err() == nil {
			err = httpx.BadRequest("The request body must be a JSON object or array.")
		}
	}
	if err == nil {
		err = r.finish()
	}
	r.Reset(nil)
	return p, err
}

// token returns the project token of the request: its own, or else the first that
// one of its events carries.
func (p *payload) token() (token string) {
	if token = first(p.apiKey, p.ownToken); token == "" {
		p.each(func(e *event) bool {
			if e != nil {
				token = e.token()
			}
			return token == ""
		})
	}
	return token
}

// each decodes the events one at a time and calls yield for each, until it returns
// false; the event is reused for the next one. An element that is not a JSON object
// is nil.
func (p *payload) each(yield func(*event) bool) {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	r.Reset(p.events)
	if r.Kind() == '{' {
		yield(r.read())
	} else {
		for r.BeginArray(); r.Element(); {
			if !yield(r.read()) {
				break
			}
		}
	}
	r.Reset(nil)
}

// envelope reads {"batch": […], …}, or else the one event that the body is. Of
// several batches the first counts.
func (r *reader) envelope(p *payload) (err error) {
	batch := false
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		switch string(key) {
		case "batch":
			if batch {
				r.Skip()
				continue
			}
			batch = true
			if p.events, p.count, err = r.span("The field batch"); err != nil {
				return err
			}
		case "api_key":
			r.string(&p.apiKey, maxTokenText)
		case "token":
			r.string(&p.ownToken, maxTokenText)
		case "sent_at":
			r.text(&p.sentAt)
		default:
			r.Skip()
		}
	}
	return nil
}

// span returns an array of events as it stands, and how many there are.
func (r *reader) span(what string) (array []byte, count int, err error) {
	if r.Kind() != '[' {
		if r.Err() == nil {
			err = httpx.BadRequest("%s must be an array of events.", what)
		}
		return nil, 0, err
	}
	start := r.Offset()
	for r.BeginArray(); r.Element(); r.Skip() {
		if count++; count > maxEvents {
			return nil, 0, httpx.Errorf(http.StatusRequestEntityTooLarge,
				"The request brings more than the limit of %d events.", maxEvents)
		}
	}
	return r.json[start:r.Offset()], count, nil
}

// finish makes sure that nothing follows, and returns the answer to a mistake.
func (r *reader) finish() error {
	broken := r.Err()
	r.End()
	var mistake *jsonscan.SyntaxError
	switch err := r.Err(); {
	case err == nil:
		return nil
	case broken == nil && errors.As(err, &mistake):
		return httpx.BadRequest("Something follows the end of the JSON in the request body, at byte %d.", mistake.Offset)
	case errors.As(err, &mistake):
		return &httpx.Error{Status: http.StatusBadRequest, Cause: err,
			Detail: fmt.Sprintf("The request body is not valid JSON: the mistake is near byte %d.", mistake.Offset)}
	default:
		return &httpx.Error{Status: http.StatusBadRequest, Cause: io.ErrUnexpectedEOF,
			Detail: "The JSON of the request body breaks off before its end."}
	}
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// reader decodes events. It needs one event of each kind, whatever the body contains.
type reader struct {
	jsonscan.Scanner
	json         []byte
	buf          []byte
	event, inner event
	wrapped      bool // the event is the inner one
}

// Reset makes r a reader of json.
func (r *reader) Reset(json []byte) {
	r.Scanner.Reset(json)
	r.json = json
}

// read decodes the event that comes next, nil for another value: the one inside a
// webhook body together with the person beside it. One without an id gets a digest of
// its JSON for one.
func (r *reader) read() *event {
	if r.Kind() != '{' {
		r.Skip()
		return nil
	}
	start := r.Offset()
	r.wrapped = false
	r.fields(&r.event, &r.inner)
	e := &r.event
	if r.wrapped {
		outer := e
		e = &r.inner
		person, inner := &outer.Person.Properties, e.Person.Properties
		e.Person.Properties = traits{first(person.Email, inner.Email), person.Proof.Or(inner.Proof)}
		e.SentAt = text(first(string(e.SentAt), string(outer.SentAt)))
		e.APIKey = first(e.token(), outer.token())
	}
	if e.UUID = text(trimmed(string(e.UUID))); e.UUID == "" {
		sum := sha256.Sum256(r.json[start:r.Offset()])
		e.Digest = text(uuid.UUID(sum[:len(uuid.UUID{})]).String())
	}
	return e
}

package intake

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// A request's JSON is read twice. The first pass validates it and finds the events, so a request
// that is malformed at its end records nothing. The second pass decodes the events one by one and
// cannot fail.

// MaxEvents is the largest number of events in a request; more are a 413. SDKs send tens.
const MaxEvents = 10_000

// MaxToken is the number of bytes of a capture token that are read: one more than the longest valid
// token, so longer ones are unknown.
const MaxToken = 256 + 1

// Form names the fields of a vendor's envelope, which apply to all events of a request.
type Form struct {
	Batch  string    // the array of events
	Tokens [2]string // the capture token; the first one counts; "" for none
	SentAt string    // when the request was sent, by the sender's clock
	// Trim converts the field's value to the token; nil for the value itself.
	Trim func(token string) string
	// Recognizes reports whether an event of a webhook is the vendor's, by its fields and the
	// values of its strings. A nil function recognizes none.
	Recognizes func(fields map[string]string) bool
}

// payload is a request's validated JSON. It refers to the body's bytes.
type payload struct {
	events []byte // an array, or the one event
	count  int    // of the events
	tokens [2]string
	sentAt string
}

// parse validates a body's JSON and finds its events without decoding them: an array, the batch of
// an envelope, or a single event. Errors are responses. Afterwards the reader is empty and does not
// refer to the body.
func (r *Reader) parse(f *Form, json []byte) (p payload, err error) {
	r.Reset(json)
	p = payload{events: json, count: 1}
	switch r.Kind() {
	case '[':
		p.events, p.count, err = r.span("The request body")
	case '{':
		err = r.envelope(f, &p)
	default:
		if r.Err() == nil {
			err = httpx.BadRequest("The request body must be a JSON object or array.")
		}
	}
	if err == nil {
		err = r.finish()
	}
	r.Reset(nil)
	if f.Trim != nil {
		p.tokens = [2]string{f.Trim(p.tokens[0]), f.Trim(p.tokens[1])}
	}
	return p, err
}

// envelope reads {"batch": […], …}, or else a single event. The first of repeated batches counts.
func (r *Reader) envelope(f *Form, p *payload) (err error) {
	batch := false
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		switch {
		case string(key) == f.Batch:
			if batch {
				r.Skip()
				continue
			}
			batch = true
			if p.events, p.count, err = r.span("The field " + f.Batch); err != nil {
				return err
			}
		case string(key) == f.Tokens[0]:
			r.SetString(&p.tokens[0], MaxToken)
		case string(key) == f.Tokens[1]:
			r.SetString(&p.tokens[1], MaxToken)
		case string(key) == f.SentAt:
			r.SetText(&p.sentAt)
		default:
			r.Skip()
		}
	}
	return nil
}

// span returns the raw array of events and their number. The argument is its name in error messages.
// If it returns neither an array nor an error, the reader has the error.
func (r *Reader) span(what string) (array []byte, count int, err error) {
	if r.Kind() != '[' {
		if r.Err() == nil {
			err = httpx.BadRequest("%s must be an array of events.", what)
		}
		return nil, 0, err
	}
	start := r.Offset()
	for r.BeginArray(); r.Element(); r.Skip() {
		if count++; count > MaxEvents {
			return nil, 0, httpx.Errorf(http.StatusRequestEntityTooLarge,
				"The request brings more than the limit of %d events.", MaxEvents)
		}
	}
	return r.json[start:r.Offset()], count, nil
}

// finish checks that nothing follows. It returns the response to malformed, truncated or trailing
// JSON, which states the byte offset and never any content.
func (r *Reader) finish() error {
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

// first returns the raw first event, empty if there is none.
func (p *payload) first() (event []byte) {
	r := &Reader{}
	p.each(r, func() bool {
		start := r.Offset()
		r.Skip()
		event = p.events[start:r.Offset()]
		return false
	})
	return event
}

// each calls read for each event until it returns false. The reader is positioned before the event,
// and read must consume exactly the event.
func (p *payload) each(r *Reader, read func() bool) {
	r.Reset(p.events)
	if r.Kind() == '{' {
		read()
	} else {
		for r.BeginArray(); r.Element(); {
			if !read() {
				break
			}
		}
	}
	r.Reset(nil)
}

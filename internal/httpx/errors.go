// Package httpx is the one way this module's handlers speak HTTP: they return
// errors, and one adapter writes them as {"detail": "<one sentence>"}. Clients read
// the sentence; the cause inside is for the log.
package httpx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// Error is a failed request: the client's answer, and the cause. A value may be shared by
// requests, so it is never changed once it is made.
type Error struct {
	Status int
	Detail string      // one sentence for the client
	Header http.Header // extra headers, may be nil
	Cause  error       // for the log only, may be nil
	// Fields stand beside the detail, for clients that expect them; may be nil.
	Fields map[string]any
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("%d: %s", e.Status, e.Detail)
	}
	return fmt.Sprintf("%d: %s: %v", e.Status, e.Detail, e.Cause)
}

func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an Error with a sentence made from a format.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// BadRequest is 400 with a sentence that names the mistake and its place.
func BadRequest(format string, args ...any) *Error {
	return Errorf(http.StatusBadRequest, format, args...)
}

// NotFound is 404.
func NotFound(format string, args ...any) *Error {
	return Errorf(http.StatusNotFound, format, args...)
}

// Unauthorized is 401 without a word on the fault of the credential.
// The scheme goes into WWW-Authenticate; empty leaves the header out.
func Unauthorized(detail, scheme string) *Error {
	e := &Error{Status: http.StatusUnauthorized, Detail: detail}
	if scheme != "" {
		e.Header = http.Header{"Www-Authenticate": {scheme}}
	}
	return e
}

// MethodNotAllowed is 405 with the methods that are.
func MethodNotAllowed(allow string) *Error {
	return &Error{Status: http.StatusMethodNotAllowed,
		Detail: "This path does not take that method; see the Allow header.",
		Header: http.Header{"Allow": {allow}}}
}

// Preflight answers a browser that asks before a call: the page may use these methods, and send
// these headers. Browsers shorten the day that the answer holds to their own limit.
func Preflight(w http.ResponseWriter, methods, headers string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	if headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}

// retryAfter is the default of Retry-After, in seconds.
const retryAfter = 1

// Unavailable is 503 with Retry-After: the storage cannot be reached, or the
// server is stopping.
func Unavailable(cause error) *Error {
	return &Error{Status: http.StatusServiceUnavailable,
		Detail: "The service cannot take this request just now; please repeat it.",
		Header: http.Header{"Retry-After": {strconv.Itoa(retryAfter)}}, Cause: cause}
}

// WriteJSON writes v with the status. A write that fails is no error: the client is gone.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a bug: every v is a type of ours
		status, body = http.StatusInternalServerError, []byte(`{"detail":"The server could not encode its answer."}`)
	}
	write(w, status, body)
}

// WriteEncoded writes a body that is JSON already, for no cache to keep.
func WriteEncoded(w http.ResponseWriter, body []byte) {
	w.Header().Set("Cache-Control", "no-store")
	write(w, http.StatusOK, body)
}

// WriteText writes a plain text, for no cache to keep.
func WriteText(w http.ResponseWriter, text string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h["X-Content-Type-Options"] = contentOptions
	_, _ = io.WriteString(w, text) // an error means that the client is gone
}

// Values of headers that all answers share; nobody changes them.
var contentType, contentOptions = []string{"application/json"}, []string{"nosniff"}

func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = contentType, contentOptions
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client is gone
}

// Handler is an [http.Handler] that may fail. An error is written as JSON: an [*Error], also a
// wrapped one, as it says, any other as 500. A handler that returns an error must have written
// nothing.
type Handler func(w http.ResponseWriter, r *http.Request) error

func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		WriteError(w, r, err)
	}
}

// lingerTime is how long the rest of a body that nobody reads may take to arrive after
// the answer.
const lingerTime = 500 * time.Millisecond

// maxLinger is how much of a body that is too large is read and forgotten after the answer, in
// BodyTime: many clients send all of it before they look for one.
const maxLinger = 32 << 20

// WriteError writes err as the answer and leaves it for the access log. A request whose body
// was not read is answered without waiting for it, and its connection is closed. The client
// never gets the cause.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Status: http.StatusInternalServerError, Detail: "Something went wrong inside the server.", Cause: err}
	}
	report(w, e)
	for key, values := range e.Header {
		w.Header()[key] = values
	}
	control := http.NewResponseController(w)
	unread := r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
	if unread {
		w.Header().Set("Connection", "close")
		// net/http goes on reading after the answer, or the client might never see it.
		_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	}
	body := map[string]any{"detail": e.Detail}
	maps.Copy(body, e.Fields)
	WriteJSON(w, e.Status, body)
	if unread && e.Status == http.StatusRequestEntityTooLarge && control.Flush() == nil {
		_ = control.SetReadDeadline(time.Now().Add(BodyTime))
		_, _ = io.CopyN(io.Discard, r.Body, maxLinger)
	}
}

// Reporter is an [http.ResponseWriter] that an access log reads: WriteError tells it the
// error behind the answer. It is found inside writers with a method Unwrap.
type Reporter interface{ Report(e *Error) }

func report(w http.ResponseWriter, e *Error) {
	for {
		switch inner := w.(type) {
		case Reporter:
			inner.Report(e)
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return
		}
	}
}

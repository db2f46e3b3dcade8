// Package httpx is how this module's handlers speak HTTP: they return errors, and
// one adapter writes them as {"detail": "<one sentence>"}. Clients read the
// sentence; the cause inside is for the log.
package httpx

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// Error is a failed request: the client's answer, and the cause. Requests may share a
// value, so it must not be modified after creation.
type Error struct {
	Status int
	Detail string      // one sentence for the client
	Header http.Header // extra headers, may be nil
	Cause  error       // for the log only, may be nil
	// Fields are added next to the detail, for clients that expect them; may be
	// nil.
	Fields map[string]any
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("%d: %s", e.Status, e.Detail)
	}
	return fmt.Sprintf("%d: %s: %v", e.Status, e.Detail, e.Cause)
}

func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an Error with a formatted sentence.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// BadRequest returns a 400 with a sentence that names the mistake and its
// place.
func BadRequest(format string, args ...any) *Error {
	return Errorf(http.StatusBadRequest, format, args...)
}

// NotFound returns a 404.
func NotFound(format string, args ...any) *Error {
	return Errorf(http.StatusNotFound, format, args...)
}

// Unauthorized returns a 401 that does not reveal the fault of the credential.
// The scheme goes into WWW-Authenticate; an empty one omits the header.
func Unauthorized(detail, scheme string) *Error {
	e := &Error{Status: http.StatusUnauthorized, Detail: detail}
	if scheme != "" {
		e.Header = http.Header{"Www-Authenticate": {scheme}}
	}
	return e
}

// MethodNotAllowed returns a 405 with the allowed methods.
func MethodNotAllowed(allow string) *Error {
	return &Error{Status: http.StatusMethodNotAllowed,
		Detail: "This path does not take that method; see the Allow header.", Header: http.Header{"Allow": {allow}}}
}

// Unavailable returns a 503 with a Retry-After of a second: the storage cannot be reached, or
// the server is stopping.
func Unavailable(cause error) *Error {
	return &Error{Status: http.StatusServiceUnavailable,
		Detail: "The service cannot take this request just now; please repeat it.",
		Header: http.Header{"Retry-After": {"1"}}, Cause: cause}
}

// Handler is an [http.Handler] that may fail. Errors are written as JSON: an [*Error], even a
// wrapped one, with its own status, any other as a 500. A handler that returns an error must
// have written nothing.
type Handler func(w http.ResponseWriter, r *http.Request) error

func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		WriteError(w, r, err)
	}
}

// lingerTime is how long the rest of an unread body may take to arrive after the
// answer.
const lingerTime = 500 * time.Millisecond

// maxLinger is how many bytes of an unread body are read and discarded after the answer: many
// clients send all of it before they look for an answer. An oversized one has BodyTime for it.
const maxLinger = 32 << 20

// WriteError writes err as the answer and passes it to the access log. If the body was not
// read, it answers without waiting for it, and the connection is closed. The client never
// gets the cause.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Status: http.StatusInternalServerError, Detail: "Something went wrong inside the server.", Cause: err}
	}
	report(w, e)
	maps.Copy(w.Header(), e.Header)
	control := http.NewResponseController(w)
	unread := r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
	if unread {
		w.Header().Set("Connection", "close")
		// net/http keeps reading after the answer, because otherwise the client might
		// never see it.
		_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	}
	body := map[string]any{"detail": e.Detail}
	maps.Copy(body, e.Fields)
	WriteJSON(w, e.Status, body)
	tooLarge := e.Status == http.StatusRequestEntityTooLarge
	// Where the client asked for the end of the connection, net/http reads nothing.
	if unread && (tooLarge || r.Close) && control.Flush() == nil {
		if tooLarge {
			_ = control.SetReadDeadline(time.Now().Add(BodyTime))
		}
		_, _ = io.CopyN(io.Discard, r.Body, maxLinger)
	}
}

// Reporter is an [http.ResponseWriter] for an access log: WriteError passes it the error
// behind the answer. It is found through writers with a method Unwrap.
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

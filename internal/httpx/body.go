package httpx

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// maxAhead is how much is set aside for a body before it arrives, in bytes.
const maxAhead = 64 << 10

// ReadBody reads a request's body of at most limit bytes. A longer one is 413,
// one that breaks off is 400.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	var b bytes.Buffer
	// A client that only announces a large body must not cost one.
	b.Grow(int(min(max(r.ContentLength, 0), maxAhead)) + bytes.MinRead)
	if err := copyBody(&b, w, r, limit); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// DiscardBody reads a request's body as ReadBody does, and forgets it.
func DiscardBody(w http.ResponseWriter, r *http.Request, limit int64) error {
	return copyBody(io.Discard, w, r, limit)
}

func copyBody(dst io.Writer, w http.ResponseWriter, r *http.Request, limit int64) error {
	_, err := io.Copy(dst, http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return TooLarge(limit)
	case err != nil:
		return &Error{Status: http.StatusBadRequest, Detail: "The request body broke off before its end.", Cause: err}
	}
	return nil
}

// TooLarge is 413.
func TooLarge(limit int64) *Error {
	return Errorf(http.StatusRequestEntityTooLarge, "The request body is larger than the limit of %d bytes.", limit)
}

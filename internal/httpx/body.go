package httpx

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// ReadBody reads a request's body of at most limit bytes. A longer one is 413,
// one that breaks off is 400.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	var b bytes.Buffer
	if r.ContentLength > 0 {
		b.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, TooLarge(limit)
	case errors.Is(err, io.ErrUnexpectedEOF), err != nil:
		return nil, &Error{Status: http.StatusBadRequest, Detail: "The request body broke off before its end.", Cause: err}
	}
	return b.Bytes(), nil
}

// TooLarge is 413.
func TooLarge(limit int64) *Error {
	return Errorf(http.StatusRequestEntityTooLarge, "The request body is larger than the limit of %d bytes.", limit)
}

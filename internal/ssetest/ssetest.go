// Package ssetest reads streams of server-sent events in tests.
package ssetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Frame is one server-sent event.
type Frame struct{ ID, Event, Data string }

// errLine is of a line that has no place in a stream.
var errLine = errors.New("unexpected line")

// Reader reads a stream strictly: first how soon to reconnect, then of each event the
// fields in use, each at most once, a space after the colon, line feeds only. The rest of
// the stream may be read as it is.
type Reader struct {
	*bufio.Reader
	begun bool // it was read how soon to reconnect
}

// NewReader returns a reader of a stream from its beginning.
func NewReader(stream io.Reader) *Reader { return &Reader{Reader: bufio.NewReader(stream)} }

// Begin reads the time to reconnect after, which a stream sends at once. [Reader.Next] calls it if
// the caller did not.
func (r *Reader) Begin() error {
	if r.begun {
		return nil
	}
	line, err := r.ReadString('\n')
	switch {
	case errors.Is(err, io.EOF) && line != "":
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case line != "retry: 1000\n":
		return fmt.Errorf("%w %q", errLine, line)
	}
	r.begun = true
	return nil
}

// Next returns the next event. [io.EOF] means that the stream ended between two events,
// [io.ErrUnexpectedEOF] that it ended within one.
func (r *Reader) Next() (f Frame, err error) {
	if err := r.Begin(); err != nil {
		return f, err
	}
	for lines := 0; ; lines++ {
		line, err := r.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF) && (lines > 0 || line != ""):
			return f, io.ErrUnexpectedEOF
		case err != nil:
			return f, err
		case line == "\n" && lines > 0:
			return f, nil
		}
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		field := f.field(name)
		if !ok || field == nil || *field != "" || strings.ContainsAny(value, "\r\x00") {
			return f, fmt.Errorf("%w %q", errLine, line)
		}
		*field = value
	}
}

// field returns the field of that name, nil if there is none.
func (f *Frame) field(name string) *string {
	switch name {
	case "id":
		return &f.ID
	case "event":
		return &f.Event
	case "data":
		return &f.Data
	}
	return nil
}

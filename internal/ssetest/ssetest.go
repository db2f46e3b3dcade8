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

// errLine is the error for a line that must not be in a stream.
var errLine = errors.New("unexpected line")

// Reader reads a stream strictly: first the reconnection time, then each event with only
// the fields in use, each at most once, with a space after the colon and line feeds only.
// The rest of the stream may be read directly.
type Reader struct {
	*bufio.Reader
	begun bool // whether the reconnection time has been read
}

// NewReader returns a reader that starts at the beginning of a stream.
func NewReader(stream io.Reader) *Reader { return &Reader{Reader: bufio.NewReader(stream)} }

// Begin reads the reconnection time, which a stream sends immediately. [Reader.Next] calls it if
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

// field returns the field with that name, or nil.
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

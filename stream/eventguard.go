package stream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/liveactivity/liveactivity/internal/ledger"
)

// endlessFactor bounds how much of an oversized event is read and skipped, as a
// multiple of the limit, before the stream is abandoned.
const endlessFactor = 16

// errEndless reports that an event did not end within that bound.
var errEndless = errors.New("stream: an event does not end")

// tooLargeEvent is the name of the event that replaces one over the limit.
const tooLargeEvent = "too_large"

// readBuffer is the most that one read returns, in bytes.
const readBuffer = 64 << 10

// eventGuard makes an event stream safe for the r3labs client, which accepts truncated events,
// stops at an event larger than its buffer, trusts every ID, and rescans its whole buffer for
// the end of an event. Each Read of the guard returns one whole event: only the fields id,
// event and data, each as "name: value" and a line feed, then an empty line, as
// https://html.spec.whatwg.org/multipage/server-sent-events.html defines them. An event over
// the limit becomes a too_large event that carries only its ID.
//
// The client considers none of these events empty, so each reaches the handler.
// Only one goroutine may read.
type eventGuard struct {
	lines *bufio.Reader   // reads from lineFeeds
	max   int             // size of the largest event, in bytes
	id    []byte          // the last id that the stream has sent
	given func(noID bool) // called before an event is returned; noID: there is no last id

	begun bool   // a byte order mark can no longer come
	line  []byte // the last line, in memory for the next one
	err   error  // ends the stream once out is empty

	// The event so far.
	event    []byte // the lines to pass on
	size     int    // in bytes, from its first field on
	hasID    bool
	hasData  bool
	hasValue bool // the data are not empty
	hasName  bool
	tooLarge bool

	out []byte // the unread rest of the last event; shares the memory of event
}

// newEventGuard returns a guard that reads src. The last id known is after, "" for none; an event
// may have up to max bytes.
func newEventGuard(src io.Reader, max int, after string, given func(noID bool)) *eventGuard {
	lines := bufio.NewReaderSize(&lineFeeds{Reader: src}, readBuffer)
	return &eventGuard{lines: lines, max: max, id: []byte(after), given: given}
}

// Read returns one event, or the part of it that fits into p. It returns errors only between
// events; a truncated event is dropped.
func (g *eventGuard) Read(p []byte) (int, error) {
	for len(g.out) == 0 {
		if g.err != nil {
			return 0, g.err
		}
		g.advance()
	}
	n := copy(p, g.out)
	g.out = g.out[n:]
	return n, nil
}

// byteOrderMark may precede a stream and is skipped.
var byteOrderMark = []byte("\ufeff")

// advance processes the next line.
func (g *eventGuard) advance() {
	switch err := g.readLine(); {
	case err != nil:
		g.err = err
		if errors.Is(err, errEndless) && g.hasID { // so that the next connection skips it
			g.tooLarge = true
			g.endEvent()
		}
	case len(g.line) == 0:
		g.endEvent()
	default:
		g.tooLarge = g.tooLarge || g.size > g.max
		g.takeField()
		if !g.says() {
			g.size, g.event = 0, g.event[:0]
		}
	}
}

// readLine reads the next line without its end. It cuts a line that is too long for an event within
// the limit, and fails in an event that does not end.
func (g *eventGuard) readLine() error {
	g.line = g.line[:0]
	for {
		part, err := g.lines.ReadSlice('\n')
		if !g.begun {
			part, g.begun = bytes.TrimPrefix(part, byteOrderMark), true
		}
		text := bytes.TrimSuffix(part, []byte("\n"))
		room := g.max + 2*maxEventID - len(g.line) // an id that is cut remains too long
		if g.line = append(g.line, text[:min(len(text), room)]...); len(g.line) > 0 {
			g.size += len(part)
		}
		switch {
		case g.size > endlessFactor*g.max:
			return errEndless
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// takeField adds the field in the line to the event. It ignores comments, unknown fields and invalid
// IDs, and keeps only the ID of an event over the limit.
func (g *eventGuard) takeField() {
	name, value, _ := bytes.Cut(g.line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case string(name) == "id" && validID(value):
		g.id, g.hasID = append(g.id[:0], value...), true
	case string(name) == "event":
		g.hasName = len(value) > 0
	case string(name) == "data":
		g.hasData, g.hasValue = true, g.hasValue || len(value) > 0
	default:
		return
	}
	if !g.tooLarge {
		g.event = append(append(append(append(g.event, name...), ": "...), value...), '\n')
	}
}

// says reports whether the event so far has a field that counts.
func (g *eventGuard) says() bool { return g.hasID || g.hasData || g.hasName || g.tooLarge }

// endEvent processes the empty line that ends an event. Read then returns the event, unless the
// client would see nothing in it.
func (g *eventGuard) endEvent() {
	if g.tooLarge {
		g.event = fmt.Appendf(g.event[:0], "event: %s\nid: %s\n", tooLargeEvent, g.id)
	}
	if g.says() && (len(g.id) > 0 || g.hasValue || g.hasName || g.tooLarge) {
		g.given(len(g.id) == 0)
		g.event = append(g.event, '\n')
		g.out = g.event
	}
	g.event, g.size = g.event[:0], 0
	g.hasID, g.hasData, g.hasValue, g.hasName, g.tooLarge = false, false, false, false, false
}

// lineFeeds reads a stream and turns every line end, which may be a carriage return, a line
// feed or both, into a single line feed.
type lineFeeds struct {
	io.Reader
	cr bool // the last byte read was a carriage return
}

func (l *lineFeeds) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if !l.cr && bytes.IndexByte(p[:n], '\r') < 0 {
		return n, err
	}
	kept := p[:0]
	for _, c := range p[:n] {
		if l.cr && c == '\n' {
			l.cr = false
			continue
		}
		if l.cr = c == '\r'; l.cr {
			c = '\n'
		}
		kept = append(kept, c)
	}
	return len(kept), err
}

// maxEventID is the length of the longest event id that is accepted, in bytes.
const maxEventID = ledger.MaxID

// validID reports whether an event id can be sent back in a header.
func validID(id []byte) bool {
	return len(id) <= maxEventID && !slices.ContainsFunc(id, func(c byte) bool { return c < ' ' || c == 0x7f })
}

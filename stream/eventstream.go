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

// endlessFactor is how many times the limit an event is read, in order to pass
// over it, before the stream is given up.
const endlessFactor = 16

// errEndless says that an event did not end.
var errEndless = errors.New("stream: an event does not end")

// tooLargeEvent is the name of the event that stands for one over the limit.
const tooLargeEvent = "too_large"

// readBuffer is how much is read at a time at most, in bytes.
const readBuffer = 64 << 10

// eventGuard makes an event stream safe for the r3labs client, which takes a truncated event
// for a whole one, stops at an event larger than its buffer, trusts every ID, and searches its
// whole buffer for the end of an event again and again. The guard returns one whole event a
// Read: the fields id, event and data only, each as "name: value" and a line feed, then an
// empty line, as https://html.spec.whatwg.org/multipage/server-sent-events.html defines them.
// An event over the limit becomes a too_large event with its ID alone.
//
// No event is empty to the client: each reaches its handler. One goroutine reads.
type eventGuard struct {
	lines *bufio.Reader   // of lineFeeds
	max   int             // size of the largest event, in bytes
	id    []byte          // the last id that the stream has sent
	given func(noID bool) // called before an event is given; noID says that there is no last id

	begun   bool  // a byte order mark can come no more
	midLine bool  // the beginning of the current line was taken
	isField bool  // the current line is one to be given
	err     error // ends the stream, after out

	// The event so far.
	event    []byte // the lines to be given
	size     int    // in bytes, from its first field on
	hasID    bool
	hasData  bool
	hasValue bool // of the data
	hasName  bool
	tooLarge bool

	out []byte // the unread rest of the last event, in event's memory
}

// newEventGuard returns a guard of the stream after an id, "" for none, with events of max bytes at
// most.
func newEventGuard(src io.Reader, max int, after string, given func(noID bool)) *eventGuard {
	size := min(readBuffer, max+2*maxEventID) // a line with an id fits
	lines := bufio.NewReaderSize(&lineFeeds{Reader: src}, size)
	return &eventGuard{lines: lines, max: max, id: []byte(after), given: given}
}

// Read gives an event, or as much of it as there is room for. It returns an error only between
// events; an event that was cut short is dropped.
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

// byteOrderMark may begin a stream, and is no part of it.
var byteOrderMark = []byte("\ufeff")

// advance takes the next line, or a part of one that is longer than the buffer.
func (g *eventGuard) advance() {
	part, err := g.lines.ReadSlice('\n')
	if !g.begun {
		part, g.begun = bytes.TrimPrefix(part, byteOrderMark), true
	}
	text, ends := bytes.CutSuffix(part, []byte("\n"))
	if ends && len(text) == 0 && !g.midLine {
		g.endEvent()
		return
	}
	switch g.size += len(part); {
	case g.size > endlessFactor*g.max:
		g.giveUp()
		return
	case err != nil && !errors.Is(err, bufio.ErrBufferFull):
		g.err = err
		return
	case g.size > g.max:
		g.tooLarge = true
	}
	g.take(text)
	if g.midLine = !ends; ends {
		g.endLine()
	}
}

// take takes a line, or a part of it, without its end. Of an event over the limit it keeps an ID
// only.
func (g *eventGuard) take(text []byte) {
	if !g.midLine {
		text = g.field(text)
	}
	if g.isField && !g.tooLarge {
		g.event = append(g.event, text...)
	}
}

// field takes the beginning of a line that is not empty, and returns the part of it to give. It
// ignores comments, unknown fields and invalid IDs.
func (g *eventGuard) field(line []byte) []byte {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	g.isField = true
	switch {
	case string(name) == "id" && validID(value):
		g.id, g.hasID = append(g.id[:0], value...), true
	case string(name) == "event":
		g.hasName = len(value) > 0
	case string(name) == "data":
		g.hasData, g.hasValue = true, g.hasValue || len(value) > 0
	default:
		g.isField = false
	}
	if g.isField && !g.tooLarge {
		g.event = append(append(g.event, name...), ": "...)
	}
	return value
}

// endLine ends a line that is not empty.
func (g *eventGuard) endLine() {
	switch {
	case !g.says():
		g.size, g.event = 0, g.event[:0]
	case g.isField && !g.tooLarge:
		g.event = append(g.event, '\n')
	}
}

// says reports whether the event so far has a field that counts.
func (g *eventGuard) says() bool { return g.hasID || g.hasData || g.hasName || g.tooLarge }

// endEvent takes the empty line that ends an event, and gives the event unless it says nothing.
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

// giveUp ends the stream at an event that does not end. When it has an id it is
// reported as one over the limit, so that it can be skipped.
func (g *eventGuard) giveUp() {
	g.err = errEndless
	if g.hasID {
		g.tooLarge = true
		g.endEvent()
	}
}

// lineFeeds reads a stream with a line feed in the place of each end of a line, which may be a
// carriage return, a line feed or both.
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

// maxEventID is the longest event id that is understood, in bytes.
const maxEventID = ledger.MaxID

// validID reports whether an event id can be sent back in a header.
func validID(id []byte) bool {
	return len(id) <= maxEventID && !slices.ContainsFunc(id, func(c byte) bool { return c < ' ' || c == 0x7f })
}

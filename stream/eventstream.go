package stream

import (
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

// readBuffer is how much is read at a time, in bytes.
const readBuffer = 64 << 10

// eventGuard makes an event stream safe for the r3labs client, which takes a truncated event
// for a whole one, stops at an event larger than its buffer, trusts every ID, and searches its
// whole buffer for the end of an event again and again. The guard returns one whole event a
// Read: the fields id, event and data only, each as "name: value" and a line feed, then an
// empty line, as https://html.spec.whatwg.org/multipage/server-sent-events.html defines them.
// An event over the limit becomes a too_large event with its ID alone.
//
// No event is empty to the client: each reaches its handler.
//
// line and seen are offsets into buf, with line ≤ seen ≤ len(buf). One goroutine reads.
type eventGuard struct {
	src   io.Reader
	max   int             // size of the largest event, in bytes
	id    []byte          // the last id that the stream has sent
	given func(noID bool) // called before an event is given; noID says that there is no last id

	buf   []byte // bytes read and not parsed
	line  int    // where in buf the current line begins
	seen  int    // up to where buf has no end of it
	begun bool   // a byte order mark can come no more
	cr    bool   // the last read ended with a carriage return
	err   error  // ends the stream, after buf

	// The event so far, without the current line.
	event    []byte // the lines to be given
	size     int    // in bytes, from its first field on
	hasID    bool
	hasData  bool
	hasValue bool // of the data
	hasName  bool
	tooLarge bool
	midLine  bool // the beginning of the current line was dropped

	out []byte // the unread rest of the last event, in event's memory
}

// Read gives an event, or as much of it as there is room for. It returns an error only between
// events; an event that was cut short is dropped.
func (g *eventGuard) Read(p []byte) (int, error) {
	for len(g.out) == 0 {
		if !g.advance() && len(g.out) == 0 {
			return 0, g.err
		}
	}
	n := copy(p, g.out)
	g.out = g.out[n:]
	return n, nil
}

// advance takes the next line, or reads on where there is none. It reports
// false at the end of the stream.
func (g *eventGuard) advance() bool {
	if i := bytes.IndexByte(g.buf[g.seen:], '\n'); i >= 0 {
		line := g.buf[g.line : g.seen+i]
		g.line += len(line) + 1
		g.seen = g.line
		g.endLine(line)
		return true
	}
	g.seen = len(g.buf)
	if g.err != errEndless {
		g.bound()
	}
	if g.err != nil {
		return false
	}
	g.fill()
	return true
}

// fill reads once. An error waits in err until the lines before it are taken.
func (g *eventGuard) fill() {
	const least = readBuffer / 8
	if cap(g.buf)-len(g.buf) < least {
		g.makeRoom()
	}
	from := len(g.buf)
	n, err := g.src.Read(g.buf[from:cap(g.buf)])
	g.buf, g.err = g.buf[:from+n], err
	g.normalise(from)
}

// makeRoom moves the current line to the front of a buffer that has room for at
// least as much again.
func (g *eventGuard) makeRoom() {
	rest := g.buf[g.line:]
	room := g.buf[:0]
	if 2*len(rest) > cap(g.buf) || cap(g.buf) == 0 {
		room = make([]byte, 0, max(readBuffer, 2*len(rest)))
	}
	g.buf = append(room, rest...)
	g.line, g.seen = 0, len(rest)
}

// normalise makes line feeds of the carriage returns from the offset on, one of
// a carriage return and a line feed.
func (g *eventGuard) normalise(from int) {
	b := g.buf[from:]
	if len(b) == 0 || !g.cr && bytes.IndexByte(b, '\r') < 0 {
		return
	}
	kept := b[:0]
	for _, c := range b {
		if c == '\n' && g.cr {
			g.cr = false
			continue
		}
		if g.cr = c == '\r'; g.cr {
			c = '\n'
		}
		kept = append(kept, c)
	}
	g.buf = g.buf[:from+len(kept)]
}

// byteOrderMark may begin a stream, and is no part of it.
var byteOrderMark = []byte("\ufeff")

// endLine takes a line, without its end. Lines of an event over the limit are counted, and
// dropped but for an ID.
func (g *eventGuard) endLine(line []byte) {
	if !g.begun {
		line, g.begun = bytes.TrimPrefix(line, byteOrderMark), true
	}
	if len(line) == 0 && !g.midLine {
		g.endEvent()
		return
	}
	g.size += len(line) + 1
	switch {
	case g.size > endlessFactor*g.max:
		g.giveUp()
	case g.midLine:
		g.midLine = false
	case g.size > g.max:
		g.tooLarge = true
		g.field(line)
	default:
		g.field(line)
		if !g.says() {
			g.size, g.event = 0, g.event[:0]
		}
	}
}

// field takes a line that is not empty. It ignores comments, unknown fields and
// invalid IDs.
func (g *eventGuard) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		if !validID(value) {
			return
		}
		g.id, g.hasID = append(g.id[:0], value...), true
	case "event":
		g.hasName = len(value) > 0
	case "data":
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
	if g.hasID {
		g.tooLarge = true
		g.endEvent()
	}
	g.err, g.line, g.seen = errEndless, len(g.buf), len(g.buf)
}

// bound bounds the memory of an unfinished event. A line that may still be an ID
// is kept.
func (g *eventGuard) bound() {
	rest := g.buf[g.line:]
	if !g.begun {
		rest = bytes.TrimPrefix(rest, byteOrderMark)
	}
	size := g.size + len(rest)
	if size <= g.max {
		return
	}
	if size > endlessFactor*g.max {
		g.giveUp()
		return
	}
	g.tooLarge = true
	if len(rest) > len("id: ")+maxEventID {
		g.size, g.line = size, len(g.buf)
		g.midLine, g.begun = true, true
	}
}

// maxEventID is the longest event id that is understood, in bytes.
const maxEventID = ledger.MaxID

// validID reports whether an event id can be sent back in a header.
func validID(id []byte) bool {
	return len(id) <= maxEventID && !slices.ContainsFunc(id, func(c byte) bool { return c < ' ' || c == 0x7f })
}

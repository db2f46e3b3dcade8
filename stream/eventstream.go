package stream

import (
	"bytes"
	"errors"
	"slices"
)

// message is one server-sent event.
type message struct {
	id       string // the last id that the stream has sent
	name     string // of the event; empty for none
	data     []byte // nil for none; not to be changed
	tooLarge bool   // the event was over the limit; only its id was kept
}

// isEntry reports whether the message is an entry of the log.
func (m message) isEntry() bool {
	return m.data != nil && (m.name == "" || m.name == "message")
}

// endlessFactor is how many times the limit an event is read, in order to pass
// over it, before the stream is given up.
const endlessFactor = 16

// errEndless says that an event did not end.
var errEndless = errors.New("stream: an event does not end")

// readBuffer is how much memory is set aside for reading at a time, in bytes.
const readBuffer = 64 << 10

// eventParser turns the bytes of an event stream into messages, after
// https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream.
// Bytes are read into what space returns and parsed there: the data of messages
// is not copied. Only whole events count; what is not ended by an empty line
// never was. Of an event over the limit nothing is kept but its id.
type eventParser struct {
	max int // size of the largest event, in bytes

	buf   []byte // what was read
	line  int    // where in buf the current line begins
	begun bool   // a byte order mark can come no more
	cr    bool   // what was read last ended with a carriage return

	// The event so far, without the current line.
	event    message
	said     bool // it has a field that counts
	size     int  // in bytes, from its first field on
	midLine  bool // the beginning of the current line was dropped
	endless  bool // nothing more is parsed
	messages []message
}

// space returns where to read to. It has room for something.
func (p *eventParser) space() []byte {
	const least = readBuffer / 8
	if cap(p.buf)-len(p.buf) < least {
		rest := p.buf[p.line:]
		p.buf = append(make([]byte, 0, max(readBuffer, 2*len(rest)+least)), rest...)
		p.line = 0
	}
	return p.buf[len(p.buf):cap(p.buf)]
}

// advance parses the n bytes that were read to space, and returns the messages
// that ended in them. An event that does not end is an error; when it has an id
// it is the last of the messages, so that it can be passed over.
func (p *eventParser) advance(n int) ([]message, error) {
	from := len(p.buf)
	p.buf = p.buf[:from+n]
	p.normalise(from)
	p.messages = nil
	for !p.endless {
		i := bytes.IndexByte(p.buf[from:], '\n')
		if i < 0 {
			break
		}
		end := from + i
		p.endLine(p.buf[p.line:end:end])
		p.line, from = end+1, end+1
	}
	p.bound()
	if p.endless {
		return p.messages, errEndless
	}
	return p.messages, nil
}

// normalise makes line feeds of the carriage returns from the offset on, one of
// a carriage return and a line feed.
func (p *eventParser) normalise(from int) {
	b := p.buf[from:]
	if len(b) == 0 || !p.cr && bytes.IndexByte(b, '\r') < 0 {
		return
	}
	kept := b[:0]
	for _, c := range b {
		if c == '\n' && p.cr {
			p.cr = false
			continue
		}
		if p.cr = c == '\r'; p.cr {
			c = '\n'
		}
		kept = append(kept, c)
	}
	p.buf = p.buf[:from+len(kept)]
}

var byteOrderMark = []byte("\ufeff")

// endLine takes a line, without its end.
func (p *eventParser) endLine(line []byte) {
	if !p.begun {
		line, p.begun = bytes.TrimPrefix(line, byteOrderMark), true
	}
	if len(line) == 0 && !p.midLine {
		p.endEvent()
		return
	}
	p.size += len(line) + 1
	switch {
	case p.size > endlessFactor*p.max:
		p.giveUp()
	case p.midLine:
		p.midLine = false
	case p.size > p.max:
		p.drop()
		p.field(line)
	default:
		p.field(line)
		if !p.says() {
			p.size = 0
		}
	}
}

// field takes a line that is not empty.
func (p *eventParser) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		if validID(value) {
			p.event.id, p.said = string(value), true
		}
	case "data":
		switch {
		case p.event.tooLarge:
		case p.event.data != nil:
			p.event.data = append(append(p.event.data, '\n'), value...)
		case len(value) > 0:
			p.event.data = value
		default:
			p.event.data = []byte{}
		}
	case "event":
		if !p.event.tooLarge {
			p.event.name = string(value[:min(len(value), maxEventName)])
		}
	}
}

// says reports whether the event so far has a field that counts.
func (p *eventParser) says() bool {
	return p.said || p.event.data != nil || p.event.name != "" || p.event.tooLarge
}

// endEvent takes the empty line that ends an event.
func (p *eventParser) endEvent() {
	if p.says() {
		if p.messages == nil {
			p.messages = make([]message, 0, (len(p.buf)-p.line)/(p.size+1)+1)
		}
		p.messages = append(p.messages, p.event)
	}
	p.event, p.said, p.size = message{id: p.event.id}, false, 0
}

// drop forgets an event that is over the limit.
func (p *eventParser) drop() { p.event.data, p.event.name, p.event.tooLarge = nil, "", true }

// giveUp ends an event that does not end.
func (p *eventParser) giveUp() {
	p.drop()
	if p.endless = true; p.said {
		p.messages = append(p.messages, p.event)
	}
}

// bound keeps what is read of an event that does not end bounded. A line that
// may still be an id is kept.
func (p *eventParser) bound() {
	rest := p.buf[p.line:]
	if !p.begun {
		rest = bytes.TrimPrefix(rest, byteOrderMark)
	}
	size := p.size + len(rest)
	if size <= p.max || p.endless {
		return
	}
	if size > endlessFactor*p.max {
		p.giveUp()
		return
	}
	p.drop()
	if len(rest) > len("id: ")+maxEventID {
		p.size, p.line = size, len(p.buf)
		p.midLine, p.begun = true, true
	}
}

// maxEventID is the longest event id that is understood, in bytes.
const maxEventID = 1024

// maxEventName is how much of the name of an event is kept, in bytes. No name
// that means anything is as long.
const maxEventName = 64

// validID reports whether an event id can be sent back in a header.
func validID(id []byte) bool {
	return len(id) <= maxEventID && !slices.ContainsFunc(id, func(c byte) bool { return c < ' ' || c == 0x7f })
}

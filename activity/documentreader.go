package activity

import (
	"errors"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// documentReader reads the value of a document as encoding/json does, in two fifths
// of the time. A null changes nothing, and any other value that is not of the
// kind asked for is a mistake.
type documentReader struct {
	jsonscan.Scanner
	wrong bool
}

var errDamaged = errors.New("activity: damaged document")

// begin begins with a document.
func (r *documentReader) begin(value []byte) {
	r.Reset(value)
	r.wrong = false
}

// end returns what was wrong with the document.
func (r *documentReader) end() error {
	if r.End(); r.wrong && r.Err() == nil {
		return errDamaged
	}
	return r.Err()
}

// is reports whether the next value begins like this. It skips any other.
func (r *documentReader) is(first byte) bool {
	kind := r.Kind()
	if kind == first {
		return true
	}
	r.wrong = r.wrong || kind != 'n'
	r.Skip()
	return false
}

// object calls member, which reads the value, for each key of an object.
func (r *documentReader) object(member func(key []byte)) {
	if !r.is('{') {
		return
	}
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		member(key)
	}
}

// array calls element, which reads it, for each element of an array.
func (r *documentReader) array(element func()) {
	if !r.is('[') {
		return
	}
	for r.BeginArray(); r.Element(); {
		element()
	}
}

func (r *documentReader) text(s *string) {
	if r.is('"') {
		*s = r.String(document.MaxValue)
	}
}

func (r *documentReader) flag(is *bool) {
	if kind := r.Kind(); kind == 'f' || r.is('t') {
		*is = r.Bool()
	}
}

// moment reads a time: microseconds since the epoch.
func (r *documentReader) moment(t *time.Time) {
	var micros int64
	if r.integer(&micros) {
		*t = time.UnixMicro(micros).UTC()
	}
}

// integer reports whether there was one.
func (r *documentReader) integer(n *int64) bool {
	if c := r.Kind(); c != '-' && (c < '0' || '9' < c) {
		return r.is('0')
	}
	read, err := strconv.ParseInt(r.Text(document.MaxValue), 10, 64)
	if err != nil {
		r.wrong = true
		return false
	}
	*n = read
	return true
}

// fact reads what is kept of a user or an e-mail address, by the name of its
// member.
func (r *documentReader) fact(f *fact, name string) {
	r.object(func(key []byte) {
		switch string(key) {
		case name:
			r.text(&f.is)
		case "at":
			r.moment(&f.at)
		default:
			r.Skip()
		}
	})
}

func (r *documentReader) session(s *Session) {
	var userIs, emailIs bool // of the session's user
	r.object(func(key []byte) {
		switch string(key) {
		case "user_id":
			r.text(&s.UserID)
		case "user_by":
			r.provenance(&s.userBy, &userIs)
		case "email":
			r.text(&s.statedEmail)
		case "email_by":
			r.provenance(&s.emailBy, &emailIs)
		case "desk":
			r.text(&s.Desk)
		case "conversation_id":
			r.text(&s.ConversationID)
		case "actions":
			var n int64
			if r.integer(&n) {
				s.Actions = int(n)
			}
		case "clock":
			r.clock(&s.clock)
		default:
			r.Skip()
		}
	})
	if userIs {
		s.userBy.Identified = s.UserID
	}
	if emailIs {
		s.emailBy.Identified = s.UserID
	}
	s.setEmail()
}

// provenance reads an event that something of a session is known from, and whether
// its identified user is the session's.
func (r *documentReader) provenance(p *provenance, isUser *bool) {
	r.object(func(key []byte) {
		switch string(key) {
		case "at":
			r.moment(&p.At)
		case "identified":
			r.text(&p.Identified)
		case "is_user":
			r.flag(isUser)
		default:
			r.Skip()
		}
	})
}

func (r *documentReader) clock(c *clock) {
	r.object(func(key []byte) {
		switch string(key) {
		case "correction":
			var n int64
			if r.integer(&n) {
				c.Correction = &n
			}
		case "points":
			r.array(func() { c.Points = append(c.Points, r.point()) })
		default:
			r.Skip()
		}
	})
}

func (r *documentReader) point() (p point) {
	i := 0
	r.array(func() {
		if i == len(p) {
			r.Skip()
			return
		}
		r.integer(&p[i])
		i++
	})
	return p
}

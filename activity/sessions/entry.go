package sessions

import (
	"math"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// Entry is what an entry of a log says of a session.
type Entry struct {
	At        Position
	SessionID string
	Text      // what was known of the session then, and its last action

	First, Last int64 // when its first and last action started, in microseconds since the epoch
	Count       int   // its actions, at least one
	Actions     int   // of the session so far
}

// Text is what a list shows of a session in words, in one string. Texts are equal
// that say the same.
type Text struct {
	all  string
	ends [3]uint32 // of the user id, the e-mail address and the canonical URL
}

// NewText returns the text of its parts, which it copies. The last action is a
// sentence.
func NewText(userID, email, canonicalURL, lastAction string) Text {
	all := strings.Join([]string{userID, email, canonicalURL, lastAction}, "")
	return textOf(all, len(userID), len(email), len(canonicalURL))
}

// textOf returns the text whose first parts are so long.
func textOf(all string, userID, email, canonicalURL int) Text {
	return Text{all, [3]uint32{uint32(userID), uint32(userID + email), uint32(userID + email + canonicalURL)}}
}

// UserID returns the user id that is known of the session, empty for none.
func (t Text) UserID() string { return t.all[:t.ends[0]] }

// Email returns the e-mail address that is known of the session, empty for none.
func (t Text) Email() string { return t.all[t.ends[0]:t.ends[1]] }

// CanonicalURL returns the page of the last action.
func (t Text) CanonicalURL() string { return t.all[t.ends[1]:t.ends[2]] }

// LastAction returns a sentence.
func (t Text) LastAction() string { return t.all[t.ends[2]:] }

// Bounds of what is read of an entry, in bytes: more than a [activity.Batch] has.
const (
	maxText    = 4 << 10
	maxSeconds = 1e11 // in the year 5138
)

// Decoder decodes entries, one after the other. The zero value is ready for use.
type Decoder struct {
	json          jsonscan.Scanner
	userID, email []byte
	action        action
	text          []byte // on its way
}

// action is what is needed of an action.
type action struct {
	kind, title, description, canonicalURL []byte
	start                                  int64
	index                                  int
}

// Decode returns what the JSON of an [activity.Batch] says of its session, and
// false for anything else, and for what belongs to no session. It reads no more
// than it needs, and keeps nothing of the data.
func (d *Decoder) Decode(at Position, sessionID string, data []byte) (Entry, bool) {
	if sessionID == "" {
		return Entry{}, false
	}
	e := Entry{At: at, SessionID: sessionID}
	isBatch, last := false, int64(0)
	d.userID, d.email = d.userID[:0], d.email[:0]
	s := &d.json
	s.Reset(data)
	s.BeginObject()
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "type":
			d.text = s.AppendString(d.text[:0], len(activity.BatchType)+1)
			isBatch = string(d.text) == activity.BatchType
		case "user_id":
			d.userID = s.AppendString(d.userID[:0], maxText)
		case "email":
			d.email = s.AppendString(d.email[:0], maxText)
		case "actions":
			last = max(last, d.decodeActions(&e))
		default:
			s.Skip()
		}
	}
	if s.Err() != nil || !isBatch || e.Count == 0 {
		return Entry{}, false
	}
	if e.Count > 1 {
		s.Reset(data[last:])
		d.action.decode(s)
	}
	e.Last, e.Actions, e.Text = d.action.start, d.action.index+1, d.decoded()
	return e, true
}

// decodeActions reads the first action and counts the others. It returns where the
// last one is.
func (d *Decoder) decodeActions(e *Entry) (last int64) {
	s := &d.json
	if s.Kind() != '[' {
		s.Skip()
		return 0
	}
	for s.BeginArray(); s.Element(); {
		switch {
		case s.Kind() != '{':
			s.Skip()
			continue
		case e.Count == 0:
			d.action.decode(s)
			e.First = d.action.start
		default:
			last = s.Offset()
			s.Skip()
		}
		e.Count++
	}
	return last
}

// decoded returns the text of what was decoded.
func (d *Decoder) decoded() Text {
	a := &d.action
	d.text = append(append(append(append(d.text[:0], d.userID...), d.email...), a.canonicalURL...), a.description...)
	t := textOf(string(d.text), len(d.userID), len(d.email), len(a.canonicalURL))
	said := activity.Action{Description: t.LastAction()}
	if said.Sentence() == t.LastAction() {
		return t
	}
	said.Type, said.Title = string(a.kind), string(a.title)
	return NewText(t.UserID(), t.Email(), t.CanonicalURL(), said.Sentence())
}

// decode reads the action that comes next.
func (a *action) decode(s *jsonscan.Scanner) {
	*a = action{kind: a.kind[:0], title: a.title[:0], description: a.description[:0], canonicalURL: a.canonicalURL[:0]}
	s.BeginObject()
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "type":
			a.kind = s.AppendString(a.kind[:0], maxText)
		case "title":
			a.title = s.AppendString(a.title[:0], maxText)
		case "description":
			a.description = s.AppendString(a.description[:0], maxText)
		case "canonical_url":
			a.canonicalURL = s.AppendString(a.canonicalURL[:0], maxText)
		case "timestamp_start":
			a.start = int64(math.Round(number(s) * 1e6))
		case "index":
			a.index = int(number(s))
		default:
			s.Skip()
		}
	}
}

// number reads a number within the bounds of a time.
func number(s *jsonscan.Scanner) float64 {
	f, _ := s.Float()
	return min(max(f, -maxSeconds), maxSeconds)
}

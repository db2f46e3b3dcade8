package sessions

import (
	"math"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// Entry is what an entry of a log says of a session.
type Entry struct {
	At        Position
	SessionID string
	// UserID and Email are what was known of the session then.
	UserID, Email string

	First, Last              int64  // when its first and last action started, in microseconds since the epoch
	CanonicalURL, LastAction string // of the last action, the latter a sentence
	Count                    int    // its actions
	Actions                  int    // of the session so far
}

// Bounds of what is read of an entry, in bytes: more than a [activity.Batch] has.
const (
	maxText    = 4 << 10
	maxSeconds = 1e11 // in the year 5138
)

// Decoder decodes entries, one after the other. The zero value is ready for use.
type Decoder struct{ json jsonscan.Scanner }

// Decode returns what the JSON of an [activity.Batch] says of its session, and
// false for anything else, and for what belongs to no session. It reads no more
// than it needs, and keeps nothing of the data.
func (d *Decoder) Decode(at Position, sessionID string, data []byte) (Entry, bool) {
	if sessionID == "" {
		return Entry{}, false
	}
	e := Entry{At: at, SessionID: sessionID}
	isBatch, last := false, int64(0)
	s := &d.json
	s.Reset(data)
	s.BeginObject()
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "type":
			isBatch = s.String(len(activity.BatchType)+1) == activity.BatchType
		case "user_id":
			e.UserID = s.String(maxText)
		case "email":
			e.Email = s.String(maxText)
		case "actions":
			last = max(last, e.decodeActions(s))
		default:
			s.Skip()
		}
	}
	if s.Err() != nil || !isBatch || e.Count == 0 {
		return Entry{}, false
	}
	if e.Count > 1 {
		s.Reset(data[last:])
		e.end(decodeAction(s))
	}
	return e, true
}

// decodeActions reads the first action and counts the others. It returns where the
// last one is.
func (e *Entry) decodeActions(s *jsonscan.Scanner) (last int64) {
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
			first := decodeAction(s)
			e.First = started(first)
			e.end(first)
		default:
			last = s.Offset()
			s.Skip()
		}
		e.Count++
	}
	return last
}

// end takes over what the last action says.
func (e *Entry) end(last activity.Action) {
	e.Last, e.CanonicalURL, e.LastAction, e.Actions = started(last), last.CanonicalURL, last.Sentence(), last.Index+1
}

func started(a activity.Action) int64 { return int64(math.Round(a.TimestampStart * 1e6)) }

// decodeAction returns what is needed of an action.
func decodeAction(s *jsonscan.Scanner) (a activity.Action) {
	s.BeginObject()
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "type":
			a.Type = s.String(maxText)
		case "title":
			a.Title = s.String(maxText)
		case "description":
			a.Description = s.String(maxText)
		case "canonical_url":
			a.CanonicalURL = s.String(maxText)
		case "timestamp_start":
			a.TimestampStart = number(s)
		case "index":
			a.Index = int(number(s))
		default:
			s.Skip()
		}
	}
	return a
}

// number reads a number within the bounds of a time.
func number(s *jsonscan.Scanner) float64 {
	f, _ := s.Float()
	return min(max(f, -maxSeconds), maxSeconds)
}

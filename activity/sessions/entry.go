package sessions

import (
	"math"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
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

// maxSeconds bounds a time: it is in the year 5138.
const maxSeconds = 1e11

// NewEntry returns the entry of a session's batch, which has one action or more.
func NewEntry(at Position, b *activity.Batch) Entry {
	first, last := &b.Actions[0], &b.Actions[len(b.Actions)-1]
	return Entry{
		At: at, SessionID: b.SessionID,
		Text:  NewText(b.UserID, b.Email, last.CanonicalURL, last.Sentence()),
		First: micros(first.TimestampStart), Last: micros(last.TimestampStart),
		Count: len(b.Actions), Actions: last.Index + 1,
	}
}

func micros(seconds float64) int64 {
	return int64(math.Round(min(max(seconds, -maxSeconds), maxSeconds) * 1e6))
}

package directory

import (
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// Only the first of equal errors within repeatWithin becomes an action. A session remembers at most
// maxErrors of them.
const (
	repeatWithin = 10 * time.Second
	maxErrors    = 16
)

// seenError is an error that became an action: a hash of its text, and its time in microseconds
// since the epoch.
type seenError struct {
	Sum uint64 `json:"sum"`
	At  int64  `json:"at"`
}

// DropRepeated removes repeated errors from a session's settled events. It returns the remaining
// events, in the memory of the slice, and the number of removed ones. Without a session ID, the
// events must be those of one request.
func (b *Book) DropRepeated(sessionID string, events []activity.Event) (kept []activity.Event, repeated int) {
	_, s := b.session(sessionID)
	kept = slices.DeleteFunc(events, func(e activity.Event) bool {
		return e.Action != nil && e.Action.Type == activity.TypeError && s.repeats(&e)
	})
	return kept, len(events) - len(kept)
}

// repeats reports whether the session has seen the error before, and remembers it otherwise.
func (s *Session) repeats(e *activity.Event) bool {
	now := seenError{hashOf(e.UserID + "\x00" + e.Action.Description), e.Time.UnixMicro()}
	known := s.notice()
	for _, seen := range known.Errors {
		if seen.Sum == now.Sum && time.Duration(max(now.At-seen.At, seen.At-now.At))*time.Microsecond <= repeatWithin {
			return true
		}
	}
	known.Errors = append(known.Errors, now)
	known.Errors = known.Errors[max(0, len(known.Errors)-maxErrors):]
	return false
}

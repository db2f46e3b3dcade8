package directory

import (
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// Of errors that say the same within repeatWithin of the first, the first makes an
// action. A session remembers at most maxErrors of those.
const (
	repeatWithin = 10 * time.Second
	maxErrors    = 16
)

// seenError is an error that made an action: a hash of its words, and its time in
// microseconds since the epoch.
type seenError struct {
	Sum uint64 `json:"sum"`
	At  int64  `json:"at"`
}

// DropRepeated removes the errors that the session has seen a moment before from its settled
// events, and returns the others and how many were removed. Without a session ID the events are
// one request's. It works in the memory of the events.
func (b *Book) DropRepeated(sessionID string, events []activity.Event) (kept []activity.Event, repeated int) {
	_, s := b.session(sessionID)
	kept = slices.DeleteFunc(events, func(e activity.Event) bool {
		return e.Action != nil && e.Action.Type == activity.TypeError && s.repeats(&e)
	})
	return kept, len(events) - len(kept)
}

// repeats reports whether the session has seen an error, and remembers it if not.
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

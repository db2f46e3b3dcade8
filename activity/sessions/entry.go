package sessions

import "github.com/liveactivity/liveactivity/activity"

// Entry has the parts of a log entry that a [Memory] needs.
type Entry struct {
	SessionID string

	// IsIdentity means that the entry has no action, but identifies the session's visitor as
	// UserID. Anonymous is the visitor's ID, empty for a visitor without one.
	IsIdentity bool
	Anonymous  string

	// The session at the time of the entry, and its last action.
	UserID, Email string
	CanonicalURL  string
	LastAction    string // a sentence

	First, Last int64 // starts of its first and last action, in microseconds since the epoch
	Actions     int   // of the session so far
}

// NewEntry returns the entry for a batch, which must not be empty.
func NewEntry(b *activity.Batch) Entry {
	first, last := &b.Actions[0], &b.Actions[len(b.Actions)-1]
	return Entry{
		SessionID: b.SessionID, UserID: b.UserID, Email: b.Email,
		CanonicalURL: last.CanonicalURL, LastAction: last.Sentence(),
		First: first.Start().UnixMicro(), Last: last.Start().UnixMicro(),
		Actions: last.Index + 1,
	}
}

package sessions

import "github.com/liveactivity/liveactivity/activity"

// Entry is the part of a log's entry that a [Memory] keeps.
type Entry struct {
	SessionID string

	// IsIdentity says that the entry has no action: the session's visitor, known as Anonymous
	// or, where that is empty, without an ID, is UserID.
	IsIdentity bool
	Anonymous  string

	// The session as it was known then, and its last action.
	UserID, Email string
	CanonicalURL  string
	LastAction    string // a sentence

	First, Last int64 // when its first and last action started, in microseconds since the epoch
	Actions     int   // of the session so far
}

// NewEntry returns the entry of a session's batch, which has one action or more.
func NewEntry(b *activity.Batch) Entry {
	first, last := &b.Actions[0], &b.Actions[len(b.Actions)-1]
	return Entry{
		SessionID: b.SessionID, UserID: b.UserID, Email: b.Email,
		CanonicalURL: last.CanonicalURL, LastAction: last.Sentence(),
		First: first.Start().UnixMicro(), Last: last.Start().UnixMicro(),
		Actions: last.Index + 1,
	}
}

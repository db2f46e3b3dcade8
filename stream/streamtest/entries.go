package streamtest

import (
	"bytes"
	"fmt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

// Entry returns the n-th entry of a session. Its data are a small JSON object
// that tells both, and its only key is of its own: appending the same entry to
// a product twice is a duplicate.
func Entry(sessionID string, n int) stream.Entry {
	return stream.Entry{
		SessionID: sessionID,
		Keys:      []activity.Key{activity.EventKey(fmt.Sprintf("%s/%d", sessionID, n))},
		Data:      fmt.Appendf(nil, `{"type":"test","session_id":%q,"n":%d}`, sessionID, n),
	}
}

// Entries returns the entries of a session from the first up to the n-th,
// counted from zero.
func Entries(sessionID string, n int) []stream.Entry {
	entries := make([]stream.Entry, n)
	for i := range entries {
		entries[i] = Entry(sessionID, i)
	}
	return entries
}

// Sized returns e with its data padded by white space, which JSON allows, to
// at least size bytes.
func Sized(e stream.Entry, size int) stream.Entry {
	if pad := size - len(e.Data); pad > 0 {
		e.Data = append(bytes.Clone(e.Data), bytes.Repeat([]byte{' '}, pad)...)
	}
	return e
}

package eventlogtest

import (
	"fmt"
	"strings"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Entry returns the n-th entry of a session. Its data are a small JSON object
// with both, and its only key is unique to it: appending the same entry to a
// product twice is a duplicate.
func Entry(sessionID string, n int) eventlog.Entry {
	return eventlog.Entry{
		SessionID: sessionID,
		Keys:      []feed.Key{feed.KeyOf(fmt.Sprintf("%s/%d", sessionID, n))},
		Data:      fmt.Appendf(nil, `{"type":"summary","session_id":%q,"n":%d}`, sessionID, n),
	}
}

// Entries returns the first n entries of a session.
func Entries(sessionID string, n int) []eventlog.Entry {
	entries := make([]eventlog.Entry, n)
	for i := range entries {
		entries[i] = Entry(sessionID, i)
	}
	return entries
}

// Sized returns e with one more field in its data, a JSON object that has others, which
// brings them to size bytes, or some more if they lack less than the field takes.
func Sized(e eventlog.Entry, size int) eventlog.Entry {
	if pad := size - len(e.Data); pad > 0 {
		e.Data = fmt.Appendf(nil, `%s,"pad":"%s"}`, e.Data[:len(e.Data)-1], strings.Repeat("x", max(0, pad-9)))
	}
	return e
}

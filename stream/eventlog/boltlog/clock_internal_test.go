package boltlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// A process whose clock was a year ahead leaves IDs and documents of then. They
// last no longer than others from when the file is opened again, IDs still
// grow, and what is appended meanwhile has its own time.
func TestOpen_limitsWhatAClockLeftThatWasAhead(t *testing.T) {
	const ttl = 4 * time.Hour
	dir := t.TempDir()
	opts := &Options{Retention: eventlog.Retention{TTL: ttl}}
	var ahead []eventlog.Entry
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(365 * 24 * time.Hour)
		l := openLog(t, dir, opts)
		ahead = eventlogtest.Entries("ahead", 3)
		changes := []document.Change{document.Put(document.Document{Name: "mortal"}, nil, ttl), document.Put(document.Document{Name: "ever"}, nil, 0)}
		require.NoError(t, l.appends(ahead, changes...)())
		require.NoError(t, l.Release())
	})
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, opts)
		require.Len(t, documentsOf(t, l), 2)
		require.Equal(t, ahead[2].ID, eventlogtest.Bounds(t, l, acme).Newest)
		time.Sleep(ttl / 2)
		later := eventlogtest.Entries("later", 1)
		require.NoError(t, l.appends(later, document.Put(document.Document{Name: "later"}, nil, ttl))())
		require.Positive(t, later[0].ID.Compare(ahead[2].ID))

		time.Sleep(ttl/2 - time.Second)
		require.Equal(t, ahead[0].ID, eventlogtest.Bounds(t, l, acme).Oldest, "not before their time")
		require.Len(t, documentsOf(t, l), 3)
		time.Sleep(ttl/32 + time.Second)
		require.Equal(t, eventlog.Bounds{TrimmedTo: ahead[2].ID, Oldest: later[0].ID, Newest: later[0].ID}, eventlogtest.Bounds(t, l, acme))
		require.Len(t, documentsOf(t, l), 2)
		require.NoError(t, l.Expire(t.Context()))
		require.Equal(t, 1, l.Stats()[acme].Entries, "they make room")
		require.NoError(t, l.appends(eventlogtest.Entries("ahead", 3))(), "and their keys are free")

		time.Sleep(ttl + ttl/16)
		require.NoError(t, l.Expire(t.Context()))
		require.Zero(t, l.Stats()[acme].Entries)
		require.Zero(t, eventlogtest.Bounds(t, l, acme).Oldest)
		docs := documentsOf(t, l)
		require.Len(t, docs, 1)
		require.Equal(t, "ever", docs[0].Name)
		require.NoError(t, l.Release())
	})
}

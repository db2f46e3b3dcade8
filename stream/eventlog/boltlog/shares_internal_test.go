package boltlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// heldBy returns what products hold in memory.
func heldBy(l *Log) (total int64) {
	for _, p := range l.all() {
		total += p.tail.Bytes() + int64(keyCost*len(p.keys))
	}
	return total
}

// What all products have in memory of the file is bounded, also when it is
// opened; they lose nothing by it while their keys fit.
func TestTails_areBoundedTogether(t *testing.T) {
	const products, each, total = 20, 30, 256 << 10
	dir := t.TempDir()
	opts := &Options{Retention: eventlog.Retention{TotalBytes: total}}
	l := openLog(t, dir, opts)
	for n := range each {
		for p := range products {
			require.NoError(t, l.Append(t.Context(), fmt.Sprint(p), []eventlog.Entry{eventlogtest.Sized(eventlogtest.Entry("a", n), 2000)}))
			require.LessOrEqual(t, heldBy(l), int64(total))
		}
	}
	for range 2 {
		require.Greater(t, heldBy(l), int64(total*3/4), "the room is used")
		for p := range products {
			page := make([]eventlog.Entry, each)
			n, err := l.Read(t.Context(), fmt.Sprint(p), eventlog.ID{}, page)
			require.NoError(t, err)
			require.Positive(t, n)
			require.Equal(t, each, l.Stats()[fmt.Sprint(p)].Entries)
		}
		l = requireTrueMemory(t, l, dir, opts)
		require.LessOrEqual(t, heldBy(l), int64(total))
	}
}

// Where there are too many keys the product that has most of them loses its
// oldest entries, and no other.
func TestKeys_areBoundedTogether(t *testing.T) {
	const total = 256 << 10
	dir := t.TempDir()
	opts := &Options{Retention: eventlog.Retention{TotalBytes: total}}
	l := openLog(t, dir, opts)
	require.NoError(t, l.Append(t.Context(), "other", eventlogtest.Entries("a", 20)))
	for n := range 4 * total / keyCost / 100 {
		e := eventlog.Entry{Data: []byte("{}")}
		for k := range 100 {
			e.Keys = append(e.Keys, activity.EventKey(fmt.Sprint(n, "/", k)))
		}
		require.NoError(t, l.appends([]eventlog.Entry{e})())
	}
	require.LessOrEqual(t, heldBy(l), int64(total))
	require.Equal(t, 20, l.Stats()["other"].Entries)
	require.Positive(t, l.Stats()[acme].Dropped)
	_, err := l.Read(t.Context(), acme, eventlog.ID{}, make([]eventlog.Entry, 1))
	require.ErrorAs(t, err, new(*eventlog.GapError))
	requireConsistent(t, l, acme)
	requireTrueMemory(t, l, dir, opts)
}

// A call that writes more than there is room for evicts everything else, and
// nothing of its own: its documents go with the next one.
func TestState_evictsNothingOfTheSameCall(t *testing.T) {
	l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{StateMaxBytes: 64 << 10}})
	put := func(names ...string) {
		var changes []document.Change
		for _, name := range names {
			changes = append(changes, document.Put(document.Document{Name: name}, make([]byte, 1<<10), time.Hour))
		}
		_, err := l.Documents().Write(t.Context(), "a", changes...)
		require.NoError(t, err)
	}
	put("before")
	var names []string
	for n := range 64 {
		names = append(names, fmt.Sprintf("n%02d", n))
	}
	put(names...)
	docs, err := l.Documents().List(t.Context(), "a", "", "", 100)
	require.NoError(t, err)
	require.Len(t, docs, len(names))
	require.Equal(t, "n00", docs[0].Name)
	for n := range 40 {
		put(fmt.Sprint("other", n))
	}
	docs, err = l.Documents().List(t.Context(), "a", "n", "", 100)
	require.NoError(t, err)
	require.Empty(t, docs)
}

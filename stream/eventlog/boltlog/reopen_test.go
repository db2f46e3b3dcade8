package boltlog

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// oddProducts are ids that a careless naming of buckets would mix up.
var oddProducts = []string{"", "a", "A", "p/", "p/a", "a/log", "log", "\x00", "a\x00", "\xff", "ä", "a b", "format",
	"liveactivity", strings.Repeat("long ", 200)}

// oddEntries are of any bytes, and of no keys, one and many.
func oddEntries() []eventlog.Entry {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	many := eventlogtest.Sized(eventlogtest.Entry("many", 0), 100<<10)
	for i := range 300 {
		many.Keys = append(many.Keys, activity.EventKey(fmt.Sprint("many ", i)))
	}
	return []eventlog.Entry{
		{},
		// of one line
		{SessionID: string(all), Data: bytes.ReplaceAll(bytes.ReplaceAll(all, []byte("\n"), nil), []byte("\r"), nil)},
		{SessionID: strings.Repeat("s", 1000), Keys: []activity.Key{{}}, Data: []byte("{}")},
		many,
		{Keys: many.Keys[1:1], Data: []byte(" ")},
	}
}

func TestOpen_findsEverythingAgain(t *testing.T) {
	for _, tail := range []int64{0, 1} {
		t.Run(fmt.Sprint("tail of ", tail), func(t *testing.T) {
			t.Parallel()
			opts := &Options{TailBytes: tail, Retention: eventlog.Retention{MaxBytes: 300 << 10}}
			dir := t.TempDir()
			log := openLog(t, dir, opts)
			for round := range 3 {
				want := map[string]contents{}
				for i, id := range oddProducts {
					grow(t, log, id, round, i)
					want[id] = contentsOf(t, log, id)
				}
				stats := log.Stats()
				log = reopen(t, log, dir, opts)
				for id, s := range log.Stats() {
					s.Dropped = stats[id].Dropped
					require.Equal(t, stats[id], s)
				}
				for id, c := range want {
					require.Equal(t, c, contentsOf(t, log, id), "product %q", id)
				}
			}
		})
	}
}

// contents is a product as readers see it.
type contents struct {
	bounds eventlog.Bounds
	items  []item
	docs   []document.Document
}

func contentsOf(t *testing.T, log *Log, productID string) contents {
	t.Helper()
	b := eventlogtest.Bounds(t, log, productID)
	return contents{b, items(eventlogtest.ReadAll(t, log, productID, b.TrimmedTo, 7)), list(t, log, productID)}
}

// grow adds entries and documents.
func grow(t *testing.T, log *Log, productID string, round, more int) {
	t.Helper()
	entries := append(oddEntries(), eventlogtest.Entries("more", more)...)
	for _, e := range entries {
		for k := range e.Keys {
			e.Keys[k][0] += byte(round) // no key twice
		}
	}
	eventlogtest.Append(t, log, productID, entries...)
	put(t, log, productID, "changed", fmt.Sprint(round), 0)
	put(t, log, productID, fmt.Sprint("\x00new ", round), "", time.Hour)
	put(t, log, productID, "gone", "", 0)
	_, err := log.Documents().Write(t.Context(), productID, document.Delete(get(t, log, productID, "gone")[0]))
	require.NoError(t, err)
}

// The log was emptied by time, then opened by a machine whose clock is years behind: the clock of a
// bubble starts in the year 2000.
func TestOpen_neverGivesAnIDAgain(t *testing.T) {
	dir, opts := t.TempDir(), &Options{Retention: eventlog.Retention{TTL: time.Millisecond}}
	log := openLog(t, dir, opts)
	last := eventlogtest.Append(t, log, acme, eventlogtest.Entries("a", 5)...)[4].ID
	waittest.Until(t, "all has expired", func() bool {
		require.NoError(t, log.Expire(t.Context()))
		return log.Stats()[acme].Entries == 0
	})
	require.NoError(t, log.Release())
	synctest.Test(t, func(t *testing.T) {
		for range 3 {
			log := openLog(t, dir, opts)
			require.Equal(t, last, eventlogtest.Bounds(t, log, acme).Newest)
			next := eventlogtest.Append(t, log, acme, eventlogtest.Entry(fmt.Sprint("b", last), 0))[0].ID
			require.Positive(t, next.Compare(last))
			last = next
			require.NoError(t, log.Release())
		}
	})
}

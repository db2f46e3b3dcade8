package boltlog_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
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
		{SessionID: string(all), Data: bytes.ReplaceAll(bytes.ReplaceAll(all, []byte("\n"), nil), []byte("\r"), nil)}, // of one line
		{SessionID: strings.Repeat("s", 1000), Keys: []activity.Key{{}}, Data: []byte("{}")},
		many,
		{Keys: many.Keys[1:1], Data: []byte(" ")},
	}
}

func TestOpen_findsEverythingAgain(t *testing.T) {
	for _, tail := range []int64{0, 1, 8 << 10} {
		t.Run(fmt.Sprint("tail of ", tail), func(t *testing.T) {
			t.Parallel()
			opts := &boltlog.Options{TailBytes: tail}
			dir := t.TempDir()
			log := open(t, dir, opts)
			want := map[string]*contents{}
			for _, id := range oddProducts {
				want[id] = &contents{start: eventlogtest.Bounds(t, log, id).Newest}
			}
			for round := range 3 {
				for i, id := range oddProducts {
					want[id].grow(t, log, id, round, i)
				}
				stats := log.Stats()
				log = reopen(t, log, dir, opts)
				require.Equal(t, stats, log.Stats())
				for id, c := range want {
					c.require(t, log, id)
				}
			}
		})
	}
}

// contents is what a product's log and documents should hold.
type contents struct {
	start  eventlog.ID
	items  []item
	bounds eventlog.Bounds
	docs   []document.Document
}

// grow adds entries and documents.
func (c *contents) grow(t *testing.T, log *boltlog.Log, productID string, round, more int) {
	t.Helper()
	entries := append(oddEntries(), eventlogtest.Entries("more", more)...)
	for _, e := range entries {
		for k := range e.Keys {
			e.Keys[k][0] += byte(round) // no key twice
		}
	}
	c.items = append(c.items, items(eventlogtest.Append(t, log, productID, entries...))...)
	put(t, log, productID, "changed", fmt.Sprint(round), 0)
	put(t, log, productID, fmt.Sprint("\x00new ", round), "", time.Hour)
	put(t, log, productID, "gone", "", 0)
	_, err := log.Documents().Write(t.Context(), productID, document.Delete(get(t, log, productID, "gone")[0]))
	require.NoError(t, err)
	c.bounds, c.docs = eventlogtest.Bounds(t, log, productID), list(t, log, productID)
}

func (c *contents) require(t *testing.T, log *boltlog.Log, productID string) {
	t.Helper()
	require.Equal(t, c.items, items(eventlogtest.ReadAll(t, log, productID, c.start, 7)), "product %q", productID)
	require.Equal(t, c.bounds, eventlogtest.Bounds(t, log, productID), "product %q", productID)
	require.Equal(t, c.docs, list(t, log, productID), "product %q", productID)
}

func TestOpen_knowsTheKeys(t *testing.T) {
	dir := t.TempDir()
	log := open(t, dir, nil)
	entries := eventlogtest.Append(t, log, product, eventlogtest.Entries("a", 50)...)
	for range 2 {
		log = reopen(t, log, dir, nil)
		for _, e := range entries {
			require.Equal(t, e.Keys, duplicates(t, log, product, eventlogtest.Entry("new", 0), e))
		}
		require.Len(t, eventlogtest.ReadAll(t, log, product, eventlogtest.Bounds(t, log, product).TrimmedTo, 100), len(entries))
	}
	eventlogtest.Append(t, log, "other", eventlogtest.Entries("a", 50)...)
	eventlogtest.Append(t, log, product, eventlogtest.Entry("new", 0))
}

// After a reopening what was dropped is still gone, and its keys are free.
func TestOpen_keepsWhatTheLogIsTrimmedTo(t *testing.T) {
	dir, opts := t.TempDir(), &boltlog.Options{Retention: eventlog.Retention{MaxBytes: 20 << 10}, TailBytes: 4 << 10}
	log := open(t, dir, opts)
	start := eventlogtest.Bounds(t, log, product).Newest
	for n := range 100 {
		eventlogtest.Append(t, log, product, eventlogtest.Sized(eventlogtest.Entry("a", n), 1000))
	}
	before := eventlogtest.Bounds(t, log, product)
	require.NotEqual(t, start, before.TrimmedTo)
	log = reopen(t, log, dir, opts)
	require.Equal(t, before, eventlogtest.Bounds(t, log, product))
	_, err := log.Read(t.Context(), product, start, make([]eventlog.Entry, 1))
	require.Equal(t, &eventlog.GapError{TrimmedTo: before.TrimmedTo, Oldest: before.Oldest}, err)
	eventlogtest.Append(t, log, product, eventlogtest.Entry("a", 0))
	require.Len(t, duplicates(t, log, product, eventlogtest.Entry("a", 0), eventlogtest.Entry("a", 99)), 2)
}

// A reader's cursor means the same before and after a reopening, wherever it is.
func TestOpen_letsReadersReadOn(t *testing.T) {
	dir, opts := t.TempDir(), &boltlog.Options{TailBytes: 8 << 10}
	log := open(t, dir, opts)
	cursors := []eventlog.ID{eventlogtest.Bounds(t, log, product).Newest}
	want := items(eventlogtest.Append(t, log, product, eventlogtest.Entries("a", 60)...))
	for _, e := range want {
		cursors = append(cursors, e.ID)
	}
	log = reopen(t, log, dir, opts)
	want = append(want, items(eventlogtest.Append(t, log, product, eventlogtest.Entries("b", 60)...))...)
	for i, after := range cursors {
		require.Equal(t, want[i:], items(eventlogtest.ReadAll(t, log, product, after, 11)))
	}
}

// A log emptied by time, then opened by a machine whose clock is years behind:
// the clock of a bubble starts in the year 2000.
func TestOpen_neverGivesAnIDAgain(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"with entries": time.Hour, "emptied": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			dir, opts := t.TempDir(), &boltlog.Options{Retention: eventlog.Retention{TTL: ttl}}
			log := open(t, dir, opts)
			last := eventlogtest.Append(t, log, product, eventlogtest.Entries("a", 5)...)[4].ID
			if ttl < time.Second {
				waittest.Until(t, "all has expired", func() bool {
					require.NoError(t, log.Expire(t.Context()))
					return log.Stats()[product].Entries == 0
				})
			}
			require.NoError(t, log.Release())
			synctest.Test(t, func(t *testing.T) {
				for range 3 {
					log := open(t, dir, opts)
					require.Equal(t, last, eventlogtest.Bounds(t, log, product).Newest)
					next := eventlogtest.Append(t, log, product, eventlogtest.Entry(fmt.Sprint("b", last), 0))[0].ID
					require.Positive(t, next.Compare(last))
					last = next
					require.NoError(t, log.Release())
				}
			})
		})
	}
}

func TestOpen_neverGivesAVersionAgain(t *testing.T) {
	dir := t.TempDir()
	log := open(t, dir, nil)
	var last document.Version
	for n := range 5 {
		a := put(t, log, product, "a", fmt.Sprint(n), 0)
		b := put(t, log, product, "b", fmt.Sprint(n), time.Millisecond)
		require.Greater(t, a.Version, last)
		require.Greater(t, b.Version, a.Version)
		last = b.Version
		_, err := log.Documents().Write(t.Context(), product, document.Delete(a))
		require.NoError(t, err)
		waittest.Until(t, "all has expired", func() bool {
			require.NoError(t, log.Expire(t.Context()))
			return len(list(t, log, product)) == 0
		})
		log = reopen(t, log, dir, nil)
		require.Empty(t, list(t, log, product))
	}
}

// Time passes while nobody has the file open.
func TestOpen_countsTheTimeItWasClosed(t *testing.T) {
	dir := t.TempDir()
	opts := &boltlog.Options{Retention: eventlog.Retention{TTL: time.Hour}}
	synctest.Test(t, func(t *testing.T) {
		log := open(t, dir, opts)
		old := eventlogtest.Append(t, log, product, eventlogtest.Entries("old", 3)...)
		put(t, log, product, "brief", "", time.Hour)
		put(t, log, product, "ever", "", 0)
		time.Sleep(59 * time.Minute)
		log = reopen(t, log, dir, opts)
		require.True(t, get(t, log, product, "brief")[0].Exists())
		young := eventlogtest.Append(t, log, product, eventlogtest.Entries("young", 3)...)
		require.NoError(t, log.Release())
		time.Sleep(2 * time.Minute)
		log = open(t, dir, opts)
		require.False(t, get(t, log, product, "brief")[0].Exists())
		require.True(t, get(t, log, product, "ever")[0].Exists())
		require.Equal(t, eventlog.Bounds{TrimmedTo: old[2].ID, Oldest: young[0].ID, Newest: young[2].ID}, eventlogtest.Bounds(t, log, product))
		eventlogtest.Append(t, log, product, eventlogtest.Entry("old", 0))
		require.NoError(t, log.Release())
	})
}

// Whatever a document's time to live, it is the same after a reopening.
func TestOpen_keepsTimesToLive(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, dir, nil)
		ttls := []time.Duration{1, time.Millisecond, time.Second, time.Hour, 100 * 365 * 24 * time.Hour, math.MaxInt64, 0}
		for _, ttl := range ttls {
			put(t, log, product, ttl.String(), "", ttl)
		}
		var passed time.Duration
		for _, step := range []time.Duration{0, time.Microsecond, time.Millisecond, time.Second, time.Hour, 1000 * time.Hour} {
			time.Sleep(step)
			passed += step
			log = reopen(t, log, dir, nil)
			for _, ttl := range ttls {
				alive := ttl == 0 || passed < (ttl+time.Millisecond-1).Truncate(time.Millisecond) || ttl > time.Hour*1e4
				require.Equal(t, alive, get(t, log, product, ttl.String())[0].Exists(), "%s after %s", ttl, passed)
			}
		}
		require.NoError(t, log.Release())
	})
}

func TestRelease_mayBeRepeated(t *testing.T) {
	log := open(t, t.TempDir(), nil)
	require.NoError(t, log.Close())
	require.NoError(t, log.Release())
	require.NoError(t, log.Release())
	assert.Error(t, log.Ping(t.Context()))
	assert.Error(t, log.Append(t.Context(), product, eventlogtest.Entries("a", 1)))
}

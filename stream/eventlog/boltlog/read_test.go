package boltlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// Every reader, however far behind, sees each entry once and in order, or is sent a gap. This holds
// also while the entries that it is about to read are being dropped.
func TestRead_isCompleteWhileEntriesComeAndGo(t *testing.T) {
	t.Parallel()
	const calls, readers = 250, 2
	log := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{MaxBytes: 40 << 10}, TailBytes: 2 << 10})
	eventlogtest.Append(t, log, acme, numbered(0, 0))
	done := make(chan struct{})
	var running sync.WaitGroup
	for r := range readers {
		running.Go(func() {
			for lag := r; ; lag++ {
				assert.NoError(t, readAllOf(t.Context(), log, lag%7))
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	n := 1
	for range calls {
		var entries []eventlog.Entry
		for range 1 + n%5 {
			entries = append(entries, numbered(n, 500))
			n++
		}
		assert.NoError(t, log.Append(t.Context(), acme, entries))
	}
	close(done)
	running.Wait()
}

// numbered returns an entry that holds its place in the log.
func numbered(n, size int) eventlog.Entry {
	e := eventlogtest.Sized(eventlogtest.Entry("numbered", n), size)
	e.SessionID = fmt.Sprint(n)
	return e
}

// readAllOf reads a log of numbered entries, read by read, from its beginning to its end at that time.
func readAllOf(ctx context.Context, log *Log, each int) error {
	b, err := log.Bounds(ctx, acme)
	if err != nil {
		return err
	}
	after, last, whole := b.TrimmedTo, -1, false
	dst := make([]eventlog.Entry, each+1)
	for after.Compare(b.Newest) < 0 {
		n, err := log.Read(ctx, acme, after, dst)
		if gap, ok := errors.AsType[*eventlog.GapError](err); ok {
			if gap.TrimmedTo.Compare(after) <= 0 {
				return fmt.Errorf("a gap up to %s for a reader at %s", gap.TrimmedTo, after)
			}
			after, whole = gap.TrimmedTo, false
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for _, e := range dst[:n] {
			var number int
			_, _ = fmt.Sscan(e.SessionID, &number)
			if number <= last || whole && number != last+1 || e.ID.Compare(after) <= 0 {
				return fmt.Errorf("entry %d at %s after entry %d at %s", number, e.ID, last, after)
			}
			last, after, whole = number, e.ID, true
		}
	}
	return nil
}

// A read of an unknown product does not create it.
func TestRead_ofUnknownProductsLeavesTheFileAsItIs(t *testing.T) {
	dir := t.TempDir()
	log := openLog(t, dir, nil)
	for _, id := range []string{"a", "b"} {
		n, err := log.Read(t.Context(), id, eventlogtest.Bounds(t, log, id).Newest, make([]eventlog.Entry, 1))
		require.NoError(t, err)
		require.Zero(t, n)
		require.Empty(t, list(t, log, id))
		log.Changed(id)
	}
	require.NoError(t, log.Expire(t.Context()))
	require.Len(t, log.Stats(), 2)
	require.NoError(t, log.Release())
	require.Empty(t, openLog(t, dir, nil).Stats())
}

// An erasure holds after the file is opened again, for readers of the tail and of the file.
func TestOpen_keepsErasures(t *testing.T) {
	for _, tailBytes := range []int64{1, 1 << 20} {
		dir, opts := t.TempDir(), &Options{TailBytes: tailBytes}
		log := openLog(t, dir, opts)
		gone := eventlogtest.EraseEntry(t, feed.Erasure{ProductID: acme, UserID: "ada", SessionIDs: []string{"s of ada"}})
		eventlogtest.Append(t, log, acme, click(t, "ada"), gone, click(t, "bob"))
		require.NoError(t, log.Release())
		log = openLog(t, dir, opts)
		require.Equal(t, tailBytes > 1, log.product(acme).tail.Len() > 0, "no more than TailBytes are read into memory")
		require.Equal(t, [][]string{{"erased"}, {"erase"}, {"bob"}}, eventlogtest.Told(t, log, acme))
		require.NoError(t, log.Drop(t.Context(), acme, 0))
		early := []eventlog.Entry{click(t, "ada")}
		log.product(acme).erased.Apply(early)
		require.Contains(t, string(early[0].Data), "ada", "an erasure that the log no longer has is not in memory")
	}
}

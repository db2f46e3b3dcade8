package boltlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// inUse returns how much of the file was ever used.
func inUse(t testing.TB, l *Log) (size int64) {
	t.Helper()
	require.NoError(t, l.view(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	}))
	return size
}

// levelsOff writes so many bytes in calls of write, which returns the bytes that it has written. It
// requires that the file ends below the most, and hardly grows in the second half.
func levelsOff(t *testing.T, l *Log, bytes int64, most float64, write func(n int) int64) {
	t.Helper()
	var written, half int64
	for n := 0; written < bytes; n++ {
		written += write(n)
		if half == 0 && written > bytes*2/3 {
			half = inUse(t, l)
		}
	}
	end := inUse(t, l)
	t.Logf("%d bytes, %d before the last third", end, half)
	require.Less(t, float64(end), most)
	require.Less(t, float64(end), 1.2*float64(half))
	requireConsistent(t, l, acme)
}

// Under a steady load the file stops growing: of twenty times the retention's size it keeps less than twice.
func TestRetention_boundsTheFile(t *testing.T) {
	t.Parallel()
	const limit = 512 << 10
	for _, test := range []struct {
		name       string
		size, call int // the largest entry, and entries to a call
	}{
		{"of small entries", 1000, 100},
		{"of large entries", 8000, 12},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{MaxBytes: limit}, TailBytes: 16 << 10})
			random := rand.New(rand.NewPCG(1, 2))
			levelsOff(t, l, 20*limit, 2*limit, func(n int) (written int64) {
				entries := make([]eventlog.Entry, test.call)
				for i := range entries {
					entries[i] = eventlogtest.Sized(eventlogtest.Entry("a", n*test.call+i), random.IntN(test.size))
					written += int64(entrySize(encodeEntry(entries[i])))
				}
				change := document.Put(document.Document{Name: fmt.Sprint("session ", n)}, make([]byte, 200), 0)
				require.NoError(t, l.appends(entries, change)())
				require.LessOrEqual(t, l.Stats()[acme].Bytes, int64(limit))
				return written
			})
		})
	}
}

// Small entries make room for large ones, however many must go.
func TestRetention_holdsWhenEntriesBecomeLarger(t *testing.T) {
	const limit = 100_000
	l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{MaxBytes: limit}})
	require.NoError(t, l.appends(eventlogtest.Entries("small", 1500))())
	for n := range 30 {
		require.NoError(t, l.appends([]eventlog.Entry{eventlogtest.Sized(eventlogtest.Entry("large", n), 30_000)})())
		require.LessOrEqual(t, l.Stats()[acme].Bytes, int64(limit))
	}
	requireConsistent(t, l, acme)
}

// Small documents make room for large ones.
func TestRetention_holdsWhenDocumentsBecomeLarger(t *testing.T) {
	const limit = 512 << 10
	l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{StateMaxBytes: 2 * limit}})
	put := func(count, size int) {
		name := func(n int) string { return fmt.Sprint(size, "/", n, "/", l.lastCommit()) }
		require.NoError(t, l.appends(nil, puts(count, size, time.Hour, name)...)())
	}
	put(2200, 10)
	for range 10 {
		put(1, 150<<10)
		storage, err := l.Storage(t.Context(), acme)
		require.NoError(t, err)
		require.LessOrEqual(t, storage.StateBytes, int64(limit))
	}
	requireConsistent(t, l, acme)
}

// Expire removes the entries in excess of a smaller retention, also where nothing is written.
func TestRetention_mayBecomeSmaller(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, nil)
	require.NoError(t, l.appends(eventlogtest.Entries("a", 3000))())
	require.NoError(t, l.Release())
	l = openLog(t, dir, &Options{Retention: eventlog.Retention{MaxBytes: 1000}})
	require.Equal(t, 3000, l.Stats()[acme].Entries, "at first everything is there")
	require.NoError(t, l.Expire(t.Context()))
	stats := l.Stats()[acme]
	require.LessOrEqual(t, stats.Bytes, int64(1000))
	require.EqualValues(t, 3000, int64(stats.Entries)+stats.Dropped)
	requireConsistent(t, l, acme)
}

// Expired documents make room for new ones, without any help.
func TestRetention_sweepsDocumentsAsOthersCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, t.TempDir(), nil)
		const each, alive = 100, 10
		var half int64
		for n := range 60 {
			name := func(i int) string { return fmt.Sprint("session ", n*each+i) }
			require.NoError(t, l.appends(nil, puts(each, 300, alive*time.Minute, name)...)())
			time.Sleep(time.Minute)
			if n == 30 {
				half = inUse(t, l)
			}
		}
		require.LessOrEqual(t, countOf(t, l, bucketDocuments), each*(alive+1))
		require.LessOrEqual(t, inUse(t, l), half)
		time.Sleep(time.Hour)
		require.NoError(t, l.Expire(t.Context()))
		require.Zero(t, countOf(t, l, bucketDocuments))
		require.Zero(t, countOf(t, l, bucketDue))
	})
}

// A flood of documents, each of a name of its own, makes the file level off:
// documents take half of the limit, and pages half full as much again.
func TestRetention_boundsTheFileOfDocuments(t *testing.T) {
	t.Parallel()
	const limit = 512 << 10
	for name, size := range map[string]int{"small": 60, "of a session": 300, "large": 3000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{StateMaxBytes: limit}})
			random := rand.New(rand.NewPCG(1, 2))
			levelsOff(t, l, 3*limit, 1.5*limit, func(int) int64 {
				name := func(int) string { return fmt.Sprintf("session/%x", random.Uint64()) }
				require.NoError(t, l.appends(nil, puts(50, size, time.Hour, name)...)())
				return int64(50 * (size + 40))
			})
		})
	}
}

// countOf returns how many keys a bucket of the product has.
func countOf(t testing.TB, l *Log, bucket []byte) (n int) {
	t.Helper()
	require.NoError(t, l.view(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(productPrefix + acme)).Bucket(bucket).ForEach(func(_, _ []byte) error {
			n++
			return nil
		})
	}))
	return n
}

// While Expire has much to do, other calls wait for a small part of it only.
func TestExpire_letsOthersThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{TTL: time.Hour}})
		require.NoError(t, l.appends(eventlogtest.Entries("old", 10*step))())
		time.Sleep(2 * time.Hour)
		before := l.lastCommit()
		appended := 0 // by which of the commits
		l.finish = func(tx *bolt.Tx) error {
			n := tx.ID() - before
			if n == 1 {
				go func() { assert.NoError(t, l.appends(eventlogtest.Entries("new", 1))()) }()
				synctest.Wait()
			}
			k, _ := tx.Bucket([]byte(productPrefix + acme)).Bucket(bucketLog).Cursor().Last()
			newest, err := parseID(k)
			if appended == 0 && newest.Time().Equal(time.Now()) {
				appended = n
			}
			return errors.Join(err, tx.Commit())
		}
		require.NoError(t, l.Expire(t.Context()))
		synctest.Wait()
		require.GreaterOrEqual(t, l.lastCommit()-before, 10)
		require.Equal(t, 2, appended, "it had the next turn")
		require.Equal(t, 1, l.Stats()[acme].Entries)
	})
}

// Expire writes nothing if it has nothing to remove.
func TestExpire_leavesTheDiskAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{TTL: time.Hour}})
		require.NoError(t, l.appends(eventlogtest.Entries("a", 3),
			document.Put(document.Document{Name: "a"}, nil, time.Hour))())
		before := l.lastCommit()
		time.Sleep(time.Hour - time.Millisecond)
		require.NoError(t, l.Expire(t.Context()))
		require.Equal(t, before, l.lastCommit())
		time.Sleep(2 * time.Millisecond)
		require.NoError(t, l.Expire(t.Context()))
		require.Equal(t, before+1, l.lastCommit())
		require.Zero(t, countOf(t, l, bucketLog)+countOf(t, l, bucketDocuments))
		require.NoError(t, l.Expire(t.Context()))
		require.Equal(t, before+1, l.lastCommit())
	})
}

// heldBy returns the bytes that products hold in memory.
func heldBy(l *Log) (total int64) {
	for _, p := range l.products.All() {
		total += p.tail.Bytes() + int64(keyCost*len(p.keys))
	}
	return total
}

// The memory that all products take together is bounded, also when the file is opened. They lose
// nothing by it while their keys fit.
func TestTails_areBoundedTogether(t *testing.T) {
	const products, each, total = 20, 30, 256 << 10
	dir := t.TempDir()
	opts := &Options{Retention: eventlog.Retention{TotalBytes: total}}
	l := openLog(t, dir, opts)
	for n := range each {
		for p := range products {
			require.NoError(t, l.Append(t.Context(), fmt.Sprint(p),
				[]eventlog.Entry{eventlogtest.Sized(eventlogtest.Entry("a", n), 2000)}))
			require.LessOrEqual(t, heldBy(l), int64(total))
		}
	}
	for range 2 {
		require.Greater(t, heldBy(l), int64(total*3/4), "the room is used")
		for p := range products {
			require.Len(t, eventlogtest.Retained(t, l, fmt.Sprint(p)), each)
		}
		l = requireTrueMemory(t, l, dir, opts)
		require.LessOrEqual(t, heldBy(l), int64(total))
	}
}

// If there are too many keys, the product with the most keys loses its oldest entries, and no other product does.
func TestKeys_areBoundedTogether(t *testing.T) {
	const total = 256 << 10
	dir := t.TempDir()
	opts := &Options{Retention: eventlog.Retention{TotalBytes: total}}
	l := openLog(t, dir, opts)
	require.NoError(t, l.Append(t.Context(), "other", eventlogtest.Entries("a", 20)))
	for n := range 4 * total / keyCost / 100 {
		e := eventlog.Entry{Data: []byte("{}")}
		for k := range 100 {
			e.Keys = append(e.Keys, feed.KeyOf(fmt.Sprint(n, "/", k)))
		}
		require.NoError(t, l.appends([]eventlog.Entry{e})())
	}
	require.LessOrEqual(t, heldBy(l), int64(total))
	require.Equal(t, 20, l.Stats()["other"].Entries)
	require.Positive(t, l.Stats()[acme].Dropped)
	err := errorOf(l.Read(t.Context(), acme, eventlog.ID{}, make([]eventlog.Entry, 1)))
	require.ErrorAs(t, err, new(*eventlog.GapError))
	requireConsistent(t, l, acme)
	requireTrueMemory(t, l, dir, opts)
}

// A call that writes more than there is room for evicts everything else, and nothing of its own.
// The next call evicts its documents.
func TestState_evictsNothingOfTheSameCall(t *testing.T) {
	l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{StateMaxBytes: 64 << 10}})
	put := func(n int, format string, first int) {
		name := func(i int) string { return fmt.Sprintf(format, first+i) }
		require.NoError(t, errorOf(l.Documents().Write(t.Context(), acme, puts(n, 1<<10, time.Hour, name)...)))
	}
	put(1, "before%d", 0)
	put(64, "n%02d", 0)
	docs := list(t, l, acme)
	require.Len(t, docs, 64)
	require.Equal(t, "n00", docs[0].Name)
	for n := range 40 {
		put(1, "other%d", n)
	}
	for _, d := range list(t, l, acme) {
		require.Contains(t, d.Name, "other")
	}
}

// A process whose clock was a year ahead leaves IDs and documents of that time. From the moment the
// file is opened again they last no longer than others. IDs still grow, also once the log is empty,
// and entries appended meanwhile have their own time.
func TestOpen_limitsTheLifeOfEntriesFromAClockThatWasAhead(t *testing.T) {
	const ttl = 4 * time.Hour
	dir := t.TempDir()
	opts := &Options{Retention: eventlog.Retention{TTL: ttl}}
	var ahead []eventlog.Entry
	var newest eventlog.ID
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(365 * 24 * time.Hour)
		l := openLog(t, dir, opts)
		ahead = eventlogtest.Entries("ahead", 3)
		changes := []document.Change{document.Put(document.Document{Name: "mortal"}, nil, ttl),
			document.Put(document.Document{Name: "ever"}, nil, 0)}
		require.NoError(t, l.appends(ahead, changes...)())
	})
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, opts)
		require.Len(t, list(t, l, acme), 2)
		require.Equal(t, ahead[2].ID, eventlogtest.Bounds(t, l, acme).Newest)
		time.Sleep(ttl / 2)
		later := eventlogtest.Entries("later", 1)
		require.NoError(t, l.appends(later, document.Put(document.Document{Name: "later"}, nil, ttl))())
		require.Positive(t, later[0].ID.Compare(ahead[2].ID))

		time.Sleep(ttl/2 - time.Second)
		require.Equal(t, ahead[0].ID, eventlogtest.Bounds(t, l, acme).Oldest, "not before their time")
		require.Len(t, list(t, l, acme), 3)
		time.Sleep(ttl/32 + time.Second)
		require.Equal(t, eventlog.Bounds{TrimmedTo: ahead[2].ID, Oldest: later[0].ID, Newest: later[0].ID},
			eventlogtest.Bounds(t, l, acme))
		require.Len(t, list(t, l, acme), 2)
		require.NoError(t, l.Expire(t.Context()))
		require.Equal(t, 1, l.Stats()[acme].Entries, "they make room")
		require.NoError(t, l.appends(eventlogtest.Entries("ahead", 3))(), "and their keys are free")

		time.Sleep(ttl + ttl/16)
		require.NoError(t, l.Expire(t.Context()))
		require.Zero(t, l.Stats()[acme].Entries)
		require.Zero(t, eventlogtest.Bounds(t, l, acme).Oldest)
		docs := list(t, l, acme)
		require.Len(t, docs, 1)
		require.Equal(t, "ever", docs[0].Name)
		newest = eventlogtest.Bounds(t, l, acme).Newest
	})
	for range 2 { // behind again
		synctest.Test(t, func(t *testing.T) {
			l := openLog(t, dir, opts)
			require.Equal(t, newest, eventlogtest.Bounds(t, l, acme).Newest)
			next := eventlogtest.Append(t, l, acme, eventlog.Entry{Data: []byte("{}")})[0].ID
			require.Positive(t, next.Compare(newest), "no ID is given again, though no entry is left")
			newest = next
		})
	}
}

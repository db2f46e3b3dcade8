package boltlog

import (
	"context"
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

// Under a steady load the file stops growing: of twenty times the retention's
// size it keeps less than twice.
func TestRetention_boundsTheFile(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
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
			var written, half int64
			for n := 0; written < 20*limit; n++ {
				entries := make([]eventlog.Entry, test.call)
				for i := range entries {
					entries[i] = eventlogtest.Sized(eventlogtest.Entry("a", n*test.call+i), random.IntN(test.size))
					written += entrySize(entries[i])
				}
				change := document.Put(document.Document{Name: fmt.Sprint("session ", n)}, make([]byte, 200), 0)
				require.NoError(t, l.appends(entries, change)())
				require.LessOrEqual(t, l.Stats()[acme].Bytes, int64(limit))
				if half == 0 && written > 10*limit {
					half = inUse(t, l)
				}
			}
			end := inUse(t, l)
			t.Logf("%.2f of the limit, %.2f half-way", float64(end)/limit, float64(half)/limit)
			require.Less(t, end, int64(2*limit))
			require.Less(t, float64(end), 1.3*float64(half))
			requireConsistent(t, l, acme)
		})
	}
}

// Small entries make room for large ones, however many of them that takes.
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

// What a smaller retention leaves too much of goes with Expire, also where
// nothing is written.
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

// A single entry stays however large, even when one after it was given up.
func TestRetention_keepsTheNewest(t *testing.T) {
	l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{MaxBytes: 100}})
	require.NoError(t, l.appends([]eventlog.Entry{eventlogtest.Sized(eventlogtest.Entry("a", 0), 1000)})())
	l.finish = func(*bolt.Tx) error { return errDisk }
	require.Error(t, l.appends(eventlogtest.Entries("b", 1))())
	l.finish = (*bolt.Tx).Commit
	require.NoError(t, l.appends(nil, document.Put(document.Document{Name: "a"}, nil, 0))())
	require.NoError(t, l.Expire(t.Context()))
	require.Equal(t, 1, l.Stats()[acme].Entries)
	require.NoError(t, l.appends(eventlogtest.Entries("b", 1))())
	require.Equal(t, 1, l.Stats()[acme].Entries)
	require.EqualValues(t, 1, l.Stats()[acme].Dropped)
}

// Documents that expire make room for those that come, without any help.
func TestRetention_sweepsDocumentsAsOthersCome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, nil)
		const each, alive = 100, 10
		var half int64
		for n := range 60 {
			var changes []document.Change
			for i := range each {
				d := document.Document{Name: fmt.Sprint("session ", n*each+i)}
				changes = append(changes, document.Put(d, make([]byte, 300), alive*time.Minute))
			}
			require.NoError(t, l.appends(nil, changes...)())
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
		require.Zero(t, countOf(t, l, bucketExpiry))
		require.NoError(t, l.Release())
	})
}

// A flood of documents, each of a name of its own, makes the file level off:
// documents take half of the limit, and pages half full as much again.
func TestRetention_boundsTheFileOfDocuments(t *testing.T) {
	t.Parallel()
	const limit = 2 << 20
	for name, size := range map[string]int{"small": 60, "of a session": 300, "large": 3000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{StateMaxBytes: limit}})
			random := rand.New(rand.NewPCG(1, 2))
			var written, half int64
			for written < 4*limit {
				var changes []document.Change
				for range 200 {
					d := document.Document{Name: fmt.Sprintf("session/%x", random.Uint64())}
					changes = append(changes, document.Put(d, make([]byte, size), time.Hour))
				}
				written += int64(changesCost(changes))
				require.NoError(t, l.appends(nil, changes...)())
				if half == 0 && written > 2*limit {
					half = inUse(t, l)
				}
			}
			end := inUse(t, l)
			t.Logf("%.2f of the limit, %.2f half-way", float64(end)/limit, float64(half)/limit)
			require.Less(t, float64(end), 1.5*limit)
			require.Less(t, float64(end), 1.2*float64(half))
			requireConsistent(t, l, acme)
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

// Whatever is done to a document, it has one place in the index at most, and
// none when it is gone or never expires.
func TestDocuments_haveOnePlaceInTheIndex(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, nil)
		ttls := []time.Duration{0, time.Minute, time.Hour}
		var d document.Document
		write := func(c document.Change) {
			_, err := l.Documents().Write(t.Context(), acme, c)
			require.NoError(t, err)
			docs, err := l.Documents().Get(t.Context(), acme, "a")
			require.NoError(t, err)
			d = docs[0]
			requireConsistent(t, l, acme)
			require.Equal(t, c.TTL > 0 && c.Op != document.OpDelete, countOf(t, l, bucketExpiry) > 0 && c.TTL > 0)
			require.LessOrEqual(t, countOf(t, l, bucketExpiry), countOf(t, l, bucketDocuments))
		}
		for _, first := range ttls {
			for _, second := range ttls {
				for _, third := range ttls {
					d = document.Document{Name: "a"}
					write(document.Put(d, nil, first))
					write(document.Touch(d, second))
					write(document.Put(d, nil, third))
					write(document.Touch(d, first))
					write(document.Delete(d))
					require.Zero(t, countOf(t, l, bucketExpiry))
					write(document.Put(d, nil, first))
					time.Sleep(2 * time.Hour)
					require.NoError(t, l.Expire(t.Context()))
					if first == 0 {
						write(document.Delete(d))
					}
					require.Zero(t, countOf(t, l, bucketDocuments)+countOf(t, l, bucketExpiry))
				}
			}
		}
		require.NoError(t, l.Release())
	})
}

// Documents that are written together share a few places, which they leave one by
// one, and still expire each in its own time.
func TestDocuments_shareAPlace(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, nil)
		write := func(changes ...document.Change) {
			_, err := l.Documents().Write(t.Context(), acme, changes...)
			require.NoError(t, err)
			requireConsistent(t, l, acme)
		}
		left := func() (names []string) {
			docs, err := l.Documents().List(t.Context(), acme, "", "", 1000)
			require.NoError(t, err)
			for _, d := range docs {
				names = append(names, d.Name)
			}
			return names
		}
		var changes []document.Change
		for n := range 400 {
			ttl := time.Hour
			if n >= 300 {
				ttl = 2 * time.Hour
			}
			changes = append(changes, document.Put(document.Document{Name: fmt.Sprintf("session %03d", n)}, nil, ttl))
		}
		write(changes...)
		require.Greater(t, countOf(t, l, bucketPlaces), 2)
		require.Less(t, countOf(t, l, bucketPlaces), 10)
		require.Equal(t, countOf(t, l, bucketPlaces), countOf(t, l, bucketExpiry))

		docs, err := l.Documents().List(t.Context(), acme, "", "", 1000)
		require.NoError(t, err)
		for n := 3; n < 250; n++ {
			write(document.Delete(docs[n]))
		}
		time.Sleep(time.Minute)
		write(document.Put(docs[0], nil, time.Hour), document.Touch(docs[1], 2*time.Hour), document.Put(docs[2], nil, 0),
			document.Touch(docs[250], time.Minute), document.Touch(docs[300], time.Minute))
		time.Sleep(time.Minute)
		require.Len(t, left(), 3+400-250-2)
		time.Sleep(58 * time.Minute)
		require.NoError(t, l.Expire(t.Context()))
		requireConsistent(t, l, acme)
		require.Equal(t, []string{"session 000", "session 001", "session 002", "session 301"}, left()[:4])
		require.Len(t, left(), 3+99)
		time.Sleep(2 * time.Hour)
		require.NoError(t, l.Expire(t.Context()))
		require.Equal(t, []string{"session 002"}, left())
		require.Zero(t, countOf(t, l, bucketPlaces)+countOf(t, l, bucketExpiry))
		require.NoError(t, l.Release())
	})
}

// Of documents that were written together as many are evicted as have to be, and
// none that was written again since.
func TestState_evictsPartOfAPlace(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // all at the same moment
		l := openLog(t, dir, &Options{Retention: eventlog.Retention{StateMaxBytes: 64 << 10}})
		put := func(from, to int) {
			var changes []document.Change
			for n := from; n < to; n++ {
				d := document.Document{Name: fmt.Sprintf("n%03d", n)}
				if docs, err := l.Documents().Get(t.Context(), acme, d.Name); err == nil {
					d = docs[0]
				}
				changes = append(changes, document.Put(d, make([]byte, 100), time.Hour))
			}
			_, err := l.Documents().Write(t.Context(), acme, changes...)
			require.NoError(t, err)
			requireConsistent(t, l, acme)
		}
		put(0, 100)
		put(5, 10)
		put(0, 5)
		places := countOf(t, l, bucketPlaces)
		for n := 100; ; n++ {
			put(n, n+1)
			docs, err := l.Documents().List(t.Context(), acme, "", "", 1000)
			require.NoError(t, err)
			if gone := n + 1 - len(docs); gone > 0 {
				require.Equal(t, 1, gone)
				require.Equal(t, "n009", docs[9].Name)
				require.Equal(t, "n011", docs[10].Name)
				require.GreaterOrEqual(t, countOf(t, l, bucketPlaces), places)
				break
			}
		}
		require.NoError(t, l.Release())
	})
}

// While Expire has much to do, others wait for a small part of it only.
func TestExpire_letsOthersThrough(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, &Options{Retention: eventlog.Retention{TTL: time.Hour}})
		require.NoError(t, l.appends(eventlogtest.Entries("old", 10*expireStep))())
		time.Sleep(2 * time.Hour)
		before := l.lastCommit()
		appended := 0 // by which of the commits
		l.finish = func(tx *bolt.Tx) error {
			n := tx.ID() - before
			if n == 1 {
				go func() { assert.NoError(t, l.appends(eventlogtest.Entries("new", 1))()) }()
				synctest.Wait()
			}
			newest, err := lastOf(tx.Bucket([]byte(productPrefix + acme)).Bucket(bucketLog).Cursor().Last())
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
		require.NoError(t, l.Release())
	})
}

// Where nothing is to be removed, Expire writes nothing.
func TestExpire_leavesTheDiskAlone(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, &Options{Retention: eventlog.Retention{TTL: time.Hour}})
		require.NoError(t, l.appends(eventlogtest.Entries("a", 3), document.Put(document.Document{Name: "a"}, nil, time.Hour))())
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
		require.NoError(t, l.Release())
	})
}

func TestExpire_endsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, nil)
	require.NoError(t, l.appends(eventlogtest.Entries("a", 3000))())
	require.NoError(t, l.Release())
	l = openLog(t, dir, &Options{Retention: eventlog.Retention{MaxBytes: 1000}})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Expire(cancelled), cancelled.Err())
	require.Equal(t, 3000, l.Stats()[acme].Entries)
}

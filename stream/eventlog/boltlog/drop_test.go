package boltlog

import (
	"bytes"
	"context"
	"errors"
	"strconv"
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

// fillLog appends entries, each with a document, as one commit.
func fillLog(t testing.TB, l *Log, n int) []eventlog.Entry {
	t.Helper()
	entries := eventlogtest.Entries("a", n)
	require.NoError(t, l.appends(entries, puts(n, 100, time.Hour, strconv.Itoa)...)())
	return entries
}

// left returns how many dropped buckets are still to be freed.
func left(t testing.TB, l *Log) (n int) {
	t.Helper()
	require.NoError(t, l.view(func(tx *bolt.Tx) error {
		if b := tx.Bucket(bucketDropped); b != nil {
			return b.ForEach(func([]byte, []byte) error { n++; return nil })
		}
		return nil
	}))
	return n
}

// Everything disappears at once. Its room is freed in steps, and other calls have their turn between the steps.
func TestDrop_takesItsStepsOneAtATime(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, nil)
	given := fillLog(t, l, 3*sweepCost)
	commits := 0
	l.finish = func(tx *bolt.Tx) error {
		commits++
		docs, err := l.Documents().List(context.Background(), acme, "", "", 1)
		assert.NoError(t, err)
		assert.Equal(t, commits == 1, len(docs) > 0, "before commit %d", commits)
		return tx.Commit()
	}
	require.NoError(t, l.Drop(t.Context(), acme, 0))
	require.GreaterOrEqual(t, commits, 1+3*2, "entries and documents")
	l.finish = (*bolt.Tx).Commit
	require.Zero(t, left(t, l))
	require.Equal(t, eventlog.Stats{}, l.Stats()[acme])
	require.NoError(t, l.appends(eventlogtest.Entries("a", 3))(), "the keys are free")
	require.Equal(t, given[len(given)-1].ID, eventlogtest.Bounds(t, l, acme).TrimmedTo)
	requireConsistent(t, l, acme)
	requireTrueMemory(t, l, dir, nil)
}

// Nobody sees the rest of a product whose Drop was cut short, also after a restart. The next Drop,
// of any product, or Expire frees it.
func TestDrop_goesOnWhereItWasCut(t *testing.T) {
	for name, goOn := range map[string]func(*Log) error{
		"Drop":       func(l *Log) error { return l.Drop(context.Background(), acme, 0) },
		"of another": func(l *Log) error { return l.Drop(context.Background(), "other", 0) },
		"Expire":     func(l *Log) error { return l.Expire(context.Background()) },
		"Drop in between": func(l *Log) error {
			if err := l.appends(eventlogtest.Entries("a", 10))(); err != nil {
				return err
			}
			return l.Drop(context.Background(), acme, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := openLog(t, dir, nil)
			given := fillLog(t, l, 2*sweepCost)
			ctx, cancel := context.WithCancel(t.Context())
			commits := 0
			l.finish = func(tx *bolt.Tx) error {
				if commits++; commits == 2 {
					cancel()
				}
				return tx.Commit()
			}
			require.ErrorIs(t, l.Drop(ctx, acme, 0), context.Canceled)
			for range 2 {
				require.Equal(t, 1, left(t, l))
				require.Empty(t, list(t, l, acme))
				newest := given[len(given)-1].ID
				require.Equal(t, eventlog.Bounds{TrimmedTo: newest, Newest: newest}, eventlogtest.Bounds(t, l, acme))
				err := errorOf(l.Read(t.Context(), acme, given[0].ID, make([]eventlog.Entry, 1)))
				require.ErrorAs(t, err, new(*eventlog.GapError))
				require.NoError(t, l.Release())
				l = openLog(t, dir, nil)
			}
			require.NoError(t, goOn(l))
			require.Zero(t, left(t, l))
			require.NoError(t, l.appends(given)())
			requireConsistent(t, l, acme)
			requireTrueMemory(t, l, dir, nil)
		})
	}
}

// A Drop that fails, or shares its commit with others, leaves the memory equal to the file.
func TestDrop_sharesACommit(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, nil)
		require.NoError(t, l.appends(eventlogtest.Entries("old", 20), document.Put(document.Document{Name: "a"}, nil, 0))())
		before := memoryOf(l)
		calls := []func() error{
			l.appends(eventlogtest.Entries("new", 2), document.Put(document.Document{Name: "b"}, nil, time.Hour)),
			func() error {
				return l.do(t.Context(), func(tx *transaction) (refusal, err error) {
					b, err := tx.open(l.product(acme), false)
					return nil, errors.Join(err, b.drop(0))
				})
			},
			l.appends(eventlogtest.Entries("old", 3), document.Put(document.Document{Name: "a"}, nil, 0)),
		}
		for _, err := range together(l, func(*bolt.Tx) error { return errDisk }, calls...) {
			require.ErrorIs(t, err, errDisk)
		}
		require.Equal(t, before, memoryOf(l))
		requireConsistent(t, l, acme)
		for _, err := range together(l, (*bolt.Tx).Commit, calls...) {
			require.NoError(t, err)
		}
		require.Equal(t, 3, l.Stats()[acme].Entries)
		require.Len(t, list(t, l, acme), 1)
		requireConsistent(t, l, acme)
		l = requireTrueMemory(t, l, dir, nil)
		require.NoError(t, l.Expire(t.Context()))
		require.Zero(t, left(t, l))
	})
}

// With a disk that hangs every call returns when its context ends. The commit in flight goes on: a
// retry learns that it had an effect, and its actions can be looked up. Waiting calls never have one.
func TestCommit_thatHangsBlocksNoOthers(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, nil)
		hung := make(chan struct{})
		l.finish = func(tx *bolt.Tx) error {
			<-hung
			return tx.Commit()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		first := click(t, "ada")
		inFlight, waiting := []eventlog.Entry{first}, eventlogtest.Entries("waiting", 2)
		inFlight[0].Data = bytes.Clone(first.Data)
		began := time.Now()
		errs := make(chan error)
		calls := []func() error{
			func() error { return l.Append(ctx, acme, inFlight) },
			func() error { return l.Append(ctx, acme, waiting) },
			func() error { return errorOf(l.Documents().Write(ctx, acme, puts(1, 0, 0, strconv.Itoa)...)) },
			func() error { return l.Drop(ctx, acme, 0) },
			func() error { return l.Ping(ctx) },
			func() error { return l.Ping(ctx) },
		}
		for _, call := range calls {
			go func() { errs <- call() }()
			synctest.Wait()
		}
		short, cancelShort := context.WithTimeout(t.Context(), time.Second)
		defer cancelShort()
		require.ErrorIs(t, l.Ping(short), context.DeadlineExceeded, "while another Ping waits")
		require.Equal(t, time.Second, time.Since(began))
		for range calls {
			require.ErrorIs(t, <-errs, context.DeadlineExceeded)
			require.Equal(t, 4*time.Second, time.Since(began))
		}
		clear(inFlight[0].Data) // the caller's again
		close(hung)
		require.ErrorAs(t, l.appends([]eventlog.Entry{first})(), new(*eventlog.DuplicateError))
		require.Equal(t, 1, filed(t, l, "ada"))
		require.NoError(t, l.appends(waiting)())
		require.Empty(t, list(t, l, acme))
		require.NoError(t, l.Ping(t.Context()))
		there := eventlogtest.Retained(t, l, acme)
		require.Len(t, there, 3)
		require.Equal(t, string(first.Data), string(there[0].Data))
		l.finish = (*bolt.Tx).Commit
		requireTrueMemory(t, l, dir, nil)
	})
}

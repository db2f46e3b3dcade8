package boltlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

var errDisk = errors.New("the disk fails")

// memory is a log's knowledge of a product without a look at the file.
type memory struct {
	keys                      map[feed.Key]struct{}
	state                     state
	trimmedTo, oldest, newest eventlog.ID
}

func memoryOf(l *Log) map[string]memory {
	all := map[string]memory{}
	for _, p := range l.products.All() {
		if p.state.Entries > 0 {
			all[p.id] = memory{maps.Clone(p.keys), p.state, p.trimmedTo, p.oldest, p.tail.Bounds().Newest}
		}
	}
	return all
}

// requireTrueMemory fails the test unless the log's memory equals the memory of a log that is
// opened again. It returns that log.
func requireTrueMemory(t testing.TB, l *Log, dir string, opts *Options) *Log {
	t.Helper()
	want := memoryOf(l)
	require.NoError(t, l.Release())
	again := openLog(t, dir, opts)
	require.Equal(t, want, memoryOf(again))
	return again
}

// together makes the calls so that they share one commit, which finish ends, and returns their errors.
func together(l *Log, finish func(*bolt.Tx) error, calls ...func() error) []error {
	begun, goOn := make(chan struct{}), make(chan struct{})
	l.finish = func(tx *bolt.Tx) error {
		close(begun)
		<-goOn
		return tx.Commit()
	}
	var running sync.WaitGroup
	running.Go(func() { _ = l.do(context.Background(), probed) })
	<-begun
	errs := make([]error, len(calls))
	for i, call := range calls {
		running.Go(func() { errs[i] = call() })
		synctest.Wait() // it is in the queue
	}
	l.finish = finish
	close(goOn)
	running.Wait()
	l.finish = (*bolt.Tx).Commit
	return errs
}

// lastCommit returns the number of the transaction that readers see.
func (l *Log) lastCommit() (id int) {
	_ = l.view(func(tx *bolt.Tx) error {
		id = tx.ID()
		return nil
	})
	return id
}

// probed makes an operation that is committed, and nothing else.
func probed(t *transaction) (refusal, err error) {
	t.changed = true
	return nil, nil
}

func (l *Log) appends(entries []eventlog.Entry, changes ...document.Change) func() error {
	return func() error { return l.Append(context.Background(), acme, entries, changes...) }
}

// Some of the calls that share a commit are refused, each for a reason of its own.
func TestCommit_refusesEachCallByItself(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, nil)
		create := document.Put(document.Document{Name: "a"}, nil, 0)
		long := string(make([]byte, 1<<16)) // too long for bbolt
		before := l.lastCommit()
		errs := together(l, (*bolt.Tx).Commit,
			l.appends(eventlogtest.Entries("one", 2), create),
			l.appends(eventlogtest.Entries("one", 1)),
			l.appends(eventlogtest.Entries("two", 2), create),
			l.appends(eventlogtest.Entries("two", 3)),
			l.appends([]eventlog.Entry{eventlogtest.Entry("three", 0), eventlogtest.Entry("three", 0)}),
			l.appends(eventlogtest.Entries("three", 1)),
			func() error { return l.Append(context.Background(), long, eventlogtest.Entries("one", 1)) },
			func() error { return l.Append(context.Background(), "other", eventlogtest.Entries("one", 1), create) },
		)
		var duplicate *eventlog.DuplicateError
		require.ErrorAs(t, errs[1], &duplicate)
		require.Equal(t, eventlogtest.Entry("one", 0).Keys, duplicate.Keys)
		require.ErrorAs(t, errs[2], new(*document.ConflictError))
		require.ErrorAs(t, errs[4], &duplicate)
		require.Error(t, errs[6])
		require.False(t, get(t, l, long, "a")[0].Exists())
		require.NoError(t, errors.Join(errs[0], errs[3], errs[5], errs[7]))
		require.Equal(t, 2, l.lastCommit()-before, "the first, and one for all who came meanwhile")
		require.NoError(t, l.Expire(t.Context()))
		require.Equal(t, 6, l.Stats()[acme].Entries)
		requireTrueMemory(t, l, dir, nil)
	})
}

// A failed commit acknowledges nothing. A call whose keys were duplicates only of others in the
// same commit fails, too.
func TestCommit_thatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	opts := &Options{Retention: eventlog.Retention{MaxBytes: 3000}}
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, dir, opts)
		old := eventlogtest.Entry("old", 0)
		require.NoError(t, l.appends([]eventlog.Entry{old}, document.Put(document.Document{Name: "a"}, nil, 0))())
		before, docs := memoryOf(l), list(t, l, acme)
		changed := l.Changed(acme)
		big := []eventlog.Entry{eventlogtest.Sized(eventlogtest.Entry("big", 0), 4000)} // makes the old one go
		calls := []func() error{
			l.appends(eventlogtest.Entries("one", 2), document.Put(docs[0], []byte("new"), 0)),
			l.appends(eventlogtest.Entries("one", 2)), // the same again, as clients do
			l.appends(nil, document.Put(docs[0], []byte("new"), 0)),
			l.appends(big),
			l.appends([]eventlog.Entry{eventlogtest.Entry("next", 0)}),
		}
		for i, err := range together(l, func(*bolt.Tx) error { return errDisk }, calls...) {
			require.ErrorIs(t, err, errDisk, "call %d", i)
		}
		require.Equal(t, before, memoryOf(l))
		require.Equal(t, docs, list(t, l, acme))
		require.False(t, waittest.Fired(changed), "nothing has changed")
		errs := together(l, (*bolt.Tx).Commit, calls...)
		require.ErrorAs(t, errs[1], new(*eventlog.DuplicateError))
		require.ErrorAs(t, errs[2], new(*document.ConflictError))
		require.NoError(t, errors.Join(errs[0], errs[3], errs[4]))
		requireTrueMemory(t, l, dir, opts)
	})
}

// If all calls are refused there is nothing to commit, unless entries have expired and are removed with them.
func TestCommit_ofRefusedCallsLeavesTheDiskAlone(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		opts := &Options{Retention: eventlog.Retention{TTL: time.Hour}}
		l := openLog(t, dir, opts)
		require.NoError(t, l.appends(eventlogtest.Entries("old", 2))())
		time.Sleep(time.Minute)
		create := document.Put(document.Document{Name: "a"}, nil, 0)
		again := []func() error{l.appends(eventlogtest.Entries("a", 2)), l.appends(eventlogtest.Entries("b", 1), create)}
		require.NoError(t, again[0]())
		require.NoError(t, again[1]())
		again[1] = l.appends(eventlogtest.Entries("c", 1), create)
		requireRefused := func(errs []error) {
			require.ErrorAs(t, errs[0], new(*eventlog.DuplicateError))
			require.ErrorAs(t, errs[1], new(*document.ConflictError))
		}
		before, held := l.lastCommit(), memoryOf(l)
		requireRefused([]error{again[0](), again[1]()})
		require.Equal(t, before, l.lastCommit())
		requireRefused(together(l, (*bolt.Tx).Commit, again...))
		require.Equal(t, before+1, l.lastCommit(), "that of the call they waited for")
		require.Equal(t, held, memoryOf(l))

		time.Sleep(59*time.Minute + time.Millisecond)
		requireRefused([]error{again[0](), again[1]()})
		require.Equal(t, before+2, l.lastCommit())
		require.Equal(t, 3, l.Stats()[acme].Entries)
		requireTrueMemory(t, l, dir, opts)
	})
}

// A commit that may or may not have reached the disk is the last one of the process. So is one in which
// bbolt fails as it never should, which means that the file is damaged. Until the file was opened again
// nothing more is written or acknowledged, not even that a key is a duplicate.
func TestCommit_ofUnknownOutcomeIsTheLast(t *testing.T) {
	fails := func(err error) func(*bolt.Tx) error { return func(*bolt.Tx) error { return err } }
	for name, test := range map[string]struct {
		finish func(*bolt.Tx) error
		want   error
		stored int
	}{
		"fdatasync failed":         {fails(syscall.EIO), ErrUncertain, 0},
		"fsync failed":             {fails(&fs.PathError{Op: "sync", Err: syscall.ENOSPC}), ErrUncertain, 0},
		"growing failed at fsync":  {fails(fmt.Errorf("file sync error: %s", syscall.EIO)), ErrUncertain, 0},
		"it is there nevertheless": {func(tx *bolt.Tx) error { return errors.Join(tx.Commit(), errDisk) }, ErrUncertain, 3},
		"it finds damage":          {func(tx *bolt.Tx) error { return tx.Bucket(nil).Put(nil, nil) }, ErrDamaged, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var words bytes.Buffer
				l := openLog(t, dir, &Options{Logger: slog.New(slog.NewTextHandler(&words, nil))})
				old := eventlogtest.Entries("old", 2)
				require.NoError(t, l.appends(old)())
				start, before := eventlogtest.Bounds(t, l, acme), memoryOf(l)
				errs := together(l, test.finish, l.appends(eventlogtest.Entries("a", 3)), l.appends(old))
				last := l.lastCommit()
				errs = append(errs, l.appends(eventlogtest.Entries("a", 3))(), l.appends(old)(),
					l.appends(eventlogtest.Entries("b", 1))(), l.Ping(t.Context()),
					errorOf(l.Documents().Write(t.Context(), acme, puts(1, 0, 0, strconv.Itoa)...)))
				for _, err := range errs {
					require.ErrorIs(t, err, test.want)
					require.ErrorContains(t, err, dir)
					require.NotErrorAs(t, err, new(*eventlog.DuplicateError))
				}
				require.Equal(t, last, l.lastCommit())
				require.Equal(t, 1, strings.Count(words.String(), "until the process is restarted"), "%s", &words)

				require.Equal(t, before, memoryOf(l), "what is uncertain is shown to nobody")
				require.Equal(t, start, eventlogtest.Bounds(t, l, acme))
				require.Len(t, eventlogtest.Retained(t, l, acme), 2, "what was acknowledged can still be read")

				require.NoError(t, l.Release())
				l = openLog(t, dir, nil)
				require.Equal(t, 2+test.stored, l.Stats()[acme].Entries)
				require.ErrorAs(t, l.appends(old)(), new(*eventlog.DuplicateError))
				requireTrueMemory(t, l, dir, nil)
			})
		})
	}
}

// The log goes on after a commit that failed for want of space, or before anything was to be
// synchronized. Ping shows at once whether it can write.
func TestCommit_thatWroteNothingIsNotTheLast(t *testing.T) {
	l := openLog(t, t.TempDir(), nil)
	for _, failure := range []error{&fs.PathError{Op: "write", Err: syscall.ENOSPC},
		&fs.PathError{Op: "write", Err: syscall.EIO}, errDisk} {
		l.finish = func(*bolt.Tx) error { return failure }
		require.ErrorIs(t, l.appends([]eventlog.Entry{click(t, "ada")})(), failure)
		require.ErrorIs(t, l.Ping(t.Context()), failure)
	}
	l.finish = (*bolt.Tx).Commit
	require.NoError(t, l.Ping(t.Context()))
	require.Zero(t, filed(t, l, "ada"), "what failed is not filed")
	require.NoError(t, l.appends(eventlogtest.Entries("a", 1))())
}

func click(t testing.TB, user string) eventlog.Entry {
	t.Helper()
	return eventlogtest.BatchEntry(t, activitytest.NewBatch(acme, "s of "+user, user,
		activitytest.Click(time.Now(), "Save", "https://acme.example/")))
}

// filed returns how many actions of a user can be looked up.
func filed(t testing.TB, l *Log, user string) int {
	t.Helper()
	found, err := l.Activity().Recent(t.Context(), acme, recent.Subject{UserID: user}, 1000)
	require.NoError(t, err)
	return len(found.Records)
}

// Open files the actions in the file again as they were filed when they came: late ones, those of a
// visitor who signed in, no more of a user than are kept, no dropped and no erased ones, and nothing of
// an entry that cannot be decoded. Recording goes on as if it had never stopped.
func TestOpen_filesTheActionsInTheFile(t *testing.T) {
	const users = 20
	var events []activity.Event
	random := rand.New(rand.NewPCG(1, 1))
	user := func() string { return fmt.Sprint("user", random.IntN(users)) }
	for n := range 500 {
		a := activity.NewAction(activity.TypeClick, activity.Target{Label: fmt.Sprint(n)}, "https://acme.example/")
		e := activity.Event{ID: fmt.Sprint("event ", n),
			Time:      time.Now().Add(-time.Duration(random.IntN(3600)) * time.Second),
			SessionID: fmt.Sprint("s", random.IntN(30)), UserID: user(), Action: &a}
		switch n % 10 {
		case 0:
			e.SessionID = ""
		case 1:
			e.UserID = ""
		case 2:
			e.Action, e.Anonymous, e.UserID, e.Identified = nil, e.UserID, user(), true
		}
		events = append(events, e)
	}
	dir, opts := t.TempDir(), &Options{MaxEvents: 10}
	l := openLog(t, dir, opts)
	record := func() {
		recorder := musttest.New(eventlog.NewRecorder(l, nil))
		for request := range slices.Chunk(events, 20) {
			require.NoError(t, errorOf(recorder.Record(t.Context(), acme, request)))
		}
	}
	lookups := func() (all []recent.Records) {
		for n := range users {
			found, err := l.Activity().Recent(t.Context(), acme, recent.Subject{UserID: fmt.Sprint("user", n)}, 1000)
			require.NoError(t, err)
			all = append(all, found.Records)
		}
		return all
	}
	record()
	eventlogtest.Append(t, l, acme, click(t, "eve"), eventlogtest.EraseEntry(t, feed.Erasure{UserID: "eve",
		SessionIDs: []string{"s of eve"}}), eventlog.Entry{Data: []byte(`{"type":"actions"}`)})
	eventlogtest.Append(t, l, "other", click(t, "ada"))
	require.NoError(t, l.Drop(t.Context(), "other", 0))
	want := lookups()
	require.NoError(t, l.Release())

	l = openLog(t, dir, opts)
	require.Equal(t, want, lookups())
	require.Zero(t, filed(t, l, "eve"))
	require.Zero(t, l.Stats()["other"].Users)
	record()
	require.Equal(t, want, lookups(), "events that are sent again change nothing")
	eventlogtest.Append(t, l, acme, click(t, "new"))
	require.Equal(t, 1, filed(t, l, "new"))
}

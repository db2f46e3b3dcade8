package boltlog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// click returns an entry of one click of a user.
func click(t testing.TB, user string) eventlog.Entry {
	t.Helper()
	return eventlogtest.BatchEntry(t, activitytest.NewBatch(acme, "s of "+user, user, activitytest.Click(time.Now(), "Save", "https://acme.example/")))
}

// filed returns how many actions of a user can be looked up.
func filed(t testing.TB, l *Log, user string) int {
	t.Helper()
	recent, err := l.Activity().Recent(t.Context(), acme, user, 1000)
	require.NoError(t, err)
	return len(recent)
}

// A disk may stall for longer than a request waits: its retry is a duplicate once
// the commit is over, and then the action can be looked up.
func TestAppend_whoseCallerGaveUpIsFiled(t *testing.T) {
	l := openLog(t, t.TempDir(), nil)
	stalled, goOn := make(chan struct{}), make(chan struct{})
	l.finish = func(tx *bolt.Tx) error {
		close(stalled)
		<-goOn
		l.finish = (*bolt.Tx).Commit
		return tx.Commit()
	}
	e := click(t, "ada")
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- l.Append(ctx, acme, []eventlog.Entry{e}) }()
	<-stalled
	cancel()
	require.ErrorIs(t, <-gaveUp, context.Canceled)

	retried := make(chan error, 1)
	go func() { retried <- l.Append(t.Context(), acme, []eventlog.Entry{e}) }()
	close(goOn)
	var seen *eventlog.DuplicateError
	require.ErrorAs(t, <-retried, &seen)
	require.Equal(t, 1, filed(t, l, "ada"))
}

// A commit that fails files nothing.
func TestAppend_thatFailsFilesNothing(t *testing.T) {
	l := openLog(t, t.TempDir(), nil)
	l.finish = func(*bolt.Tx) error { return errDisk }
	require.ErrorIs(t, l.Append(t.Context(), acme, []eventlog.Entry{click(t, "ada")}), errDisk)
	require.Zero(t, filed(t, l, "ada"))
}

// Until Run has filed what the file holds, lookups wait; what is appended and
// dropped meanwhile is found, and gone.
func TestRun_filesWhatTheFileHolds(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, nil)
	for n := range 1500 {
		e := click(t, fmt.Sprint("user", n%100))
		e.Batch.ProductID = acme
		require.NoError(t, l.Append(t.Context(), acme, []eventlog.Entry{e}))
	}
	require.NoError(t, l.Append(t.Context(), "other", []eventlog.Entry{click(t, "ada")}))
	require.NoError(t, l.Release())

	l = openLog(t, dir, nil)
	impatient, giveUp := context.WithTimeout(t.Context(), time.Millisecond)
	defer giveUp()
	_, err := l.Activity().Recent(impatient, acme, "user1", 50)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, l.Append(t.Context(), acme, []eventlog.Entry{click(t, "eve")}))
	require.NoError(t, l.Drop(t.Context(), "other", 0))

	ctx, cancel := context.WithCancel(t.Context())
	var reports []eventlog.Progress
	appended := false
	require.NoError(t, l.Run(ctx, func(p eventlog.Progress) {
		reports = append(reports, p)
		if !appended {
			appended = true
			assert.NoError(t, l.Append(t.Context(), acme, []eventlog.Entry{click(t, "bob")}))
		}
		if p.Done {
			cancel()
		}
	}))
	last := reports[len(reports)-1]
	require.Equal(t, eventlog.Progress{Read: last.Read, Entries: 1501, Done: true}, last)
	require.GreaterOrEqual(t, last.Read, int64(1501))
	require.Greater(t, len(reports), 3)
	for n := range 100 {
		require.Equal(t, 15, filed(t, l, fmt.Sprint("user", n)))
	}
	require.Equal(t, 1, filed(t, l, "eve"))
	require.Equal(t, 1, filed(t, l, "bob"))
	recent, err := l.Activity().Recent(t.Context(), "other", "ada", 50)
	require.NoError(t, err)
	require.Empty(t, recent)
	require.NoError(t, l.Append(t.Context(), acme, []eventlog.Entry{click(t, "eve")}))
	require.Equal(t, 2, filed(t, l, "eve"), "what follows is filed at once")
}

// What is dropped while it is read back is not filed.
func TestRun_filesNothingThatIsDropped(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, nil)
	for range 1500 {
		require.NoError(t, l.Append(t.Context(), acme, []eventlog.Entry{click(t, "ada")}))
	}
	require.NoError(t, l.Release())
	l = openLog(t, dir, nil)
	ctx, cancel := context.WithCancel(t.Context())
	dropped := false
	require.NoError(t, l.Run(ctx, func(p eventlog.Progress) {
		if !dropped {
			dropped = true
			assert.NoError(t, l.Drop(t.Context(), acme, 0))
		}
		if p.Done {
			cancel()
		}
	}))
	require.Zero(t, filed(t, l, "ada"))
}

package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

func newServer(t *testing.T, opts *streamtest.ServerOptions) *streamtest.Server {
	t.Helper()
	server, err := streamtest.NewServer(opts)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server
}

func args(server *streamtest.Server, file string) []string {
	return []string{"--stream-url", server.URL(), "--token", server.Token(), "--cursor-file", file}
}

// clicked returns the streamed batch of a click.
func clicked(sessionID, email, label string) activity.Batch {
	click := activity.NewAction(activity.TypeClick, activity.Target{Label: label},
		"https://app.example.com/reports/42?tab=x")
	click.TimestampStart = activity.Seconds(time.Date(2026, 11, 22, 2, 15, 4, 0, time.UTC))
	return activity.Batch{SessionID: sessionID, Email: email, Actions: []activity.BatchAction{{Action: click}}}
}

// printed returns the printed text of a click.
func printed(sessionID, who, label string) string {
	return sessionID + ", " + who + "\n2026-11-22 02:15:04 UTC: User clicked " + label +
		" on the reports detail page (https://app.example.com/reports/:id)\n\n"
}

// start runs the consumer. The function it returns stops it.
func start(t *testing.T, args []string) (stdout *os.File, stop func()) {
	t.Helper()
	stdout, w, err := os.Pipe() // its buffer is larger than any output here
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, args, w) }()
	return stdout, func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, w.Close())
		rest, err := io.ReadAll(stdout)
		require.NoError(t, err)
		require.Empty(t, rest, "it prints nothing else")
	}
}

// prints checks the next printed text.
func prints(t *testing.T, stdout io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(stdout, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func TestRun_printsEachSession(t *testing.T) {
	server := newServer(t, nil)
	stdout, stop := start(t, args(server, filepath.Join(t.TempDir(), "cursor")))
	server.Send(clicked("s1", "ada@example.com", "New"))
	prints(t, stdout, printed("s1", "ada@example.com", "New"))
	server.Send(clicked("s2", "", "Help"))
	prints(t, stdout, printed("s2", "somebody", "Help"))
	stop()
}

func TestRun_goesOnWhereItStopped(t *testing.T) {
	server := newServer(t, nil)
	file := filepath.Join(t.TempDir(), "cursor")
	for _, label := range []string{"First", "Second", "Third"} {
		server.Send(clicked("s1", "ada@example.com", label)) // no listener
		stdout, stop := start(t, args(server, file))
		prints(t, stdout, printed("s1", "ada@example.com", label))
		stop()
	}
}

func TestRun_reportsLostEntries(t *testing.T) {
	server := newServer(t, &streamtest.ServerOptions{Retention: eventlog.Retention{MaxBytes: 1}}) // the newest event only
	file := filepath.Join(t.TempDir(), "cursor")
	server.Send(clicked("s1", "ada@example.com", "First"))
	stdout, stop := start(t, args(server, file))
	prints(t, stdout, printed("s1", "ada@example.com", "First"))
	stop()
	server.Send(clicked("s1", "ada@example.com", "Lost"), clicked("s1", "ada@example.com", "Last"))
	stdout, stop = start(t, args(server, file))
	prints(t, stdout, "the server has lost the entries that follow\n\n"+printed("s1", "ada@example.com", "Last"))
	stop()
}

func TestRun_endsWhenRefused(t *testing.T) {
	server := newServer(t, nil)
	t.Setenv("LIVEACTIVITY_STREAM_TOKEN", "an-old-key")
	err := run(t.Context(), []string{"--stream-url", server.URL(), "--cursor-file", filepath.Join(t.TempDir(), "cursor")},
		io.Discard)
	var refused *stream.RefusedError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusUnauthorized, refused.Status)
}

func TestCursorFile(t *testing.T) {
	file := cursorFile(filepath.Join(t.TempDir(), "cursor"))
	cursor, err := file.Load(t.Context())
	require.NoError(t, err, "no file is no cursor")
	require.Empty(t, cursor)
	for _, cursor := range []string{"first", "second, longer", "3rd"} {
		require.NoError(t, file.Save(t.Context(), cursor))
		loaded, err := file.Load(t.Context())
		require.NoError(t, err)
		require.Equal(t, cursor, loaded)
	}
	files, err := os.ReadDir(filepath.Dir(string(file)))
	require.NoError(t, err)
	assert.Len(t, files, 1, "nothing else is left")
}

func TestCursorFile_reportsFailuresAndKeepsTheOldCursor(t *testing.T) {
	_, err := cursorFile(t.TempDir()).Load(t.Context())
	require.Error(t, err)
	assert.NotErrorIs(t, err, os.ErrNotExist)
	file := cursorFile(filepath.Join(t.TempDir(), "cursor"))
	require.NoError(t, file.Save(t.Context(), "old"))
	require.NoError(t, os.Mkdir(string(file)+".new", 0o700)) // in the way
	require.Error(t, file.Save(t.Context(), "new"))
	cursor, err := file.Load(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "old", cursor)
}

//go:build unix

package boltlog

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

func init() {
	children["hold"] = holdFile
}

// holdFile opens the folder BOLTLOG_TEST_DIR, appends an entry that names the
// process, prints its session or the error, and waits until standard input ends.
func holdFile() {
	session := fmt.Sprint("process ", os.Getpid())
	log, err := Open(os.Getenv("BOLTLOG_TEST_DIR"), nil)
	if err == nil {
		err = log.Append(context.Background(), acme, eventlogtest.Entries(session, 1))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(session)
	_, _ = io.Copy(io.Discard, os.Stdin)
	check(log.Release())
}

// holder is a process that has opened the folder, or tried to.
type holder struct {
	said string
	stop func() // may be called more than once
}

// hold starts processes that open the folder at the same time.
func hold(t *testing.T, dir string, n int) []holder {
	t.Helper()
	holders := make([]holder, n)
	outputs := make([]io.Reader, n)
	for i := range n {
		cmd := child(t, "hold", "BOLTLOG_TEST_DIR="+dir)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		outputs[i], err = cmd.StdoutPipe()
		require.NoError(t, err)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		holders[i].stop = func() {
			_ = in.Close()
			_ = cmd.Wait()
		}
		t.Cleanup(holders[i].stop)
	}
	for i := range n {
		line, err := bufio.NewReader(outputs[i]).ReadString('\n')
		require.NoError(t, err)
		holders[i].said = strings.TrimSpace(line)
	}
	return holders
}

func TestOpen_makesTheFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	log := openLog(t, dir, nil)
	eventlogtest.Append(t, log, acme, eventlogtest.Entries("a", 1)...)
	for path, want := range map[string]os.FileMode{
		filepath.Join(dir, FileName): 0o600,
		dir:                          0o700 | os.ModeDir,
		filepath.Dir(dir):            0o700 | os.ModeDir,
	} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode(), path)
	}
	names := musttest.New(os.ReadDir(dir))
	assert.Len(t, names, 1, "nothing else is left there")
}

func TestOpen_refusesAPathThatIsNotAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, FileName), 0o700))
	for _, test := range []struct{ dir, culprit string }{{file, file}, {filepath.Join(file, "a"), file},
		{folder, folder}} {
		_, err := Open(test.dir, nil)
		require.ErrorContains(t, err, test.culprit)
	}
}

// Of processes that start together in a new folder one has it. None takes away entries that another
// has acknowledged.
func TestOpen_isForOneOfManyThatStartTogether(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	holders := hold(t, dir, 6)
	var winner string
	for _, h := range holders {
		if strings.HasPrefix(h.said, "process ") {
			require.Empty(t, winner, "two have opened it")
			winner = h.said
			continue
		}
		require.Contains(t, h.said, ErrInUse.Error())
	}
	require.NotEmpty(t, winner, "%v", holders)
	for _, h := range holders {
		h.stop()
	}
	log := openLog(t, dir, nil)
	entries := eventlogtest.Retained(t, log, acme)
	require.Len(t, entries, 1)
	require.Equal(t, winner, entries[0].SessionID)
}

func TestOpen_refusesAFileInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := openLog(t, dir, nil)
	started := time.Now()
	_, err := Open(dir, nil)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, dir)
	require.Less(t, time.Since(started), waittest.Patience)
	eventlogtest.Append(t, log, acme, eventlogtest.Entries("first", 1)...)
	require.NoError(t, log.Release())
	require.Len(t, eventlogtest.Retained(t, openLog(t, dir, nil), acme), 1, "the first goes on unharmed")
}

// readBack returns a read-only log, and a function that checks that its file and folder are
// unchanged.
func readBack(t *testing.T, dir string) (log *Log, unchanged func()) {
	t.Helper()
	path := filepath.Join(dir, FileName)
	look := func() string {
		content := musttest.New(os.ReadFile(path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		files := musttest.New(os.ReadDir(dir))
		return fmt.Sprint(info.ModTime(), len(files), string(content))
	}
	before := look()
	log = musttest.New(Open(dir, &Options{ReadOnly: true, TailBytes: 1}))
	return log, func() { assert.Equal(t, before, look(), "the file has changed") }
}

func TestReadOnly_readsEverythingAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := openLog(t, dir, nil)
	require.NoError(t, log.Append(t.Context(), acme, eventlogtest.Entries("s1", 20)))
	want := eventlogtest.Bounds(t, log, acme)
	require.NoError(t, log.Release())

	log, unchanged := readBack(t, dir)
	other, _ := readBack(t, dir)
	require.NoError(t, other.Release(), "several processes can read")
	assert.Equal(t, want, eventlogtest.Bounds(t, log, acme))
	entries := make([]eventlog.Entry, 30)
	n, err := log.Read(t.Context(), acme, eventlog.ID{}, entries)
	require.NoError(t, err)
	assert.Equal(t, 20, n)
	require.Error(t, log.Append(t.Context(), acme, eventlogtest.Entries("s2", 1)))
	require.Error(t, log.Drop(t.Context(), acme, 0))
	require.Error(t, log.Ping(t.Context()))
	_, err = Open(dir, nil)
	require.ErrorIs(t, err, ErrInUse, "who writes must wait")
	assert.Equal(t, want, eventlogtest.Bounds(t, log, acme))
	require.NoError(t, log.Release())
	unchanged()

	log = openLog(t, dir, nil)
	require.NoError(t, log.Append(t.Context(), acme, eventlogtest.Entries("s2", 1)))
}

func TestReadOnly_makesNoFile(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		_, err := Open(dir, &Options{ReadOnly: true})
		require.ErrorIs(t, err, os.ErrNotExist)
		assert.NoFileExists(t, filepath.Join(dir, FileName))
	}
}

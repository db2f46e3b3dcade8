//go:build unix

package boltlog

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

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
	assert.Len(t, musttest.New(os.ReadDir(dir)), 1, "nothing else is left there")
}

func TestOpen_refusesAPathThatIsNotAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, FileName), 0o700))
	for dir, culprit := range map[string]string{file: file, filepath.Join(file, "a"): file, folder: folder} {
		require.ErrorContains(t, errorOf(Open(dir, nil)), culprit)
	}
}

// Of many that start together in a new folder one has it. None takes away entries that another has acknowledged.
func TestOpen_isForOneOfManyThatStartTogether(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	var winner atomic.Pointer[Log]
	waittest.Together(6, func(int) {
		log, err := Open(dir, nil)
		if err != nil {
			assert.ErrorIs(t, err, ErrInUse)
			return
		}
		assert.NoError(t, log.Append(t.Context(), acme, eventlogtest.Entries("s", 1)))
		assert.Nil(t, winner.Swap(log), "two have opened it")
	})
	require.NoError(t, winner.Load().Release())
	require.Len(t, eventlogtest.Retained(t, openLog(t, dir, nil), acme), 1)
}

func TestOpen_refusesAFileInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := openLog(t, dir, nil)
	started := time.Now()
	err := errorOf(Open(dir, nil))
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, dir)
	require.Less(t, time.Since(started), waittest.Patience)
	eventlogtest.Append(t, log, acme, eventlogtest.Entries("first", 1)...)
	require.NoError(t, log.Release())
	require.Len(t, eventlogtest.Retained(t, openLog(t, dir, nil), acme), 1, "the first goes on unharmed")
}

// Nothing is acknowledged that the next Open would not find.
func TestLog_refusesWritesWhileItsFileIsNotInItsPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, aside := filepath.Join(dir, FileName), filepath.Join(dir, "aside")
	log := openLog(t, dir, nil)
	require.NoError(t, os.Rename(path, aside))
	for _, put := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(path, nil, 0o600) },
	} {
		require.NoError(t, put())
		require.ErrorContains(t, log.Append(t.Context(), acme, eventlogtest.Entries("s", 1)), path)
		require.ErrorContains(t, log.Ping(t.Context()), path)
	}
	require.NoError(t, os.Rename(aside, path))
	require.NoError(t, log.Ping(t.Context()))
	eventlogtest.Append(t, log, acme, eventlogtest.Entries("s", 1)...)
	require.NoError(t, log.Release())
	require.Len(t, eventlogtest.Retained(t, openLog(t, dir, nil), acme), 1)
}

// readBack returns a read-only log, and a function that checks that its file and folder are unchanged.
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
	assert.Len(t, eventlogtest.Retained(t, log, acme), 20)
	require.Error(t, log.Append(t.Context(), acme, eventlogtest.Entries("s2", 1)))
	require.Error(t, log.Drop(t.Context(), acme, 0))
	require.Error(t, log.Ping(t.Context()))
	require.ErrorIs(t, errorOf(Open(dir, nil)), ErrInUse, "who writes must wait")
	assert.Equal(t, want, eventlogtest.Bounds(t, log, acme))
	require.NoError(t, log.Release())
	unchanged()

	log = openLog(t, dir, nil)
	require.NoError(t, log.Append(t.Context(), acme, eventlogtest.Entries("s2", 1)))
}

func TestReadOnly_makesNoFile(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		require.ErrorIs(t, errorOf(Open(dir, &Options{ReadOnly: true})), os.ErrNotExist)
		assert.NoFileExists(t, filepath.Join(dir, FileName))
	}
}

package boltlog

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// rename moves the state of product acme to another key, which is what formats 4 and 5 of
// the test differ by.
func rename(from, to string) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(productPrefix + "acme"))
		return errors.Join(b.Put([]byte(to), b.Get([]byte(from))), b.Delete([]byte(from)))
	}
}

// formatOf returns the format of a file.
func formatOf(t *testing.T, path string) (found string) {
	t.Helper()
	db, err := openBolt(path, true)
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.View(func(tx *bolt.Tx) error {
		found = string(tx.Bucket(bucketFormat).Get(keyFormat))
		return nil
	}))
	return found
}

// A file of an earlier format is migrated over all formats between, or not at all, and a
// copy of it is kept.
func TestOpen_migratesEarlierFormats(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	l, err := Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, l.Append(t.Context(), "acme", []eventlog.Entry{{SessionID: "s1", Data: []byte(`{"n":1}`)}}))
	require.NoError(t, l.Release())
	db, err := openBolt(path, false)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		return errors.Join(rename("state", "state-4")(tx), tx.Bucket(bucketFormat).Put(keyFormat, []byte("4")))
	}))
	require.NoError(t, db.Close())

	t.Cleanup(func() { clear(migrations) })
	refused := func(says string, opts *Options) {
		_, err := Open(dir, opts)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, path)
		require.Equal(t, "4", formatOf(t, path), "the file stays as it was")
	}
	refused(`its format is "4"`, nil)
	migrations["4"] = rename("state-4", "state-5")
	refused(`nothing leads from format "5"`, nil)
	migrations["5"] = func(*bolt.Tx) error { return errors.New("no room") }
	refused("from format \"4\": no room", nil)
	migrations["5"] = rename("state-5", "state")
	refused(`its format is "4"`, &Options{ReadOnly: true})

	l, err = Open(dir, nil)
	require.NoError(t, err)
	n, err := l.Read(t.Context(), "acme", eventlog.ID{}, make([]eventlog.Entry, 2))
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	require.NoError(t, l.Release())
	assert.Equal(t, format, formatOf(t, path))
	assert.Equal(t, "4", formatOf(t, path+".format-4"))
}

package streamtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream"
)

// TestLog checks that the logs which open returns keep the contract of
// [stream.Log]. Every call of open must return an empty log of its own.
func TestLog(t *testing.T, open func(t *testing.T, r stream.Retention) stream.Log) {
	for _, chapter := range []struct {
		name  string
		tests []test
	}{
		{"Append", appendTests},
		{"Keys", keyTests},
		{"Documents", documentTests},
		{"Read", readTests},
		{"Retention", retentionTests},
		{"Bounds", boundsTests},
		{"Changed", changedTests},
		{"Close", closeTests},
		{"Concurrency", concurrencyTests},
	} {
		t.Run(chapter.name, func(t *testing.T) {
			for _, test := range chapter.tests {
				t.Run(test.name, func(t *testing.T) {
					log := open(t, test.retention)
					t.Cleanup(func() { require.NoError(t, log.Close()) })
					test.run(fixture{T: t, log: log})
				})
			}
		})
	}
}

// test is one sentence of the contract.
type test struct {
	name      string
	retention stream.Retention
	run       func(f fixture)
}

// product is the one that tests write to where the product does not matter.
const product = "acme"

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// fixture is a log under test.
type fixture struct {
	*testing.T
	log stream.Log
}

// append appends to the product, which must work, and returns the entries
// with their IDs.
func (f fixture) append(entries ...stream.Entry) []stream.Entry {
	f.Helper()
	require.NoError(f, f.log.Append(f.Context(), product, entries))
	return entries
}

// refused appends to the product and returns the refusal for duplicate keys.
func (f fixture) refused(entries ...stream.Entry) *stream.DuplicateError {
	f.Helper()
	var duplicate *stream.DuplicateError
	require.ErrorAs(f, f.log.Append(f.Context(), product, entries), &duplicate)
	return duplicate
}

// appendUntil appends entries of a kilobyte until done says so.
func (f fixture) appendUntil(done func() bool) {
	f.Helper()
	for n := range 16 * smallLog / 1024 {
		if done() {
			return
		}
		f.append(Sized(Entry("filler", n), 1024))
	}
	require.Eventually(f, done, patience, 5*time.Millisecond)
}

func (f fixture) bounds() stream.Bounds {
	f.Helper()
	b, err := f.log.Bounds(f.Context(), product)
	require.NoError(f, err)
	return b
}

// read reads once, with room for n entries.
func (f fixture) read(after stream.ID, n int) ([]stream.Entry, error) {
	dst := make([]stream.Entry, n)
	n, err := f.log.Read(f.Context(), product, after, dst)
	return dst[:n], err
}

// readAll reads the entries after the cursor, a page at a time.
func (f fixture) readAll(after stream.ID, page int) []stream.Entry {
	f.Helper()
	var all []stream.Entry
	for {
		entries, err := f.read(after, page)
		if errors.Is(err, stream.ErrClosed) {
			require.Empty(f, entries)
			return all
		}
		require.NoError(f, err)
		if len(entries) == 0 {
			return all
		}
		all = append(all, entries...)
		after = entries[len(entries)-1].ID
	}
}

// gap reads after a cursor where entries were dropped and returns the error.
func (f fixture) gap(after stream.ID) *stream.GapError {
	f.Helper()
	entries, err := f.read(after, 1)
	var gap *stream.GapError
	require.ErrorAs(f, err, &gap)
	require.Empty(f, entries)
	return gap
}

// follow is the loop of a reader: it returns after n entries, or with an error
// when nothing wakes it. The function, which may be nil, is called with each
// entry. It is safe to call from any goroutine.
func (f fixture) follow(after stream.ID, n int, each func(stream.Entry)) ([]stream.Entry, error) {
	var got []stream.Entry
	for len(got) < n {
		changed := f.log.Changed(product)
		entries, err := f.read(after, 7)
		if err != nil {
			return got, err
		}
		for _, e := range entries {
			got, after = append(got, e), e.ID
			if each != nil {
				each(e)
			}
		}
		if len(entries) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-time.After(patience):
			return got, fmt.Errorf("nothing woke the reader after %d of %d entries", len(got), n)
		}
	}
	return got, nil
}

// within fails the test when what must not wait takes too long.
func (f fixture) within(what string, do func()) {
	f.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		f.Fatalf("%s has not returned after %s", what, patience)
	}
}

// fires fails the test when the channel is not closed.
func (f fixture) fires(changed <-chan struct{}) {
	f.Helper()
	f.within("waiting for a change", func() { <-changed })
}

// item is what of an entry a reader sees.
type item struct {
	ID        stream.ID
	SessionID string
	Data      string
}

func items(entries []stream.Entry) []item {
	list := make([]item, len(entries))
	for i, e := range entries {
		list[i] = item{e.ID, e.SessionID, string(e.Data)}
	}
	return list
}

// requireGrowing fails the test unless the IDs grow strictly.
func requireGrowing(t testing.TB, entries []stream.Entry) {
	t.Helper()
	for i := range len(entries) - 1 {
		require.Negative(t, entries[i].ID.Compare(entries[i+1].ID), "%s then %s", entries[i].ID, entries[i+1].ID)
	}
}

package eventlogtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// TestLog checks that the logs returned by open fulfil the contract of
// [eventlog.Log]. Every call of open must return a new empty log.
func TestLog(t *testing.T, open func(t *testing.T, r eventlog.Retention) eventlog.Log) {
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
		{"Drop", dropTests},
		{"Erase", eraseTests},
		{"Changed", changedTests},
		{"Run", runTests},
		{"Close", closeTests},
		{"Concurrency", concurrencyTests},
	} {
		t.Run(chapter.name, func(t *testing.T) { runAll(t, chapter.tests, open) })
	}
}

// runAll runs each test as a subtest with a log of its own, which it closes.
func runAll(t *testing.T, tests []test, open func(t *testing.T, r eventlog.Retention) eventlog.Log) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			log := open(t, test.retention)
			t.Cleanup(func() { require.NoError(t, log.Close()) })
			test.run(fixture{T: t, log: log})
		})
	}
}

// test is one sentence of the contract.
type test struct {
	name      string
	retention eventlog.Retention
	run       func(f fixture)
}

// product is the product of tests that can use any product.
const product = "acme"

// fixture is a log under test.
type fixture struct {
	*testing.T
	log eventlog.Log
}

// append appends entries to the product, which must succeed, and returns them with
// their IDs.
func (f fixture) append(entries ...eventlog.Entry) []eventlog.Entry {
	f.Helper()
	return Append(f, f.log, product, entries...)
}

// refused appends duplicate keys to the product and returns the error.
func (f fixture) refused(entries ...eventlog.Entry) *eventlog.DuplicateError {
	f.Helper()
	var duplicate *eventlog.DuplicateError
	require.ErrorAs(f, f.log.Append(f.Context(), product, entries), &duplicate)
	return duplicate
}

// appendUntil appends entries of a kilobyte until done returns true.
func (f fixture) appendUntil(done func() bool) {
	f.Helper()
	for n := range 16 * smallLog / 1024 {
		if done() {
			return
		}
		f.append(Sized(Entry("filler", n), 1024))
	}
	waittest.Until(f, "enough is trimmed", done)
}

func (f fixture) bounds() eventlog.Bounds {
	f.Helper()
	return Bounds(f, f.log, product)
}

// read reads once, with room for n entries.
func (f fixture) read(after eventlog.ID, n int) ([]eventlog.Entry, error) {
	dst := make([]eventlog.Entry, n)
	n, err := f.log.Read(f.Context(), product, after, dst)
	return dst[:n], err
}

// readAll reads the entries after the cursor, at most atOnce in one call.
func (f fixture) readAll(after eventlog.ID, atOnce int) []eventlog.Entry {
	f.Helper()
	return ReadAll(f, f.log, product, after, atOnce)
}

// gap reads after a cursor whose next entries were trimmed, and returns the error.
func (f fixture) gap(after eventlog.ID) *eventlog.GapError {
	f.Helper()
	entries, err := f.read(after, 1)
	var gap *eventlog.GapError
	require.ErrorAs(f, err, &gap)
	require.Empty(f, entries)
	return gap
}

// follow is the loop of a reader: it returns after n entries, or with an error
// if nothing wakes it. It calls each, if not nil, with each entry. It is safe
// to call from any goroutine.
func (f fixture) follow(after eventlog.ID, n int, each func(eventlog.Entry)) ([]eventlog.Entry, error) {
	var got []eventlog.Entry
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
		case <-time.After(waittest.Patience):
			return got, fmt.Errorf("nothing woke the reader after %d of %d entries", len(got), n)
		}
	}
	return got, nil
}

// fires fails the test if the channel is not closed.
func (f fixture) fires(changed <-chan struct{}) {
	f.Helper()
	waittest.Within(f, "waiting for a change", func() { <-changed })
}

// item is an entry as a reader sees it.
type item struct {
	ID        eventlog.ID
	SessionID string
	Data      string
}

func items(entries []eventlog.Entry) []item {
	list := make([]item, len(entries))
	for i, e := range entries {
		list[i] = item{e.ID, e.SessionID, string(e.Data)}
	}
	return list
}

// requireGrowing fails the test unless the IDs strictly increase.
func requireGrowing(t testing.TB, entries []eventlog.Entry) {
	t.Helper()
	for i := range len(entries) - 1 {
		require.Negative(t, entries[i].ID.Compare(entries[i+1].ID), "%s then %s", entries[i].ID, entries[i+1].ID)
	}
}

package eventlogtest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// document returns the product's document with that name.
func (f fixture) document(name string) document.Document {
	f.Helper()
	docs, err := f.log.Documents().Get(f.Context(), product, name)
	require.NoError(f, err)
	require.Len(f, docs, 1)
	return docs[0]
}

// list returns a product's documents whose names begin with prefix.
func (f fixture) list(productID, prefix string) []document.Document {
	f.Helper()
	docs, err := f.log.Documents().List(f.Context(), productID, prefix, "", 1<<20)
	require.NoError(f, err)
	return docs
}

// documents returns the values of the product's documents by name.
func (f fixture) documents() map[string]string {
	f.Helper()
	values := map[string]string{}
	for _, d := range f.list(product, "") {
		values[d.Name] = string(d.Value)
	}
	return values
}

// change appends the entries with changes that must succeed.
func (f fixture) change(entries []eventlog.Entry, changes ...document.Change) {
	f.Helper()
	require.NoError(f, f.log.Append(f.Context(), product, entries, changes...))
}

// conflict appends the entries with changes that must conflict at the named
// document.
func (f fixture) conflict(name string, entries []eventlog.Entry, changes ...document.Change) {
	f.Helper()
	var conflict *document.ConflictError
	require.ErrorAs(f, f.log.Append(f.Context(), product, entries, changes...), &conflict)
	require.Equal(f, name, conflict.Name)
}

// put returns a change that sets the document's value, based on its current
// version.
func (f fixture) put(name, value string) document.Change {
	f.Helper()
	return document.Put(f.document(name), []byte(value), 0)
}

// named returns a document that does not exist.
func named(name string) document.Document {
	return document.Document{Name: name}
}

var documentTests = []test{
	{name: "change with the entries", run: func(f fixture) {
		start := f.bounds().Newest
		want := Entries("one", 2)
		f.change(want, f.put("a", "1"), f.put("b", "1"), f.put("c", "1"))
		more := Entries("two", 1)
		f.change(more, f.put("a", "2"), document.Delete(f.document("b")), document.Check(f.document("c")))
		require.Equal(f, map[string]string{"a": "2", "c": "1"}, f.documents())
		require.Equal(f, items(append(want, more...)), items(f.readAll(start, 10)))
	}},
	{name: "are the store's, and the product's", run: func(f fixture) {
		version, err := f.log.Documents().Write(f.Context(), product, document.Put(named("a"), []byte("1"), time.Hour))
		require.NoError(f, err)
		f.change(Entries("one", 1), document.Put(document.Document{Name: "a", Version: version}, []byte("2"), time.Hour))
		require.Equal(f, "2", string(f.document("a").Value))
		require.Greater(f, f.document("a").Version, version)
		err = f.log.Append(f.Context(), "other", Entries("one", 1), document.Put(named("a"), []byte("other"), 0))
		require.NoError(f, err, "another product has its own documents")
		require.Equal(f, "2", string(f.document("a").Value))
	}},
	{name: "change without entries, leaving the log unchanged", run: func(f fixture) {
		f.append(Entry("a", 0))
		before := f.bounds()
		f.change(nil, f.put("a", "1"))
		f.change([]eventlog.Entry{}, f.put("b", "1"), document.Touch(f.document("a"), time.Hour))
		f.append()
		require.Equal(f, map[string]string{"a": "1", "b": "1"}, f.documents())
		require.Equal(f, before, f.bounds())
		require.Empty(f, f.readAll(before.Newest, 10))
	}},
	{name: "in conflict add no entry", run: testConflict},
	{name: "that count entries agree with the log, and are as new as the entries read", run: testCounter},
}

// An append rejected for its changes leaves the log unchanged, and waiting
// readers find no entry.
func testConflict(f fixture) {
	f.change(append(Entries("before", 2), keyed("k")), f.put("a", "1"))
	old := f.document("a")
	f.change(nil, f.put("a", "2"))
	before, changed := f.bounds(), f.log.Changed(product)
	entries := Entries("one", 2)
	f.conflict("a", entries, document.Put(named("b"), nil, 0), document.Put(old, []byte("3"), 0))
	f.conflict("a", entries, document.Put(named("a"), nil, 0), document.Put(named("b"), nil, 0))
	f.conflict("a", nil, document.Delete(old))
	require.Equal(f, before, f.bounds())
	require.Empty(f, f.readAll(before.Newest, 10))
	require.Equal(f, map[string]string{"a": "2"}, f.documents())
	require.Equal(f, items(Entries("one", 2)), items(entries), "the entries are unchanged")
	require.Equal(f, keysNamed("k"), f.refused(append(entries, keyed("k"))...).Keys, "other keys stay taken")
	f.change(entries, f.put("a", "3"))
	f.fires(changed)
	require.Equal(f, items(entries), items(f.readAll(before.Newest, 10)))
}

// Writers number entries with a document: each number is assigned once, in the order of the
// log, under concurrent writes. A reader of an entry finds a document that is at least as
// new.
func testCounter(f fixture) {
	const writers, entries = 8, 20
	start := f.bounds().Newest
	var running sync.WaitGroup
	running.Go(func() {
		waittest.Together(writers, func(w int) {
			for range entries {
				if !assert.NoError(f, f.appendNext(fmt.Sprint("writer", w))) {
					return
				}
			}
		})
	})
	number := 0
	_, err := f.follow(start, writers*entries, func(e eventlog.Entry) {
		docs, err := f.log.Documents().Get(f.Context(), product, "counter")
		assert.NoError(f, err)
		counted, _ := strconv.Atoi(string(docs[0].Value))
		number++
		assert.Equal(f, fmt.Sprintf(`{"n":%d}`, number), string(e.Data))
		assert.GreaterOrEqual(f, counted, number)
	})
	running.Wait()
	require.NoError(f, err)
	require.Equal(f, strconv.Itoa(writers*entries), string(f.document("counter").Value))
}

// appendNext appends an entry with the next number, which is also its key. It
// may be called from any goroutine.
func (f fixture) appendNext(sessionID string) error {
	for {
		docs, err := f.log.Documents().Get(f.Context(), product, "counter")
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(docs[0].Value))
		next := eventlog.Entry{SessionID: sessionID, Keys: keysNamed(fmt.Sprint("entry ", n+1)),
			Data: fmt.Appendf(nil, `{"n":%d}`, n+1)}
		err = f.log.Append(f.Context(), product, []eventlog.Entry{next},
			document.Put(docs[0], strconv.AppendInt(nil, int64(n+1), 10), time.Hour))
		if !document.IsConflict(err) && !errors.As(err, new(*eventlog.DuplicateError)) {
			return err
		}
	}
}

package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

var changedTests = []test{
	{name: "is closed for all waiters when an entry comes, also of a product without a log", run: func(f fixture) {
		var waiting [50]<-chan struct{}
		for i := range waiting {
			waiting[i] = f.log.Changed(product)
		}
		f.append(Entry("a", 0))
		for _, changed := range waiting {
			f.fires(changed)
		}
	}},
	{name: "misses no entry that is appended during a read", run: testNoWakeUpMissed},
	{name: "is closed when the log is", run: func(f fixture) {
		f.append(Entry("a", 0))
		used, unused := f.log.Changed(product), f.log.Changed("unused")
		require.NoError(f, f.log.Close())
		f.fires(used)
		f.fires(unused)
	}},
}

// Each entry is appended only after the previous one was read, so it depends on its own
// wake-up, which may come at any point of the reader's work.
func testNoWakeUpMissed(f fixture) {
	const rounds = 300
	start := f.bounds().Newest
	taken := make(chan struct{}, rounds)
	var appending sync.WaitGroup
	appending.Go(func() {
		for n := range rounds {
			if !assert.NoError(f, f.log.Append(f.Context(), product, []eventlog.Entry{Entry("a", n)})) {
				return
			}
			<-taken
		}
	})
	got, err := f.follow(start, rounds, func(eventlog.Entry) { taken <- struct{}{} })
	close(taken)
	appending.Wait()
	require.NoError(f, err)
	require.Len(f, got, rounds)
}

var runTests = []test{
	{name: "says that lookups can be answered, and returns nil once its context has ended", run: func(f fixture) {
		ctx, stop := context.WithCancel(f.Context())
		waittest.Within(f, "running", func() {
			assert.NoError(f, f.log.Run(ctx, func(p eventlog.Progress) {
				if p.Done {
					stop()
				}
			}))
		})
		require.Error(f, ctx.Err(), "Run has returned early")
	}},
}

var closeTests = []test{
	{name: "ends changes, and may be called again", run: func(f fixture) {
		f.change(nil, f.put("a", "1"))
		before, change := f.append(Entry("a", 0))[0], f.put("a", "2")
		require.NoError(f, f.log.Close())
		for _, err := range []error{
			f.log.Append(f.Context(), product, []eventlog.Entry{Entry("a", 1)}, change),
			f.log.Append(f.Context(), product, nil, change),
			f.log.Append(f.Context(), "unused", []eventlog.Entry{Entry("a", 1)}),
			f.log.Drop(f.Context(), product, 0),
		} {
			require.ErrorIs(f, err, eventlog.ErrClosed)
		}
		require.Equal(f, before.ID, f.bounds().Newest)
		docs, err := f.log.Documents().Get(f.Context(), product, "a")
		if err == nil { // if documents can be read after Close
			require.Equal(f, "1", string(docs[0].Value))
		}
		require.NoError(f, f.log.Close())
	}},
	{name: "lets readers read everything, then ends reading", run: func(f fixture) {
		start := f.bounds().Newest
		want := items(f.append(Entries("a", 10)...))
		require.NoError(f, f.log.Close())
		_, err := f.read(start, 0)
		require.NotErrorIs(f, err, eventlog.ErrClosed, "there is an entry to read")
		require.Equal(f, want, items(f.readAll(start, 3)))
		_, err = f.read(f.bounds().Newest, 3)
		require.ErrorIs(f, err, eventlog.ErrClosed)
	}},
	{name: "ends reading of a product without entries, with documents or unheard of", run: func(f fixture) {
		f.change(nil, f.put("a", "1"))
		_, err := f.read(f.bounds().Newest, 3)
		require.NoError(f, err)
		require.Empty(f, f.readAll(eventlog.ID{}, 3))
		unused := Bounds(f, f.log, "unused").Newest
		require.NoError(f, f.log.Close())
		for productID, after := range map[string]eventlog.ID{product: {}, "unused": unused, "unheard of": {Milli: 1 << 50}} {
			_, err = f.log.Read(f.Context(), productID, after, make([]eventlog.Entry, 3))
			require.ErrorIs(f, err, eventlog.ErrClosed, productID)
		}
	}},
	{name: "loses nothing that an append has acknowledged", run: testCloseUnderLoad},
}

// Every append in flight when the log closes either is in the log or returns
// ErrClosed.
func testCloseUnderLoad(f fixture) {
	const writers = 8
	start := f.bounds().Newest
	var acknowledged [writers][]eventlog.Entry
	var failures [writers]error
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for n := 0; failures[w] == nil; n++ {
				entries := writerEntries(w, n)
				if failures[w] = f.log.Append(f.Context(), product, entries); failures[w] == nil {
					acknowledged[w] = append(acknowledged[w], entries...)
				}
			}
		})
	}
	_, err := f.follow(start, 100, nil)
	assert.NoError(f, err)
	require.NoError(f, f.log.Close())
	running.Wait()
	var total int
	for w := range writers {
		assert.ErrorIs(f, failures[w], eventlog.ErrClosed)
		total += len(acknowledged[w])
	}
	got := f.readAll(start, 1000)
	requireGrowing(f, got)
	require.Len(f, got, total)
	for w := range writers {
		require.Equal(f, items(acknowledged[w]), items(ofWriter(got, w)))
	}
}

// writerEntries returns the entries of a writer's n-th call.
func writerEntries(writer, n int) []eventlog.Entry {
	session := fmt.Sprint("writer", writer)
	return []eventlog.Entry{Entry(session, 2*n), Entry(session, 2*n+1)}
}

// ofWriter returns the writer's entries.
func ofWriter(entries []eventlog.Entry, writer int) []eventlog.Entry {
	session := fmt.Sprint("writer", writer)
	return slices.DeleteFunc(slices.Clone(entries), func(e eventlog.Entry) bool { return e.SessionID != session })
}

var concurrencyTests = []test{
	{name: "shows every reader the same order, each entry once", run: testSameOrderForAll},
	{name: "lets one append of a key win", run: testOneWinner},
}

func testSameOrderForAll(f fixture) {
	const writers, readers, calls = 8, 8, 40
	start := f.bounds().Newest
	var appended [writers][]eventlog.Entry
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for n := range calls {
				entries := writerEntries(w, n)
				assert.NoError(f, f.log.Append(f.Context(), product, entries))
				appended[w] = append(appended[w], entries...)
			}
		})
	}
	var seen [readers][]eventlog.Entry
	for r := range readers {
		running.Go(func() {
			var err error
			seen[r], err = f.follow(start, writers*calls*2, nil)
			assert.NoError(f, err)
		})
	}
	running.Wait()
	requireGrowing(f, seen[0])
	for r := range readers {
		require.Equal(f, items(seen[0]), items(seen[r]), "reader %d", r)
	}
	for w := range writers {
		require.Equal(f, items(appended[w]), items(ofWriter(seen[0], w)), "writer %d", w)
	}
	require.Empty(f, f.readAll(seen[0][len(seen[0])-1].ID, 10))
}

// A key is appended once, even if many writers try at once.
func testOneWinner(f fixture) {
	const writers, keys = 8, 20
	start := f.bounds().Newest
	waittest.Together(writers, func(w int) {
		for k := range keys {
			e := keyed(fmt.Sprint("key ", k))
			e.SessionID = fmt.Sprint("writer", w)
			err := f.log.Append(f.Context(), product, []eventlog.Entry{e})
			if _, ok := errors.AsType[*eventlog.DuplicateError](err); !ok {
				assert.NoError(f, err)
			}
		}
	})
	require.Len(f, f.readAll(start, 10), keys)
}

package eventlogtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func (f fixture) drop() {
	f.Helper()
	require.NoError(f, f.log.Drop(f.Context(), product, 0))
}

// generation returns a context whose writes belong to a generation.
func generation(ctx context.Context, g document.Version) context.Context {
	return document.WithGenerations(ctx, func(string) document.Version { return g })
}

// rounds is how many generations follow each other under load.
const rounds = 10

// succession drops generation g by several concurrent calls, while others write in it, and then
// writes in generation g+1. It returns the number of old entries and documents that remain, and
// the number of new ones that are missing.
func (f fixture) succession(g document.Version) (mixed, lost int) {
	const writers, documents = 8, 700 // several steps of a drop
	var running sync.WaitGroup
	stopped := make(chan struct{})
	old, next := generation(f.Context(), g), generation(f.Context(), g+1)
	changes := make([]document.Change, documents)
	for i := range changes {
		changes[i] = document.Put(named(fmt.Sprintf("old/%d/%d", g, i)), []byte("old"), time.Hour)
	}
	require.NoError(f, f.log.Append(old, product, Entries("old", 10), changes...))
	for w := range writers {
		running.Go(func() {
			for n := 0; n < 20 || !waittest.Fired(stopped); n++ { // the last ones begin after the succession
				name := fmt.Sprintf("old/%d/%d/%d", g, w, n)
				put := document.Put(named(name), []byte("old"), time.Hour)
				_ = f.log.Append(old, product, []eventlog.Entry{{SessionID: "old", Data: []byte("{}")}}, put)
				_, _ = f.log.Documents().Write(old, product, document.Put(named(name+"w"), []byte("old"), 0))
			}
		})
	}
	drop := func() { assert.NoError(f, f.log.Drop(f.Context(), product, g)) }
	for range 3 { // which may be late
		running.Go(drop)
	}
	drop()
	start := f.bounds().Newest
	const kept = 20
	for n := range kept {
		put := document.Put(named(fmt.Sprintf("new/%d/%d", g, n)), []byte("new"), time.Hour)
		require.NoError(f, f.log.Append(next, product, []eventlog.Entry{{SessionID: "new", Data: []byte("{}")}}, put))
	}
	close(stopped)
	running.Wait()
	drop()
	found := map[string]int{}
	entries := f.readAll(start, 50)
	for _, e := range entries {
		found[e.SessionID]++
	}
	for _, value := range f.documents() {
		found[value]++
	}
	return found["old"], 2*kept - found["new"]
}

var dropTests = []test{
	{name: "removes the entries and gives readers a gap", run: func(f fixture) {
		start := f.bounds().Newest
		given := f.append(Entries("a", 300)...)
		newest := given[len(given)-1].ID
		for range 2 { // of nothing the second time
			f.drop()
			require.Equal(f, eventlog.Bounds{TrimmedTo: newest, Newest: newest}, f.bounds())
		}
		for _, cursor := range []eventlog.ID{start, given[0].ID, given[298].ID} {
			require.Equal(f, &eventlog.GapError{TrimmedTo: newest}, f.gap(cursor))
		}
		require.Empty(f, f.readAll(newest, 10), "a reader that has read everything misses nothing")
	}},
	{name: "leaves the log usable, frees the keys, and never reuses an ID or a version", run: func(f fixture) {
		given := f.append(Entries("a", 3)...)
		f.change(nil, f.put("a", "1"))
		f.change(nil, f.put("a", "2"))
		old := f.document("a")
		f.drop()
		f.conflict("a", nil, document.Put(old, []byte("3"), 0))
		f.change(nil, document.Put(named("a"), []byte("3"), 0))
		require.Greater(f, f.document("a").Version, old.Version)
		start, changed := f.bounds().Newest, f.log.Changed(product)
		fresh := f.append(Entries("a", 3)...)
		f.fires(changed)
		require.Equal(f, items(fresh), items(f.readAll(start, 2)))
		require.Equal(f, fresh[0].ID, f.bounds().Oldest)
		requireGrowing(f, append(given, fresh...))
		require.Len(f, distinct(f.refused(Entries("a", 3)...).Keys), 3)
	}},
	{name: "does not change other products", run: func(f fixture) {
		const other = "acme*" // as a pattern it would match the product
		start := Bounds(f, f.log, other).Newest
		want := Entries("a", 3)
		require.NoError(f, f.log.Append(f.Context(), other, want, document.Put(named("a"), []byte("1"), time.Hour)))
		f.append(Entries("a", 3)...)
		f.drop()
		require.Equal(f, items(want), items(ReadAll(f, f.log, other, start, 10)))
		docs, err := f.log.Documents().Get(f.Context(), other, "a")
		require.NoError(f, err)
		require.Equal(f, "1", string(docs[0].Value))

		f.append(Entries("b", 3)...)
		require.NoError(f, f.log.Drop(f.Context(), other, 0))
		require.Len(f, f.readAll(f.bounds().TrimmedTo, 10), 3)
	}},
	{name: "ends a generation for appends and document writes", run: func(f fixture) {
		for _, dropped := range []string{product, "unheard of"} {
			require.NoError(f, f.log.Drop(f.Context(), dropped, 5))
			old, next := generation(f.Context(), 5), generation(f.Context(), 6)
			put := document.Put(named("a"), []byte("1"), time.Hour)
			require.ErrorIs(f, f.log.Append(old, dropped, Entries("a", 1)), document.ErrDropped)
			require.ErrorIs(f, f.log.Append(old, dropped, nil, put), document.ErrDropped)
			_, err := f.log.Documents().Write(old, dropped, put)
			require.ErrorIs(f, err, document.ErrDropped)
			require.NoError(f, f.log.Append(next, dropped, Entries("a", 1), put))
			require.NoError(f, f.log.Append(f.Context(), dropped, Entries("b", 1)))
		}
	}},
	{name: "parts generations, however late a write or another drop is", run: func(f fixture) {
		mixed, lost := 0, 0
		for round := range rounds {
			m, l := f.succession(document.Version(10 * (round + 1)))
			mixed, lost = mixed+min(m, 1), lost+min(l, 1)
		}
		require.Zero(f, mixed, "of %d rounds brought data of the old generation to the new one", rounds)
		require.Zero(f, lost, "of %d rounds lost acknowledged data of the new generation", rounds)
	}},
}

package eventlogtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func (f fixture) drop() {
	f.Helper()
	require.NoError(f, f.log.Drop(f.Context(), product))
}

var dropTests = []test{
	{name: "removes the entries and gives readers a gap", run: func(f fixture) {
		start := f.bounds().Newest
		given := f.append(Entries("a", 300)...)
		newest := given[len(given)-1].ID
		f.drop()
		require.Equal(f, eventlog.Bounds{TrimmedTo: newest, Newest: newest}, f.bounds())
		for _, cursor := range []eventlog.ID{start, given[0].ID, given[298].ID} {
			require.Equal(f, &eventlog.GapError{TrimmedTo: newest}, f.gap(cursor))
		}
		require.Empty(f, f.readAll(newest, 10), "a reader that has read everything misses nothing")
	}},
	{name: "frees the keys", run: func(f fixture) {
		f.append(keyed("a", "b"), keyed("c"))
		f.drop()
		f.append(keyed("a"), keyed("b", "c"))
		require.Len(f, distinct(f.refused(keyed("a", "b", "c")).Keys), 3)
	}},
	{name: "removes all documents, including those without a time to live", run: func(f fixture) {
		f.change(Entries("a", 1), f.put("ever", "1"), document.Put(named("mortal"), []byte("1"), time.Hour))
		f.drop()
		require.Empty(f, f.documents())
		require.False(f, f.document("ever").Exists())
		require.False(f, f.document("mortal").Exists())
	}},
	{name: "never reuses an ID or a version", run: func(f fixture) {
		given := f.append(Entries("a", 3)...)
		f.change(nil, f.put("a", "1"))
		f.change(nil, f.put("a", "2"))
		old := f.document("a")
		f.drop()
		f.conflict("a", nil, document.Put(old, []byte("3"), 0))
		f.change(nil, document.Put(named("a"), []byte("3"), 0))
		require.Greater(f, f.document("a").Version, old.Version)
		requireGrowing(f, append(given, f.append(Entries("b", 3)...)...))
	}},
	{name: "leaves the log usable", run: func(f fixture) {
		f.append(Entries("a", 3)...)
		f.drop()
		start := f.bounds().Newest
		changed := f.log.Changed(product)
		want := f.append(Entries("b", 3)...)
		f.fires(changed)
		require.Equal(f, items(want), items(f.readAll(start, 2)))
		require.Equal(f, want[0].ID, f.bounds().Oldest)
	}},
	{name: "does not change other products", run: func(f fixture) {
		const other = "acme*" // as a pattern it matches the product
		before, err := f.log.Bounds(f.Context(), other)
		require.NoError(f, err)
		want := Entries("a", 3)
		require.NoError(f, f.log.Append(f.Context(), other, want, document.Put(named("a"), []byte("1"), time.Hour)))
		f.append(Entries("a", 3)...)
		f.drop()
		got := make([]eventlog.Entry, 10)
		n, err := f.log.Read(f.Context(), other, before.Newest, got)
		require.NoError(f, err)
		require.Equal(f, items(want), items(got[:n]))
		docs, err := f.log.Documents().Get(f.Context(), other, "a")
		require.NoError(f, err)
		require.Equal(f, "1", string(docs[0].Value))

		f.append(Entries("b", 3)...)
		require.NoError(f, f.log.Drop(f.Context(), other))
		require.Len(f, f.readAll(f.bounds().TrimmedTo, 10), 3)
	}},
	{name: "of nothing succeeds, and so does a second call", run: func(f fixture) {
		require.NoError(f, f.log.Drop(f.Context(), "unheard of"))
		f.append(Entry("a", 0))
		f.drop()
		f.drop()
	}},
	{name: "is refused after Close", run: func(f fixture) {
		start := f.bounds().Newest
		want := f.append(Entry("a", 0))
		require.NoError(f, f.log.Close())
		require.ErrorIs(f, f.log.Drop(f.Context(), product), eventlog.ErrClosed)
		require.Equal(f, items(want), items(f.readAll(start, 10)))
	}},
}

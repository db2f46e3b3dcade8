package documenttest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
)

// products are ids that an engine could confuse when it builds keys from them.
var products = []string{"", "a", "a:b", "a/b", "A", "ä", "a b", "a*", "a/", "/", "{a}", "a}b{", "a\x00", "\xff",
	"lease/", "0"}

var productTests = []test{
	{name: "keep documents of the same name apart", run: func(f fixture) {
		for i, id := range products {
			f.requireEmpty(id)
			f.putIn(id, "doc", fmt.Sprint("first ", i))
		}
		for i, id := range products {
			d := f.oneIn(id, "doc")
			require.Equal(f, fmt.Sprint("first ", i), string(d.Value), "product %q", id)
			f.putIn(id, "doc", fmt.Sprint("second ", i))
		}
		for i, id := range products {
			docs, err := f.store.List(f.Context(), id, "", "", 100)
			require.NoError(f, err)
			require.Len(f, docs, 1, "product %q", id)
			require.Equal(f, fmt.Sprint("second ", i), string(docs[0].Value), "product %q", id)
		}
	}},
	{name: "are not confused with names", run: func(f fixture) {
		pairs := [][2]string{{"", "a:b"}, {"a", "b"}, {"a:b", "c"}, {"a", "b:c"}, {"a/b", "c"}, {"a", "b/c"},
			{"a\x00", "b"}, {"a", "\x00b"}, {"ab", "c"}, {"a", "bc"}}
		for i, pair := range pairs {
			f.putIn(pair[0], pair[1], fmt.Sprint(i))
		}
		for i, pair := range pairs {
			require.Equal(f, fmt.Sprint(i), string(f.oneIn(pair[0], pair[1]).Value), "%q", pair)
		}
	}},
	{name: "do not conflict", run: func(f fixture) {
		a := f.putIn("a", "doc", "1")
		b := f.putIn("b", "doc", "1")
		_, err := f.store.Write(f.Context(), "b", document.Delete(b))
		require.NoError(f, err)
		require.Equal(f, a, f.oneIn("a", "doc"))
		_, err = f.store.Write(f.Context(), "c", document.Check(a))
		require.True(f, isConflict(err), "documents of another product do not exist")
	}},
}

func (f fixture) oneIn(productID, name string) document.Document {
	f.Helper()
	docs, err := f.store.Get(f.Context(), productID, name)
	require.NoError(f, err)
	require.Len(f, docs, 1)
	return docs[0]
}

func (f fixture) putIn(productID, name, value string) document.Document {
	f.Helper()
	d := f.oneIn(productID, name)
	version, err := f.store.Write(f.Context(), productID, document.Put(d, []byte(value), 0))
	require.NoError(f, err)
	require.Greater(f, version, d.Version)
	return document.Document{Name: name, Value: []byte(value), Version: version}
}

func (f fixture) requireEmpty(productID string) {
	f.Helper()
	docs, err := f.store.List(f.Context(), productID, "", "", 100)
	require.NoError(f, err)
	require.Empty(f, docs, "product %q", productID)
}

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
			require.Empty(f, f.in(id).all(), "product %q", id)
			f.in(id).put("doc", fmt.Sprint("first ", i), 0)
		}
		for i, id := range products {
			require.Equal(f, fmt.Sprint("first ", i), string(f.in(id).one("doc").Value), "product %q", id)
			f.in(id).put("doc", fmt.Sprint("second ", i), 0)
		}
		for i, id := range products {
			docs := f.in(id).all()
			require.Len(f, docs, 1, "product %q", id)
			require.Equal(f, fmt.Sprint("second ", i), string(docs[0].Value), "product %q", id)
			f.in(id).write(document.Delete(docs[0]))
		}
	}},
	{name: "are not confused with names", run: func(f fixture) {
		pairs := [][2]string{{"", "a:b"}, {"a", "b"}, {"a:b", "c"}, {"a", "b:c"}, {"a/b", "c"}, {"a", "b/c"},
			{"a\x00", "b"}, {"a", "\x00b"}, {"ab", "c"}, {"a", "bc"}}
		for i, pair := range pairs {
			f.in(pair[0]).put(pair[1], fmt.Sprint(i), 0)
		}
		for i, pair := range pairs {
			require.Equal(f, fmt.Sprint(i), string(f.in(pair[0]).one(pair[1]).Value), "%q", pair)
		}
	}},
}

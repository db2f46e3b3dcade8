package documenttest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
)

var listTests = []test{
	{name: "of a prefix that nothing begins with is empty", run: func(f fixture) {
		require.Empty(f, f.list("", "", 10), "in an empty store")
		f.putAll("a", "b/1", "c")
		for _, prefix := range []string{"b/1/", "b/2", "d", "A", "\x00", "\xff", strings.Repeat("b", document.MaxName+1)} {
			require.Empty(f, f.list(prefix, "", 10), "%.20q", prefix)
		}
	}},
	{name: "begins after the given name", run: func(f fixture) {
		f.putAll("a", "b", "b/1", "b/2", "b/3", "c")
		for _, c := range []struct {
			prefix, after string
			want          []string
		}{
			{"", "", []string{"a", "b", "b/1", "b/2", "b/3", "c"}},
			{"", "b/1", []string{"b/2", "b/3", "c"}},
			{"", "b/15", []string{"b/2", "b/3", "c"}},
			{"", "b/1\x00", []string{"b/2", "b/3", "c"}},
			{"", "c", nil},
			{"", "z", nil},
			{"b/", "a", []string{"b/1", "b/2", "b/3"}},
			{"b/", "b", []string{"b/1", "b/2", "b/3"}},
			{"b/", "b/", []string{"b/1", "b/2", "b/3"}},
			{"b/", "b/2", []string{"b/3"}},
			{"b/", "b/3", nil},
			{"b/", "b0", nil},
			{"b/", "c", nil},
			{"b", "b", []string{"b/1", "b/2", "b/3"}},
		} {
			require.Equal(f, c.want, slices.Collect(slices.Values(names(f.list(c.prefix, c.after, 10)))), "prefix %q after %q",
				c.prefix, c.after)
		}
	}},
	{name: "returns at most limit", run: func(f fixture) {
		f.putAll("a", "b", "c", "d")
		for limit, want := range map[int]int{-1: 0, math.MinInt: 0, 0: 0, 1: 1, 3: 3, 4: 4, 5: 4, 1000: 4, math.MaxInt32: 4,
			math.MaxInt: 4} {
			require.Equal(f, []string{"a", "b", "c", "d"}[:want], names(f.list("", "", limit)), "limit %d", limit)
		}
	}},
	{name: "is in byte order of the names, of those that begin with the prefix", run: func(f fixture) {
		for _, name := range oddNames {
			f.put(name, "", 0)
		}
		sorted := slices.Sorted(slices.Values(oddNames))
		require.Equal(f, sorted, names(f.list("", "", 1000)))
		for i, name := range sorted {
			require.Equal(f, sorted[i+1:], names(f.list("", name, 1000)), "after %.20q", name)
		}
		for _, prefix := range []string{"\x00", "*", "a", "a\x00", "a\xff", "[", "\\", "{", "{x}", "\xc3", "\xff",
			"\xff\xff"} {
			want := slices.DeleteFunc(slices.Clone(sorted), func(name string) bool { return !strings.HasPrefix(name, prefix) })
			require.Equal(f, want, names(f.list(prefix, "", 1000)), "prefix %q", prefix)
		}
	}},
	{name: "lists many documents by and by", run: testManyLists},
}

// putAll creates documents of these names in one call.
func (f fixture) putAll(names ...string) {
	f.Helper()
	changes := make([]document.Change, len(names))
	for i, name := range names {
		changes[i] = document.Put(named(name), []byte("value of "+name), 0)
	}
	f.write(changes...)
}

// listAll lists the documents that begin with prefix, at most so many at once.
func (f fixture) listAll(prefix string, atOnce int) []string {
	f.Helper()
	var all []string
	for after := ""; ; after = all[len(all)-1] {
		got := f.list(prefix, after, atOnce)
		require.LessOrEqual(f, len(got), atOnce)
		if len(got) == 0 {
			return all
		}
		all = append(all, names(got)...)
	}
}

func testManyLists(f fixture) {
	var want []string
	for i := range 1200 {
		want = append(want, fmt.Sprintf("many/%04d", i))
	}
	f.putAll(append([]string{"many", "many.", "many0", "a"}, want...)...)
	for _, each := range []int{50, 333, 1000, 1199, 1200, 1201, 5000} {
		require.Equal(f, want, f.listAll("many/", each), "%d at a time", each)
	}
	require.Equal(f, want[100:200], f.listAll("many/01", 7))
	require.Equal(f, want, names(f.list("many/", "", 5000)), "fewer than the limit only where there are no more")
	require.Equal(f, want[1:], names(f.list("many/", want[0], 1199)))
	require.Len(f, f.listAll("", 500), 1204)
}

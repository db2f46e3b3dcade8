package documenttest

import (
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
)

var timeToLiveTests = []test{
	{name: "ends a document, and not before", run: func(f fixture) {
		const ttl = 10 * brief // so long that a busy machine does not hide that it ends too soon
		start := time.Now()
		f.put("a", "1", ttl)
		f.gone("a")
		require.GreaterOrEqual(f, time.Since(start), ttl-time.Millisecond, "to the millisecond")
		require.Equal(f, []item{{Name: "a"}}, items(f.get("a")))
		require.Empty(f, f.all())
	}},
	{name: "may be as short or as long as a duration", run: func(f fixture) {
		for _, ttl := range []time.Duration{time.Hour, 100 * 365 * 24 * time.Hour, math.MaxInt64} {
			f.put("a", "1", ttl)
			require.Equal(f, "1", string(f.one("a").Value), "%s", ttl)
		}
		for _, ttl := range []time.Duration{1, time.Microsecond, 999 * time.Microsecond, time.Millisecond} {
			f.put("a", "1", ttl)
			f.gone("a")
		}
	}},
	{name: "that is over hides the document from List", run: func(f fixture) {
		f.put("b", "1", brief)
		f.put("a", "1", 0)
		f.put("c", "1", 0)
		f.outlive(brief)
		require.Equal(f, []string{"a", "c"}, names(f.list("", "", 10)))
		require.Equal(f, []string{"c"}, names(f.list("", "a", 1)), "it takes no room in a list")
		require.Empty(f, f.list("b", "", 10))
	}},
	{name: "that is over makes an earlier read stale", run: testStaleAfterExpiry},
	{name: "that is over means that the document does not exist, and can be created", run: func(f fixture) {
		for _, ttl := range []time.Duration{0, time.Hour} {
			old := f.put("a", "old", brief)
			f.outlive(brief)
			f.write(document.Check(named("a")))
			version := f.write(document.Put(named("a"), []byte("new"), ttl))
			require.Greater(f, version, old.Version)
			require.Equal(f, []item{{"a", "new", version}}, items(f.all()))
		}
	}},
	{name: "is left alone by a check and by a conflict", run: func(f fixture) {
		f.inTime(document.Check, func(a document.Document) {
			f.conflict(document.Put(document.Document{Name: "a", Version: a.Version + 1}, nil, 0))
		})
		require.False(f, f.one("a").Exists())
	}},
	{name: "is extended and removed by touch and by put", run: func(f fixture) {
		for _, ttl := range []time.Duration{time.Hour, 0} {
			for _, change := range []func(a document.Document) document.Change{
				func(a document.Document) document.Change { return document.Touch(a, ttl) },
				func(a document.Document) document.Change { return document.Put(a, a.Value, ttl) },
			} {
				f.inTime(change, func(document.Document) {})
				require.Equal(f, "1", string(f.one("a").Value))
				require.Equal(f, []string{"a"}, names(f.all()))
			}
		}
	}},
	{name: "is shortened by touch and by put", run: func(f fixture) {
		for _, ttl := range []time.Duration{0, time.Hour} {
			f.write(document.Touch(f.put("touched", "1", ttl), brief))
			f.put("put", "1", ttl)
			f.put("put", "2", brief)
			f.gone("touched")
			f.gone("put")
		}
	}},
	{name: "does not carry over to a document created later", run: func(f fixture) {
		f.inTime(document.Delete, func(document.Document) { f.put("a", "2", 0) })
		require.Equal(f, "2", string(f.one("a").Value))
	}},
}

// Each change is the first access to an expired document.
func testStaleAfterExpiry(f fixture) {
	a, b, c, d := f.put("a", "1", brief), f.put("b", "1", brief), f.put("c", "1", brief), f.put("d", "1", brief)
	f.outlive(brief)
	for _, stale := range []document.Change{
		document.Put(a, nil, 0), document.Delete(b), document.Check(c), document.Touch(d, time.Hour),
	} {
		require.Equal(f, stale.Name, f.conflict(document.Put(named("new"), nil, 0), stale))
	}
	require.Empty(f, f.all())
}

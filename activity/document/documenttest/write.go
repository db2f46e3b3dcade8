package documenttest

import (
	"context"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

var writeTests = []test{
	{name: "puts a new document, a new value, and the same value as a new version", run: func(f fixture) {
		a := named("a")
		for _, value := range []string{"a long first value", "2", "2"} {
			version := f.write(document.Put(a, []byte(value), 0))
			require.Greater(f, version, a.Version)
			require.Equal(f, []item{{"a", value, version}}, items(f.get("a")))
			a = f.one("a")
		}
	}},
	{name: "of nothing changes nothing", run: func(f fixture) {
		f.write()
		require.Empty(f, f.all())
		a := f.put("a", "1", 0)
		f.write()
		require.Equal(f, items([]document.Document{a}), items(f.all()))
	}},
	{name: "based on a version that is not the document's is a conflict", run: testStale},
	{name: "makes none of the changes if one is a conflict", run: testAllOrNone},
	{name: "neither modifies nor retains the caller's changes and values", run: func(f fixture) {
		a := f.put("a", "1", 0)
		make := func() []document.Change {
			return []document.Change{document.Put(named("z"), []byte("2"), time.Hour), document.Touch(a, time.Hour),
				document.Check(named("b"))}
		}
		changes := make()
		f.write(changes...)
		require.Equal(f, make(), changes)
		f.conflict(changes...)
		require.Equal(f, make(), changes)
		copy(changes[0].Value, "x")
		changes[0] = document.Change{}
		require.Equal(f, "2", string(f.one("z").Value))
	}},
	{name: "with a cancelled context neither hangs nor writes partially, nor does a read hang", run: testCancelledCalls},
}

// requireStale fails the test unless every change based on that read is a
// conflict, and changes nothing.
func (f fixture) requireStale(d document.Document) {
	f.Helper()
	before := items(f.all())
	for _, c := range []document.Change{
		document.Put(d, []byte("stale"), 0), document.Put(d, []byte("stale"), time.Hour), document.Delete(d),
		document.Check(d), document.Touch(d, time.Hour), document.Touch(d, 0),
	} {
		require.Equal(f, d.Name, f.conflict(c), "operation %d", c.Op)
	}
	require.Equal(f, before, items(f.all()))
}

func testStale(f fixture) {
	existing, changed, gone, again := f.put("existing", "1", 0), f.put("changed", "1", 0), f.put("gone", "1", 0),
		f.put("created again", "1", 0)
	f.put("changed", "2", 0)
	f.write(document.Delete(gone), document.Delete(again))
	f.put("created again", "1", 0)
	stale := []document.Document{changed, gone, again, {Name: "never there", Version: existing.Version}}
	for _, ahead := range []document.Version{1, 1 << 20, 1 << 53, 1 << 63} {
		stale = append(stale, document.Document{Name: "existing", Version: existing.Version + ahead})
	}
	for _, d := range stale {
		f.requireStale(d)
	}
	before := items(f.all())
	require.Equal(f, "existing", f.conflict(document.Put(named("existing"), []byte("2"), 0)))
	require.Equal(f, "existing", f.conflict(document.Check(named("existing"))))
	require.Equal(f, before, items(f.all()))
}

// A conflict rolls back the whole call, at any place among the changes.
func testAllOrNone(f fixture) {
	kept, brief := f.put("kept", "1", 0), f.put("brief", "1", time.Hour)
	old := f.put("stale", "1", 0)
	f.put("stale", "2", 0)
	before := items(f.all())
	changes := []document.Change{
		document.Put(named("new"), []byte("2"), 0), document.Delete(kept), document.Touch(brief, time.Nanosecond),
	}
	conflicts := []document.Change{
		document.Check(old), document.Put(old, []byte("3"), 0), document.Delete(old), document.Touch(old, 0),
		document.Check(named("stale")),
	}
	for _, bad := range conflicts {
		for at := range len(changes) + 1 {
			call := append(append(append([]document.Change{}, changes[:at]...), bad), changes[at:]...)
			require.Equal(f, "stale", f.conflict(call...))
			require.Equal(f, before, items(f.all()), "operation %d as change %d", bad.Op, at)
		}
	}
	f.write(changes[0], changes[1])
}

func testCancelledCalls(f fixture) {
	cancelled, cancel := context.WithCancel(f.Context())
	cancel()
	waittest.Within(f, "calls with a cancelled context", func() {
		_, _ = f.store.Write(cancelled, f.product, document.Put(named("a"), nil, 0),
			document.Put(named("b"), nil, 0)) // may succeed or fail
		_, _ = f.store.Get(cancelled, f.product, "a")
		_, _ = f.store.List(cancelled, f.product, "", "", 10)
	})
	waittest.Within(f, "the next calls", func() {
		docs, err := f.store.Get(f.Context(), f.product, "a", "b")
		if assert.NoError(f, err) && assert.Len(f, docs, 2) {
			assert.Equal(f, docs[0].Version, docs[1].Version)
		}
		_, err = f.store.Write(f.Context(), f.product, document.Put(named("c"), nil, 0))
		assert.NoError(f, err)
	})
}

// invalidTests list changes that no store accepts, each alone, with a valid
// change, and with a conflict.
var invalidTests = func() (tests []test) {
	long, large := strings.Repeat("n", document.MaxName+1), make([]byte, document.MaxValue+1)
	stored := document.Document{Name: "a", Version: 1}
	for name, bad := range map[string][]document.Change{
		"an empty name":                         {document.Put(named(""), nil, 0)},
		"a long name":                           {document.Put(named(long), nil, 0)},
		"a long name to check":                  {document.Check(named(long))},
		"a large value":                         {document.Put(named("a"), large, 0)},
		"a negative time to live":               {document.Put(named("a"), nil, -1)},
		"touch with a negative time to live":    {document.Touch(stored, -time.Hour)},
		"delete a document that must not exist": {document.Delete(named("a"))},
		"touch a document that must not exist":  {document.Touch(named("a"), time.Hour)},
		"an unknown operation":                  {{Op: document.OpTouch + 1, Name: "a", Prev: stored.Version}},
		"one document twice":                    {document.Put(named("a"), nil, 0), document.Put(named("a"), nil, 0)},
		"check and put one document":            {document.Check(named("a")), document.Put(named("a"), nil, 0)},
	} {
		tests = append(tests, test{name: name, run: func(f fixture) { testInvalid(f, bad) }})
	}
	return tests
}()

func testInvalid(f fixture, bad []document.Change) {
	there := f.put("there", "1", 0)
	good, conflict := document.Put(named("good"), nil, 0), document.Put(named("there"), nil, 0)
	for i, call := range [][]document.Change{
		bad, append([]document.Change{good}, bad...), append(bad, good), append([]document.Change{conflict}, bad...),
		append(bad, conflict),
	} {
		_, err := f.store.Write(f.Context(), f.product, call...)
		require.ErrorIs(f, err, document.ErrInvalid, "call %d", i)
		require.Equal(f, items([]document.Document{there}), items(f.all()), "call %d", i)
	}
	f.write(good)
}

package eventlogtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// TestState checks that the logs returned by open bound the documents of each
// product by half of [eventlog.Retention].StateMaxBytes. Every call of open
// must return a new empty log, which the suite closes. The total bound of an
// in-memory engine must exceed the suite's writes, which are a few megabytes.
//
// An engine may evict in steps, as long as writes to the product make it catch
// up.
func TestState(t *testing.T, open func(t *testing.T, r eventlog.Retention) eventlog.Log) {
	runAll(t, stateTests, func(t *testing.T, r eventlog.Retention) eventlog.Log {
		r.StateMaxBytes = 2 * documentBytes
		return open(t, r)
	})
}

const (
	documentBytes = 64 << 10 // of a product, at most
	fillerBytes   = 1 << 10  // of a filler document's value
	fillers       = 4 * documentBytes / fillerBytes
)

func filler(n int) string { return fmt.Sprintf("filler/%04d", n) }

// write makes changes to a product's documents, which must succeed.
func (f fixture) write(productID string, changes ...document.Change) document.Version {
	f.Helper()
	version, err := f.log.Documents().Write(f.Context(), productID, changes...)
	require.NoError(f, err)
	return version
}

// names returns the names with that prefix among a product's documents.
func (f fixture) names(productID, prefix string) []string {
	f.Helper()
	names := []string{}
	for _, d := range f.list(productID, prefix) {
		names = append(names, d.Name)
	}
	return names
}

// file creates a filler document.
func (f fixture) file(productID, name string, ttl time.Duration) {
	f.Helper()
	f.write(productID, document.Put(named(name), make([]byte, fillerBytes), ttl))
}

// fill creates four times as many documents as fit. It calls before, if not nil,
// before each of them.
func (f fixture) fill(before func(n int)) {
	f.Helper()
	for n := range fillers {
		if before != nil {
			before(n)
		}
		f.file(product, filler(n), time.Hour)
	}
}

var stateTests = []test{
	{name: "is bounded, and documents written first are evicted first", run: func(f fixture) {
		f.fill(nil)
		kept := f.names(product, "filler/")
		require.LessOrEqual(f, len(kept)*fillerBytes, documentBytes*5/4)
		require.GreaterOrEqual(f, len(kept), fillers/16, "the bound is used up")
		want := make([]string, 0, len(kept))
		for n := fillers - len(kept); n < fillers; n++ {
			want = append(want, filler(n))
		}
		require.Equal(f, want, kept)
	}},
	{name: "is bounded when documents change with entries", run: func(f fixture) {
		value := make([]byte, fillerBytes)
		for n := range fillers {
			f.change([]eventlog.Entry{Entry("a", n)}, document.Put(named(filler(n)), value, time.Hour))
		}
		kept := f.names(product, "filler/")
		require.LessOrEqual(f, len(kept)*fillerBytes, documentBytes*5/4)
		require.Contains(f, kept, filler(fillers-1))
		require.NotContains(f, kept, filler(0))
	}},
	{name: "is bounded when documents grow", run: func(f fixture) {
		const growing = fillers / 8
		for size := 64; size <= 8*fillerBytes; size *= 4 {
			for n := range growing {
				d := f.document(filler(n))
				f.write(product, document.Put(d, make([]byte, size), time.Hour))
			}
		}
		total := 0
		for _, value := range f.documents() {
			total += len(value)
		}
		require.LessOrEqual(f, total, documentBytes*5/4)
		require.True(f, f.document(filler(growing-1)).Exists())
	}},
	{name: "counts names", run: func(f fixture) {
		long := string(slices.Repeat([]byte("n"), document.MaxName-10))
		for n := range fillers {
			f.write(product, document.Put(named(fmt.Sprint(long, n)), nil, time.Hour))
		}
		require.LessOrEqual(f, len(f.names(product, ""))*document.MaxName, documentBytes*5/4)
	}},
	{name: "keeps documents without a time to live, which count", run: func(f fixture) {
		const registrations = documentBytes / fillerBytes / 2
		for n := range registrations {
			f.file(product, fmt.Sprint("ever/", n), 0)
		}
		f.fill(nil)
		require.Len(f, f.names(product, "ever/"), registrations)
		mortal := f.names(product, "filler/")
		require.Contains(f, mortal, filler(fillers-1), "the newest is kept")
		require.LessOrEqual(f, (len(mortal)+registrations)*fillerBytes, documentBytes*5/4)
		for n := range 4 * registrations { // more than fit
			f.file(product, fmt.Sprint("more/", n), 0)
		}
		require.Len(f, f.names(product, "ever/"), registrations)
		require.Len(f, f.names(product, "more/"), 4*registrations)
	}},
	{name: "keeps documents that are written again, but not documents only read", run: func(f fixture) {
		for _, name := range []string{"put", "touched", "read", "checked"} {
			f.write(product, document.Put(named(name), []byte(name), time.Hour))
		}
		f.fill(func(n int) {
			if n%8 != 0 {
				return
			}
			f.write(product, document.Put(f.document("put"), []byte("put"), time.Hour))
			f.write(product, document.Touch(f.document("touched"), time.Hour))
			if d := f.document("read"); d.Exists() {
				f.names(product, "read")
			}
			if d := f.document("checked"); d.Exists() {
				f.write(product, document.Check(d))
			}
		})
		assert.True(f, f.document("put").Exists(), "put")
		assert.True(f, f.document("touched").Exists(), "touched")
		assert.False(f, f.document("read").Exists(), "read")
		assert.False(f, f.document("checked").Exists(), "checked")
	}},
	{name: "evicts documents that yield first, whenever they were written", run: func(f fixture) {
		value := make([]byte, fillerBytes)
		put := func(name string, yields bool) {
			c := document.Put(f.document(name), value, time.Hour)
			c.Yields = yields
			f.write(product, c)
		}
		const links = documentBytes / fillerBytes / 4
		for n := range links {
			put(fmt.Sprint("link/", n), n%2 == 0)
		}
		put("gives up", false)
		put("gives up", true)
		for n := 0; n < links; n += 2 { // a session that is linked later
			touch := document.Touch(f.document(fmt.Sprint("link/", n)), time.Hour)
			f.write(product, touch)
		}
		for n := range fillers {
			put(filler(n), true)
		}
		require.Len(f, f.names(product, "link/"), links)
		require.False(f, f.document("gives up").Exists())
		require.NotEmpty(f, f.names(product, "filler/"))
		for n := range fillers {
			put(fmt.Sprint("more/", n), false)
		}
		require.Empty(f, f.names(product, "filler/"))
		require.Empty(f, f.names(product, "link/"), "of the others, the oldest goes first")
		more := f.names(product, "more/")
		require.Contains(f, more, fmt.Sprint("more/", fillers-1))
		require.LessOrEqual(f, len(more)*fillerBytes, documentBytes*5/4)
	}},
	{name: "evicts the yielding documents of one write before the others", run: func(f fixture) {
		f.write(product, document.Put(named("link"), []byte("link"), time.Hour))
		changes := make([]document.Change, fillers)
		for n := range changes {
			changes[n] = document.Put(named(filler(n)), make([]byte, fillerBytes), time.Hour)
			changes[n].Yields = true
		}
		f.write(product, changes...)
		require.True(f, f.document("link").Exists())
	}},
	{name: "evicts nothing of another product", run: func(f fixture) {
		const others = documentBytes / fillerBytes / 4
		for n := range others {
			f.file("other", filler(n), time.Hour)
		}
		f.fill(nil)
		require.Len(f, f.names("other", ""), others)
	}},
	{name: "treats an evicted document as missing", run: func(f fixture) {
		old := document.Document{Name: "a"}
		old.Version = f.write(product, document.Put(old, []byte("1"), time.Hour))
		f.fill(nil)
		require.False(f, f.document("a").Exists())
		f.conflict("a", nil, document.Put(old, []byte("2"), time.Hour))
		f.conflict("a", nil, document.Touch(old, time.Hour))
		require.Greater(f, f.write(product, document.Put(named("a"), []byte("2"), time.Hour)), old.Version)
	}},
	{name: "has room again after deleting and after Drop", run: func(f fixture) {
		const few = documentBytes / fillerBytes / 4
		comeAndGo := func() {
			for n := range fillers {
				f.file(product, filler(n), time.Hour)
				f.write(product, document.Delete(f.document(filler(n))))
			}
		}
		for _, free := range []func(){comeAndGo, func() { f.fill(nil); f.drop() }} {
			free()
			for n := range few {
				f.file(product, filler(n), time.Hour)
			}
			require.Len(f, f.names(product, ""), few)
			f.drop()
		}
	}},
}

package document_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/document/documenttest"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

const product = "acme"

func TestMemory_isAStoreWhileItExpires(t *testing.T) {
	documenttest.TestStore(t, func(t *testing.T) document.Store {
		m := musttest.New(document.NewMemory(nil))
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					m.Expire()
				}
			}
		})
		t.Cleanup(func() {
			close(stop)
			running.Wait()
		})
		return m
	})
}

func one(t testing.TB, s document.Store, name string) document.Document {
	t.Helper()
	docs := musttest.New(s.Get(t.Context(), product, name))
	require.Len(t, docs, 1)
	return docs[0]
}

func write(t testing.TB, s document.Store, changes ...document.Change) document.Version {
	return musttest.New(s.Write(t.Context(), product, changes...))
}

// fresh puts an empty document that is not there, for an hour.
func fresh(name string) document.Change {
	return document.Put(document.Document{Name: name}, nil, time.Hour)
}

// put writes a document whose value is its name.
func put(t testing.TB, s document.Store, name string, ttl time.Duration) document.Document {
	t.Helper()
	d := one(t, s, name)
	d.Value = []byte(name)
	d.Version = write(t, s, document.Put(d, d.Value, ttl))
	return d
}

// kept returns the names of the existing documents, on which Get and List must agree.
func kept(t testing.TB, s document.Store, names ...string) string {
	t.Helper()
	docs := musttest.New(s.List(t.Context(), product, "", "", 1<<20))
	var listed []string
	for _, d := range docs {
		listed = append(listed, d.Name)
	}
	for _, name := range names {
		require.Equal(t, slices.Contains(listed, name), one(t, s, name).Exists(), name)
	}
	return strings.Join(listed, " ")
}

// room returns the bytes taken by n documents with names like this, as written by put.
func room(t testing.TB, n int, like string) int64 {
	t.Helper()
	m := musttest.New(document.NewMemory(nil))
	for i := range n {
		put(t, m, fmt.Sprint(like, i), time.Hour)
	}
	return m.Bytes(product)
}

func TestMemory_evictsTheOldestWriteFirst(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(t *testing.T, m *document.Memory) // between three documents and a fourth
		want string
	}{
		{"first come", func(*testing.T, *document.Memory) {}, "b c d"},
		{"put again", func(t *testing.T, m *document.Memory) { put(t, m, "a", time.Hour) }, "a c d"},
		{"touched", func(t *testing.T, m *document.Memory) { write(t, m, document.Touch(one(t, m, "a"), time.Hour)) },
			"a c d"},
		{"read again", func(t *testing.T, m *document.Memory) { one(t, m, "a") }, "b c d"},
		{"checked", func(t *testing.T, m *document.Memory) { write(t, m, document.Check(one(t, m, "a"))) }, "b c d"},
		{"read of a missing one", func(t *testing.T, m *document.Memory) { one(t, m, "none") }, "b c d"},
		{"deleted", func(t *testing.T, m *document.Memory) { write(t, m, document.Delete(one(t, m, "b"))) }, "a c d"},
		{"made permanent", func(t *testing.T, m *document.Memory) { write(t, m, document.Touch(one(t, m, "b"), 0)) },
			"b c d"},
		{"another permanent one", func(t *testing.T, m *document.Memory) { put(t, m, "z", 0) }, "c d z"},
		{"of another product", func(t *testing.T, m *document.Memory) {
			musttest.New(m.Write(t.Context(), "other", fresh("a")))
		}, "b c d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := musttest.New(document.NewMemory(&document.MemoryOptions{MaxBytes: room(t, 3, "")}))
			for _, name := range []string{"a", "b", "c"} {
				put(t, m, name, time.Hour)
			}
			c.use(t, m)
			write(t, m, fresh("d"))
			assert.Equal(t, c.want, kept(t, m))
		})
	}
}

func TestMemory_neverEvictsDocumentsWithoutATimeToLive(t *testing.T) {
	m := musttest.New(document.NewMemory(&document.MemoryOptions{MaxBytes: room(t, 2, "mortal")}))
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprintf("ever%02d", i))
		put(t, m, want[i], 0)
		put(t, m, fmt.Sprintf("mortal%02d", i), time.Hour)
	}
	assert.Equal(t, strings.Join(append(want, "mortal49"), " "), kept(t, m, "mortal48"),
		"they count, and the newest stays")
	write(t, m, document.Touch(one(t, m, "ever00"), time.Hour))
	assert.Equal(t, strings.Join(want, " "), kept(t, m, "mortal49"), "expiring now, and written last")
	put(t, m, "mortal50", time.Hour)
	assert.Equal(t, strings.Join(append(want[1:], "mortal50"), " "), kept(t, m, "ever00"))
}

// A call that changes more documents than fit, or evicts one that it changes later, leaves the last of them.
func TestMemory_evictsWithinOneCall(t *testing.T) {
	type doc = document.Document
	for _, c := range []struct {
		name   string
		goesOn func(a doc) document.Change // after a put of another document
		want   string
	}{
		{"too many", func(doc) document.Change { return fresh("c") }, "c"},
		{"one that it goes on to touch", func(a doc) document.Change { return document.Touch(a, time.Hour) }, "a"},
		{"one that it goes on to make permanent", func(a doc) document.Change { return document.Touch(a, 0) }, "a b"},
		{"one that it goes on to put", func(a doc) document.Change { return document.Put(a, a.Value, 0) }, "a b"},
		{"one that it goes on to delete", document.Delete, "b"},
		{"one that it goes on to check", document.Check, "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := musttest.New(document.NewMemory(&document.MemoryOptions{MaxBytes: 1}))
			a := put(t, m, "a", time.Hour)
			write(t, m, fresh("b"), c.goesOn(a))
			require.Equal(t, c.want, kept(t, m, "a", "b", "c"))
			if now := one(t, m, "a"); now.Exists() {
				require.Equal(t, "a", string(now.Value))
			}
		})
	}
}

func TestMemory_treatsAnEvictedDocumentAsDeleted(t *testing.T) {
	m := musttest.New(document.NewMemory(&document.MemoryOptions{MaxBytes: 1}))
	a := put(t, m, "a", time.Hour)
	put(t, m, "b", time.Hour)
	_, err := m.Write(t.Context(), product, document.Check(a))
	var conflict *document.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Greater(t, put(t, m, "a", time.Hour).Version, a.Version)
}

// Errors are logged, and logs hold no addresses.
func TestConflictError_omitsIDs(t *testing.T) {
	err := &document.ConflictError{Name: "email/ada@example.com/1"}
	require.EqualError(t, err, `document: one of kind "email" was changed concurrently`)
}

func TestMemory_keepsDocumentsForExactlyTheirTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := musttest.New(document.NewMemory(nil))
		put(t, m, "a", time.Hour)
		put(t, m, "b", 2*time.Hour)
		put(t, m, "c", 0)
		time.Sleep(time.Hour - 1)
		m.Expire()
		assert.Equal(t, "a b c", kept(t, m, "a"))
		one(t, m, "a")
		time.Sleep(time.Nanosecond)
		assert.Equal(t, "b c", kept(t, m, "a"), "reading does not extend it")
		m.Expire()
		assert.Equal(t, "b c", kept(t, m, "a"))
		write(t, m, document.Touch(one(t, m, "b"), 2*time.Hour))
		time.Sleep(2*time.Hour - 1)
		assert.Equal(t, "b c", kept(t, m))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, "c", kept(t, m, "b"))
		time.Sleep(1000 * time.Hour)
		m.Expire()
		assert.Equal(t, "c", kept(t, m))
	})
}

func TestMemory_isBounded(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, do := range map[string]func(t *testing.T, m *document.Memory, i int){
		"documents created and expired": func(t *testing.T, m *document.Memory, i int) {
			write(t, m, document.Delete(put(t, m, fmt.Sprint(long, i), 0)))
		},
		"conflicts": func(t *testing.T, m *document.Memory, i int) {
			_, err := m.Write(t.Context(), fmt.Sprint(long, i), document.Check(document.Document{Name: "a", Version: 1}))
			require.Error(t, err)
		},
		"reads of missing documents": func(t *testing.T, m *document.Memory, i int) {
			musttest.New(m.Get(t.Context(), fmt.Sprint(long, i), fmt.Sprint(long, i)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := musttest.New(document.NewMemory(&document.MemoryOptions{MaxBytes: 64 << 10}))
			grown := heaptest.After(func() {
				for i := range 3000 {
					do(t, m, i)
				}
			})
			assert.Less(t, grown, int64(1<<20), "3000 documents of a kilobyte each")
			runtime.KeepAlive(m)
		})
	}
}

// All products together stay within the bound, for writes of any kind.
func TestMemory_staysWithinItsTotalBound(t *testing.T) {
	const total, products, writes = 1 << 20, 10, 6250
	for name, doc := range map[string]func(i int) document.Document{
		"tiny": func(i int) document.Document { return document.Document{Name: fmt.Sprint(i)} },
		"long names": func(i int) document.Document {
			return document.Document{Name: fmt.Sprint(strings.Repeat("n", 900), i)}
		},
		"small values": func(i int) document.Document {
			return document.Document{Name: fmt.Sprint(i), Value: make([]byte, i%200)}
		},
		"mixed": func(i int) document.Document {
			return document.Document{Name: fmt.Sprint(i), Value: make([]byte, i%17*i%4000)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := musttest.New(document.NewMemory(&document.MemoryOptions{TotalBytes: total}))
			grown := heaptest.After(func() {
				for i := range writes {
					d := doc(i)
					_, err := m.Write(t.Context(), fmt.Sprint("product", i*products/writes),
						document.Put(d, d.Value, time.Duration(1+i%7)*time.Hour))
					require.NoError(t, err)
				}
			})
			t.Logf("%.2f of the bound", float64(grown)/total)
			assert.LessOrEqual(t, grown, int64(total*12/10))
			said := int64(0)
			for i := range products {
				said += m.Bytes(fmt.Sprint("product", i))
			}
			assert.LessOrEqual(t, said, int64(total))
			runtime.KeepAlive(m)
		})
	}
}

func TestMemory_expireFreesItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 1000)
		m := musttest.New(document.NewMemory(nil))
		grown := heaptest.After(func() {
			for i := range 5000 {
				put(t, m, fmt.Sprint(long, i), time.Hour)
			}
			time.Sleep(time.Hour)
			m.Expire()
		})
		assert.Less(t, grown, int64(2<<20), "5000 documents of two kilobytes each")
		runtime.KeepAlive(m)
	})
}

func TestNewMemory_reportsEveryMistake(t *testing.T) {
	_, err := document.NewMemory(&document.MemoryOptions{MaxBytes: -1, TotalBytes: -1})
	assert.Equal(t, []string{"document.MaxBytes", "document.TotalBytes"}, musttest.Mistakes(t, err))
}

func TestEach_seesEveryDocumentOfThePrefixInOrder(t *testing.T) {
	store := musttest.New(document.NewMemory(nil))
	var want, got []string
	for i := range 2*256 + 1 {
		want = append(want, fmt.Sprintf("link/%04d", i))
		write(t, store, document.Put(document.Document{Name: want[i]}, nil, 0))
	}
	write(t, store, document.Put(document.Document{Name: "session/1"}, nil, 0))
	see := func(doc document.Document) { got = append(got, doc.Name) }

	require.NoError(t, document.Each(t.Context(), store, product, "link/", see))

	assert.Equal(t, want, got)
	assert.ErrorIs(t, document.Each(t.Context(), lost{store}, product, "link/", see), errLost)
}

var errLost = errors.New("storage is unavailable")

// lost is a store that cannot list.
type lost struct{ document.Store }

func (lost) List(context.Context, string, string, string, int) ([]document.Document, error) {
	return nil, errLost
}

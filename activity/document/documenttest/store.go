package documenttest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// TestStore checks that the stores returned by open fulfil the contract of
// [document.Store]. It calls open for an empty store at the start of each
// subtest; open registers its cleanup with t.Cleanup. Stores may share a
// server as long as none sees another's documents.
func TestStore(t *testing.T, open func(t *testing.T) document.Store) {
	for _, chapter := range []struct {
		name  string
		tests []test
	}{
		{"Get", getTests},
		{"Write", writeTests},
		{"Invalid", invalidTests},
		{"TimeToLive", timeToLiveTests},
		{"List", listTests},
		{"Products", productTests},
		{"Concurrency", concurrencyTests},
		{"Model", modelTests()},
	} {
		t.Run(chapter.name, func(t *testing.T) {
			for _, test := range chapter.tests {
				t.Run(test.name, func(t *testing.T) { test.run(fixture{T: t, store: open(t), product: "acme"}) })
			}
		})
	}
}

// test is one sentence of the contract.
type test struct {
	name string
	run  func(f fixture)
}

// brief is a short time to live.
const brief = 60 * time.Millisecond

// fixture is a store under test. Its methods act on the product.
type fixture struct {
	*testing.T
	store   document.Store
	product string
}

// in returns the fixture for another product.
func (f fixture) in(productID string) fixture {
	f.product = productID
	return f
}

func (f fixture) get(names ...string) []document.Document {
	f.Helper()
	docs, err := f.store.Get(f.Context(), f.product, names...)
	require.NoError(f, err)
	require.Len(f, docs, len(names))
	return docs
}

func (f fixture) one(name string) document.Document {
	f.Helper()
	return f.get(name)[0]
}

// write makes changes that must succeed.
func (f fixture) write(changes ...document.Change) document.Version {
	f.Helper()
	version, err := f.store.Write(f.Context(), f.product, changes...)
	require.NoError(f, err)
	return version
}

// put sets the value of the document regardless of its version, and returns the document.
func (f fixture) put(name, value string, ttl time.Duration) document.Document {
	f.Helper()
	d := document.Document{Name: name, Value: []byte(value)}
	d.Version = f.write(document.Put(f.one(name), d.Value, ttl))
	return d
}

// conflict makes changes that must fail, and returns the name of the
// conflicting document.
func (f fixture) conflict(changes ...document.Change) string {
	f.Helper()
	_, err := f.store.Write(f.Context(), f.product, changes...)
	var conflict *document.ConflictError
	require.ErrorAs(f, err, &conflict)
	require.NotEmpty(f, conflict.Error())
	return conflict.Name
}

func (f fixture) list(prefix, after string, limit int) []document.Document {
	f.Helper()
	docs, err := f.store.List(f.Context(), f.product, prefix, after, limit)
	require.NoError(f, err)
	return docs
}

// all returns every document.
func (f fixture) all() []document.Document {
	f.Helper()
	return f.list("", "", 1<<20)
}

// gone waits until the named document does not exist.
func (f fixture) gone(name string) {
	f.Helper()
	waittest.Until(f, name+" has expired", func() bool { return !f.one(name).Exists() })
}

// outlive waits until documents put earlier with that time to live have
// expired.
func (f fixture) outlive(ttl time.Duration) {
	f.Helper()
	f.put("witness", "", ttl)
	f.gone("witness")
}

// inTime puts the document "a", makes the change while it exists, calls then with the document
// that was put, and waits until the document's first time to live is over.
func (f fixture) inTime(change func(a document.Document) document.Change, then func(a document.Document)) {
	f.Helper()
	for ttl := brief; ttl < waittest.Patience/2; ttl *= 2 {
		a := f.put("a", "1", ttl)
		_, err := f.store.Write(f.Context(), f.product, change(a))
		if err == nil {
			then(a)
			f.outlive(ttl)
			return
		}
		require.True(f, document.IsConflict(err), "%v", err)
	}
	f.Fatal("no time to live is long enough")
}

// item is a document in comparable form.
type item struct {
	Name, Value string
	Version     document.Version
}

func items(docs []document.Document) []item {
	list := make([]item, len(docs))
	for i, d := range docs {
		list[i] = item{d.Name, string(d.Value), d.Version}
	}
	return list
}

func names(docs []document.Document) []string {
	list := make([]string, len(docs))
	for i, d := range docs {
		list[i] = d.Name
	}
	return list
}

// named returns a document that does not exist yet.
func named(name string) document.Document { return document.Document{Name: name} }

// oddNames are names that break naive encoders, in byte order.
var oddNames = []string{
	"\x00", "\x00\x00", "\x00a", "\x01", "\n", " ", "\"", "%s", "'; --", "*", "..", "../a", "/", "//", "0", "?", "A",
	"[a-z]", "\\", "a", "a\x00", "a\x00b", "a ", "a/", "a/b", "a:b", "a\xff", "a\xff\x00", "b*", "ä", "e\u0301", "null",
	"{", "{x}", "{x}y", "{}", "}", "日本", "\xc3", "\xff", "\xff\xff", "\xff\xff\x00",
	strings.Repeat("\xff", document.MaxName),
}

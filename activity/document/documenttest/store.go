package documenttest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
)

// TestStore checks that the stores which open returns keep the contract of
// [document.Store], and that leases work on them. It calls open for an empty
// store at the start of each subtest; what open must undo belongs into
// t.Cleanup. Stores may share a server as long as none sees what another holds.
func TestStore(t *testing.T, open func(t *testing.T) document.Store) {
	for _, chapter := range []struct {
		name  string
		tests []test
	}{
		{"Get", getTests},
		{"Write", writeTests},
		{"Invalid", invalidTests},
		{"Versions", versionTests},
		{"TimeToLive", timeToLiveTests},
		{"List", listTests},
		{"Products", productTests},
		{"Concurrency", concurrencyTests},
		{"Model", modelTests()},
		{"Lease", leaseTests},
		{"WithLease", withLeaseTests},
	} {
		t.Run(chapter.name, func(t *testing.T) {
			for _, test := range chapter.tests {
				t.Run(test.name, func(t *testing.T) { test.run(fixture{T: t, store: open(t)}) })
			}
		})
	}
}

// test is one sentence of the contract.
type test struct {
	name string
	run  func(f fixture)
}

const (
	// product is the one that tests write to where the product does not matter.
	product = "acme"
	// tick is how often it looks.
	tick = 5 * time.Millisecond
	// brief is a time to live that is soon over.
	brief = 60 * time.Millisecond
)

// patience is how long a test waits for what must come.
var patience = 10 * time.Second

// fixture is a store under test. What it does, it does to the product.
type fixture struct {
	*testing.T
	store document.Store
}

func (f fixture) get(names ...string) []document.Document {
	f.Helper()
	docs, err := f.store.Get(f.Context(), product, names...)
	require.NoError(f, err)
	require.Len(f, docs, len(names))
	return docs
}

func (f fixture) one(name string) document.Document {
	f.Helper()
	return f.get(name)[0]
}

// write makes changes, which must work.
func (f fixture) write(changes ...document.Change) document.Version {
	f.Helper()
	version, err := f.store.Write(f.Context(), product, changes...)
	require.NoError(f, err)
	return version
}

// put gives the document a value, whatever it was, and returns it.
func (f fixture) put(name, value string, ttl time.Duration) document.Document {
	f.Helper()
	d := document.Document{Name: name, Value: []byte(value)}
	d.Version = f.write(document.Put(f.one(name), d.Value, ttl))
	return d
}

// conflict makes changes, which must not work, and returns the name of the
// document that was in the way.
func (f fixture) conflict(changes ...document.Change) string {
	f.Helper()
	_, err := f.store.Write(f.Context(), product, changes...)
	var conflict *document.ConflictError
	require.ErrorAs(f, err, &conflict)
	require.NotEmpty(f, conflict.Error())
	return conflict.Name
}

func (f fixture) list(prefix, after string, limit int) []document.Document {
	f.Helper()
	docs, err := f.store.List(f.Context(), product, prefix, after, limit)
	require.NoError(f, err)
	return docs
}

// all returns every document.
func (f fixture) all() []document.Document {
	f.Helper()
	return f.list("", "", 1<<20)
}

// gone waits until there is no document of that name.
func (f fixture) gone(name string) {
	f.Helper()
	require.Eventually(f, func() bool { return !f.one(name).Exists() }, patience, tick)
}

// outlive waits until documents put before, with that time to live, are over.
func (f fixture) outlive(ttl time.Duration) {
	f.Helper()
	f.put("witness", "", ttl)
	f.gone("witness")
}

// inTime calls do with longer and longer times to live until one was long
// enough for what do does, which it says.
func (f fixture) inTime(do func(ttl time.Duration) bool) {
	f.Helper()
	for ttl := brief; ttl < patience/2; ttl *= 2 {
		if do(ttl) {
			return
		}
	}
	f.Fatal("no time to live is long enough")
}

// within fails the test when what must not wait takes too long.
func (f fixture) within(what string, do func()) {
	f.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		f.Fatalf("%s has not returned after %s", what, patience)
	}
}

// item is a document as it is compared.
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

// requireNone fails the test unless there is no document of that name.
func (f fixture) requireNone(name string) {
	f.Helper()
	require.Equal(f, []item{{Name: name}}, items(f.get(name)))
	require.NotContains(f, names(f.all()), name)
}

// isConflict reports whether somebody else was faster.
func isConflict(err error) bool {
	var conflict *document.ConflictError
	return errors.As(err, &conflict)
}

// named is a document that does not exist yet.
func named(name string) document.Document { return document.Document{Name: name} }

// oddNames break naive encoders, in byte order.
var oddNames = []string{
	"\x00", "\x00\x00", "\x00a", "\x01", "\n", " ", "\"", "%s", "'; --", "*", "..", "../a", "/", "//", "0", "?", "A",
	"[a-z]", "\\", "a", "a\x00", "a\x00b", "a ", "a/", "a/b", "a:b", "a\xff", "a\xff\x00", "b*", "ä", "e\u0301", "null",
	"{", "{x}", "{x}y", "{}", "}", "日本", "\xc3", "\xff", "\xff\xff", "\xff\xff\x00", strings.Repeat("\xff", document.MaxName),
}

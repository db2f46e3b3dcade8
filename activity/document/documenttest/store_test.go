package documenttest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/document/documenttest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/suitetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestMemory_conforms(t *testing.T) {
	mistake, wrong := mistakes[suitetest.Mistake()]
	if wrong {
		waittest.Patience = time.Second
	}
	documenttest.TestStore(t, func(*testing.T) document.Store {
		store := document.Store(musttest.New(document.NewMemory(nil)))
		if wrong {
			same := func(s string) string { return s }
			b := broken{Store: store, product: same, get: store.Get, write: store.Write, after: same}
			mistake.build(&b, store)
			store = b
		}
		return store
	})
}

// TestStore_failsABrokenEngine runs a chapter of the suite against an engine with
// one mistake, in a separate process, and requires that the mistake is found.
func TestStore_failsABrokenEngine(t *testing.T) {
	found := map[string]string{}
	for name, m := range mistakes {
		found[name] = m.found
	}
	suitetest.FindsEach(t, "TestMemory_conforms", found)
}

// mistake is one way to get an engine wrong, and the chapter that finds it.
type mistake struct {
	found string
	build func(b *broken, s document.Store) // over an engine that is right
}

// broken is an engine some of whose functions are wrong.
type broken struct {
	document.Store
	product func(string) string
	get     func(ctx context.Context, productID string, names ...string) ([]document.Document, error)
	write   func(ctx context.Context, productID string, changes ...document.Change) (document.Version, error)
	after   func(string) string // of List
}

func (b broken) Get(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
	return b.get(ctx, b.product(productID), names...)
}

func (b broken) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	return b.write(ctx, b.product(productID), changes...)
}

func (b broken) List(ctx context.Context, productID, prefix, after string, limit int) ([]document.Document, error) {
	return b.Store.List(ctx, b.product(productID), prefix, b.after(after), limit)
}

// onChange alters each change, and leaves out those for which it returns false.
func onChange(change func(*document.Change) bool) func(b *broken, s document.Store) {
	return func(b *broken, s document.Store) {
		b.write = func(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
			var made []document.Change
			for _, c := range changes {
				if change(&c) {
					made = append(made, c)
				}
			}
			return s.Write(ctx, productID, made...)
		}
	}
}

var mistakes = map[string]mistake{
	"empty values are missing": {found: "Get", build: func(b *broken, s document.Store) {
		b.get = func(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
			docs, err := s.Get(ctx, productID, names...)
			for i, d := range docs {
				if len(d.Value) == 0 {
					docs[i].Version = 0
				}
			}
			return docs, err
		}
	}},
	"checks ignored": {found: "Write", build: onChange(func(c *document.Change) bool { return c.Op != document.OpCheck })},
	"invalid changes left out": {found: "Invalid", build: onChange(func(c *document.Change) bool {
		return document.Validate([]document.Change{*c}) == nil
	})},
	"versions of single changes": {found: "Write", build: func(b *broken, s document.Store) {
		b.write = func(ctx context.Context, productID string, changes ...document.Change) (v document.Version, err error) {
			for _, c := range changes {
				if v, err = s.Write(ctx, productID, c); err != nil {
					return 0, err
				}
			}
			return v, nil
		}
	}},
	"touch extends nothing": {found: "TimeToLive/is_extended", build: onChange(func(c *document.Change) bool {
		if c.Op == document.OpTouch {
			c.Op = document.OpCheck
		}
		return true
	})},
	"after included": {found: "List/begins", build: func(b *broken, _ document.Store) {
		b.after = func(after string) string { return after[:max(0, len(after)-1)] }
	}},
	"products folded": {found: "Products", build: func(b *broken, _ document.Store) { b.product = strings.ToUpper }},
	"reads one by one": {found: "Concurrency/never", build: func(b *broken, s document.Store) {
		b.get = func(ctx context.Context, productID string, names ...string) (docs []document.Document, _ error) {
			for _, name := range names {
				got, err := s.Get(ctx, productID, name)
				if err != nil {
					return nil, err
				}
				docs = append(docs, got...)
				time.Sleep(time.Millisecond) // lets another call run
			}
			return docs, nil
		}
	}},
	"wrong at times": {found: "Model", build: onChange(func(c *document.Change) bool {
		return c.Op != document.OpDelete || c.Name != "b\x00"
	})},
}

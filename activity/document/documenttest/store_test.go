package documenttest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/document/documenttest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/suitetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestMemory_conforms(t *testing.T) {
	mistake, broken := mistakes[suitetest.Mistake()]
	if broken {
		waittest.Patience = time.Second
	}
	documenttest.TestStore(t, func(*testing.T) document.Store {
		store := document.Store(musttest.New(document.NewMemory(nil)))
		if mistake.wrap != nil {
			store = mistake.wrap(store)
		}
		return store
	})
}

// TestStore_failsABrokenEngine runs the suite against engines with one mistake
// each, in a separate process, and requires that the mistake is found.
func TestStore_failsABrokenEngine(t *testing.T) {
	found := map[string]string{}
	for name, m := range mistakes {
		found[name] = m.found
	}
	suitetest.FindsEach(t, "TestMemory_conforms", found)
}

// mistake is one way to get an engine wrong, and the subtest that finds it.
type mistake struct {
	found string
	wrap  func(s document.Store) document.Store
}

var mistakes = map[string]mistake{
	"order of names ignored": {found: "Get", wrap: onGet(func(docs []document.Document) []document.Document {
		slices.SortFunc(docs, func(a, b document.Document) int { return strings.Compare(a.Name, b.Name) })
		return docs
	})},
	"missing ones left out": {found: "Get", wrap: onGet(func(docs []document.Document) []document.Document {
		return slices.DeleteFunc(docs, func(d document.Document) bool { return !d.Exists() })
	})},
	"same name once": {found: "Get", wrap: onGet(func(docs []document.Document) []document.Document {
		return slices.CompactFunc(docs, func(a, b document.Document) bool { return a.Name == b.Name })
	})},
	"empty values are missing": {found: "Get", wrap: onGet(func(docs []document.Document) []document.Document {
		for i, d := range docs {
			if len(d.Value) == 0 {
				docs[i].Version = 0
			}
		}
		return docs
	})},
	"names as text": {found: "Get", wrap: onChange(func(c *document.Change) bool {
		c.Name = strings.ToValidUTF8(c.Name, "\ufffd")
		return true
	})},
	"values as text": {found: "Get", wrap: onChange(func(c *document.Change) bool {
		c.Value = []byte(strings.ToValidUTF8(string(c.Value), "\ufffd"))
		return true
	})},
	"values shared":   {found: "Get", wrap: func(s document.Store) document.Store { return &sharing{Store: s} }},
	"values kept":     {found: "Write", wrap: func(s document.Store) document.Store { return &sharing{Store: s, keep: true} }},
	"checks ignored":  {found: "Write", wrap: onChange(func(c *document.Change) bool { return c.Op != document.OpCheck })},
	"deletes ignored": {found: "Write", wrap: onChange(func(c *document.Change) bool { return c.Op != document.OpDelete })},
	"versions ignored": {found: "Write", wrap: func(s document.Store) document.Store {
		return forcing{s}
	}},
	"half a write":             {found: "Write", wrap: func(s document.Store) document.Store { return oneByOne{Store: s, writes: true} }},
	"conflict of another name": {found: "Write", wrap: func(s document.Store) document.Store { return misnaming{s} }},
	"touch puts": {found: "Write", wrap: onChange(func(c *document.Change) bool {
		if c.Op == document.OpTouch {
			c.Op = document.OpPut
		}
		return true
	})},
	"invalid changes left out": {found: "Invalid", wrap: onChange(func(c *document.Change) bool {
		return document.Validate([]document.Change{*c}) == nil
	})},
	"versions per document": {found: "Versions", wrap: func(s document.Store) document.Store {
		return &counting{Store: s, versions: map[string]counted{}}
	}},
	"never expires":    {found: "TimeToLive/ends_a", wrap: onTTL(func(time.Duration) time.Duration { return 0 })},
	"expires too soon": {found: "TimeToLive/ends_a", wrap: onTTL(func(ttl time.Duration) time.Duration { return ttl / 10 })},
	"whole milliseconds": {found: "TimeToLive/may_be", wrap: onTTL(func(ttl time.Duration) time.Duration {
		return ttl.Truncate(time.Millisecond)
	})},
	"touch extends nothing": {found: "TimeToLive/is_extended", wrap: onChange(func(c *document.Change) bool {
		if c.Op == document.OpTouch {
			c.Op = document.OpCheck
		}
		return true
	})},
	"creation where one was is a conflict": {found: "TimeToLive/that_is_over_means", wrap: func(s document.Store) document.Store {
		return &unforgetting{Store: s, once: map[string]bool{}}
	}},
	"list backwards":   {found: "List/returns_the", wrap: onList(func(l *listing) {}, func(docs []document.Document) { slices.Reverse(docs) })},
	"prefix ignored":   {found: "List", wrap: onList(func(l *listing) { l.prefix = "" }, nil)},
	"prefix is a path": {found: "List", wrap: onList(func(l *listing) { l.prefix = strings.TrimSuffix(l.prefix, "/") + "/" }, nil)},
	"after ignored":    {found: "List/begins", wrap: onList(func(l *listing) { l.after = "" }, nil)},
	"after included":   {found: "List/begins", wrap: onList(func(l *listing) { l.after = l.after[:max(0, len(l.after)-1)] }, nil)},
	"limit ignored":    {found: "List", wrap: onList(func(l *listing) { l.limit = 1 << 20 }, nil)},
	"limited":          {found: "List", wrap: onList(func(l *listing) { l.limit = min(l.limit, 1000) }, nil)},
	"products mixed":   {found: "Products", wrap: onProduct(func(string) string { return "any" })},
	"products as text": {found: "Products", wrap: onProduct(func(id string) string { return strings.ToValidUTF8(id, "ä") })},
	"products folded":  {found: "Products", wrap: onProduct(strings.ToUpper)},
	"one by one":       {found: "Concurrency/never", wrap: func(s document.Store) document.Store { return oneByOne{Store: s} }},
	"unsynchronised":   {found: "Concurrency", wrap: func(s document.Store) document.Store { return &lossy{Store: s} }},
	"wrong at times": {found: "Model", wrap: onChange(func(c *document.Change) bool {
		return c.Op != document.OpDelete || c.Name != "b\x00"
	})},
}

// listing holds the arguments of List.
type listing struct {
	prefix, after string
	limit         int
}

// broken is a store that alters what goes in and what comes out.
type broken struct {
	document.Store
	product func(string) string
	got     func([]document.Document) []document.Document
	change  func(*document.Change) bool // reports whether to make it
	list    func(*listing)
	listed  func([]document.Document)
}

func onGet(got func([]document.Document) []document.Document) func(document.Store) document.Store {
	return func(s document.Store) document.Store { return broken{Store: s, got: got} }
}

func onChange(change func(*document.Change) bool) func(document.Store) document.Store {
	return func(s document.Store) document.Store { return broken{Store: s, change: change} }
}

func onTTL(ttl func(time.Duration) time.Duration) func(document.Store) document.Store {
	return onChange(func(c *document.Change) bool {
		c.TTL = ttl(c.TTL)
		return true
	})
}

func onList(list func(*listing), listed func([]document.Document)) func(document.Store) document.Store {
	return func(s document.Store) document.Store { return broken{Store: s, list: list, listed: listed} }
}

func onProduct(product func(string) string) func(document.Store) document.Store {
	return func(s document.Store) document.Store { return broken{Store: s, product: product} }
}

func (s broken) in(productID string) string {
	if s.product == nil {
		return productID
	}
	return s.product(productID)
}

func (s broken) Get(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
	docs, err := s.Store.Get(ctx, s.in(productID), names...)
	if s.got != nil {
		docs = s.got(docs)
	}
	return docs, err
}

func (s broken) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	if s.change != nil {
		var made []document.Change
		for _, c := range changes {
			if s.change(&c) {
				made = append(made, c)
			}
		}
		changes = made
	}
	return s.Store.Write(ctx, s.in(productID), changes...)
}

func (s broken) List(ctx context.Context, productID, prefix, after string, limit int) ([]document.Document, error) {
	l := listing{prefix, after, limit}
	if s.list != nil {
		s.list(&l)
	}
	docs, err := s.Store.List(ctx, s.in(productID), l.prefix, l.after, l.limit)
	if s.listed != nil {
		s.listed(docs)
	}
	return docs, err
}

// sharing returns the same slice to all callers, or even the writer's.
type sharing struct {
	document.Store
	keep   bool
	values map[document.Version][]byte
}

func (s *sharing) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	version, err := s.Store.Write(ctx, productID, changes...)
	if s.keep && len(changes) > 0 {
		s.values = map[document.Version][]byte{version: changes[0].Value}
	}
	return version, err
}

func (s *sharing) Get(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
	docs, err := s.Store.Get(ctx, productID, names...)
	for i, d := range docs {
		if shared, ok := s.values[d.Version]; ok {
			docs[i].Value = shared
		} else if !s.keep {
			s.values = map[document.Version][]byte{d.Version: d.Value}
		}
	}
	return docs, err
}

// forcing makes changes regardless of versions.
type forcing struct{ document.Store }

func (s forcing) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	changes = slices.Clone(changes)
	for {
		version, err := s.Store.Write(ctx, productID, changes...)
		var conflict *document.ConflictError
		if !errors.As(err, &conflict) {
			return version, err
		}
		docs, _ := s.Store.Get(ctx, productID, conflict.Name)
		for i := range changes {
			if changes[i].Name == conflict.Name {
				changes[i].Prev = docs[0].Version
			}
		}
	}
}

// oneByOne reads or writes documents one after another.
type oneByOne struct {
	document.Store
	writes bool
}

func (s oneByOne) Get(ctx context.Context, productID string, names ...string) (docs []document.Document, _ error) {
	for _, name := range names {
		got, err := s.Store.Get(ctx, productID, name)
		if err != nil {
			return nil, err
		}
		docs = append(docs, got...)
		for range 100 {
			runtime.Gosched() // lets another call run
		}
	}
	return docs, nil
}

func (s oneByOne) Write(ctx context.Context, productID string, changes ...document.Change) (version document.Version, err error) {
	if !s.writes {
		return s.Store.Write(ctx, productID, changes...)
	}
	for _, c := range changes {
		if version, err = s.Store.Write(ctx, productID, c); err != nil {
			return 0, err
		}
	}
	return version, nil
}

// misnaming blames the first document for every conflict.
type misnaming struct{ document.Store }

func (s misnaming) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	version, err := s.Store.Write(ctx, productID, changes...)
	var conflict *document.ConflictError
	if errors.As(err, &conflict) {
		conflict.Name = changes[0].Name
	}
	return version, err
}

// counting assigns versions per document, starting at one.
type counting struct {
	document.Store
	versions map[string]counted
}

type counted struct{ given, real document.Version }

func (s *counting) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	changes = slices.Clone(changes)
	for i, c := range changes {
		if c.Prev == s.versions[c.Name].given {
			changes[i].Prev = s.versions[c.Name].real
		}
	}
	version, err := s.Store.Write(ctx, productID, changes...)
	if err != nil {
		return 0, err
	}
	var given document.Version
	for _, c := range changes {
		switch c.Op {
		case document.OpPut:
			given = s.versions[c.Name].given + 1
			s.versions[c.Name] = counted{given, version}
		case document.OpDelete:
			delete(s.versions, c.Name)
		}
	}
	return given, nil
}

func (s *counting) Get(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
	docs, err := s.Store.Get(ctx, productID, names...)
	for i, d := range docs {
		if d.Exists() {
			docs[i].Version = s.versions[d.Name].given
		}
	}
	return docs, err
}

// unforgetting treats an expired document as existing when it is created.
type unforgetting struct {
	document.Store
	once map[string]bool
}

func (s *unforgetting) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	for _, c := range changes {
		if c.Prev == 0 && s.once[c.Name] {
			return 0, &document.ConflictError{Name: c.Name}
		}
	}
	version, err := s.Store.Write(ctx, productID, changes...)
	for _, c := range changes {
		if err == nil && c.Name != "witness" {
			s.once[c.Name] = c.Op == document.OpPut
		}
	}
	return version, err
}

// lossy loses a change when two calls overlap.
type lossy struct {
	document.Store
	busy sync.Mutex
}

func (s *lossy) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	if !s.busy.TryLock() {
		return 1, nil
	}
	defer s.busy.Unlock()
	for range 100 {
		runtime.Gosched() // lets another call run
	}
	return s.Store.Write(ctx, productID, changes...)
}

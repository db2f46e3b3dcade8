package document

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/google/btree"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// DefaultMaxDocuments is how many documents with a time to live a [Memory] keeps.
const DefaultMaxDocuments = 400_000

// Memory is the [Store] that keeps everything in RAM. Beyond a number of
// documents with a time to live the least recently used go first; those without
// are kept whatever happens.
type Memory struct {
	mu       sync.Mutex
	products map[string]*memoryProduct
	mortals  *simplelru.LRU[memoryKey, *memoryDocument]
}

type memoryKey struct{ product, name string }

// memoryProduct holds a product's documents in order of their names.
type memoryProduct struct {
	version Version
	byName  *btree.BTreeG[*memoryDocument]
}

type memoryDocument struct {
	Document
	until time.Time // zero for ever
}

func (d *memoryDocument) dead(now time.Time) bool { return !d.until.IsZero() && !now.Before(d.until) }

// btreeDegree makes nodes of a few cache lines.
const btreeDegree = 16

// NewMemory returns an empty store of at most maxDocuments documents with a
// time to live (DefaultMaxDocuments for zero).
func NewMemory(maxDocuments int) *Memory {
	if maxDocuments <= 0 {
		maxDocuments = DefaultMaxDocuments
	}
	m := &Memory{products: map[string]*memoryProduct{}}
	// NewLRU fails only for a size below one.
	m.mortals, _ = simplelru.NewLRU(maxDocuments, func(key memoryKey, d *memoryDocument) {
		m.products[key.product].byName.Delete(d)
	})
	return m
}

func (m *Memory) product(id string) *memoryProduct {
	p, ok := m.products[id]
	if !ok {
		p = &memoryProduct{byName: btree.NewG(btreeDegree, func(a, b *memoryDocument) bool { return a.Name < b.Name })}
		m.products[id] = p
	}
	return p
}

// Get implements [Store]. It never fails.
func (m *Memory) Get(_ context.Context, productID string, names ...string) ([]Document, error) {
	docs := make([]Document, len(names))
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, name := range names {
		docs[i].Name = name
		if d := m.find(productID, name, now); d != nil {
			m.mortals.Get(memoryKey{productID, name}) // it is in use
			docs[i] = d.copied()
		}
	}
	return docs, nil
}

func (d *memoryDocument) copied() Document {
	c := d.Document
	c.Value = bytes.Clone(c.Value)
	return c
}

// find returns the document, or nil where there is none.
func (m *Memory) find(productID, name string, now time.Time) *memoryDocument {
	p, ok := m.products[productID]
	if !ok {
		return nil
	}
	d, ok := p.byName.Get(&memoryDocument{Document: Document{Name: name}})
	if !ok || d.dead(now) {
		return nil
	}
	return d
}

// Write implements [Store]. It fails for conflicts and invalid changes only.
func (m *Memory) Write(_ context.Context, productID string, changes ...Change) (Version, error) {
	if err := Validate(changes); err != nil {
		return 0, err
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make([]*memoryDocument, len(changes))
	for i, c := range changes {
		var current Version
		if found[i] = m.find(productID, c.Name, now); found[i] != nil {
			current = found[i].Version
		}
		if current != c.Prev {
			return 0, &ConflictError{Name: c.Name}
		}
	}
	p := m.product(productID)
	p.version++
	for i, c := range changes {
		m.apply(productID, p, c, found[i], now)
	}
	return p.version, nil
}

// apply makes a change to a document as it was before the call: the changes
// before may have pushed it out.
func (m *Memory) apply(productID string, p *memoryProduct, c Change, was *memoryDocument, now time.Time) {
	if c.Op == OpCheck {
		return
	}
	key := memoryKey{productID, c.Name}
	d := &memoryDocument{Document: Document{Name: c.Name, Value: bytes.Clone(c.Value), Version: p.version}}
	if c.Op == OpTouch {
		d = was
	}
	m.mortals.Remove(key) // from the tree, too
	if c.Op == OpDelete {
		p.byName.Delete(d)
		return
	}
	p.byName.ReplaceOrInsert(d)
	d.until = time.Time{}
	if c.TTL > 0 {
		d.until = now.Add(c.TTL)
		m.mortals.Add(key, d)
	}
}

// List implements [Store]. It never fails.
func (m *Memory) List(_ context.Context, productID, prefix, after string, limit int) ([]Document, error) {
	docs := []Document{}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.products[productID]
	if !ok || limit <= 0 {
		return docs, nil
	}
	from := &memoryDocument{Document: Document{Name: max(prefix, after)}}
	p.byName.AscendGreaterOrEqual(from, func(d *memoryDocument) bool {
		if len(d.Name) < len(prefix) || d.Name[:len(prefix)] != prefix {
			return false
		}
		if d.Name != after && !d.dead(now) {
			docs = append(docs, d.copied())
		}
		return len(docs) < limit
	})
	return docs, nil
}

// expireStep is how many documents Expire looks at under one lock.
const expireStep = 1000

// Expire frees the documents whose time is over, which are never returned in
// any case. Call it now and then. It locks the store for short steps only.
func (m *Memory) Expire() {
	m.mu.Lock()
	keys := m.mortals.Keys()
	m.mu.Unlock()
	for len(keys) > 0 {
		step := keys[:min(expireStep, len(keys))]
		keys = keys[len(step):]
		now := time.Now()
		m.mu.Lock()
		for _, key := range step {
			if d, ok := m.mortals.Peek(key); ok && d.dead(now) {
				m.mortals.Remove(key)
			}
		}
		m.mu.Unlock()
	}
}

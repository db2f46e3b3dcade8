package document

import (
	"cmp"
	"context"
	"math"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/google/btree"

	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
)

// DefaultMaxBytes bounds the bytes of a product's documents in a [Memory].
const DefaultMaxBytes = 256 << 20

// MemoryOptions are the bounds of a [Memory]. A zero field means its default.
type MemoryOptions struct {
	MaxBytes   int64 // of a product's documents; DefaultMaxBytes
	TotalBytes int64 // of all products' documents; a tenth of the memory the process may use
}

// Memory is the in-memory [Store]. It is bounded in bytes per product and in all, counting each
// document with its name and index overhead. Beyond a product's bound it evicts the document
// written first (reads do not renew), documents that yield before the others; beyond the total
// it evicts from the product that uses most. Documents without a time to live count but are
// never evicted.
type Memory struct {
	epoch time.Time // times are counted from here

	// mu guards everything but epoch. A document is in docs and in its product's names, or in
	// neither. dropped outlives the product's documents.
	mu      sync.Mutex
	version Version // the last one assigned, to any product
	docs    *fair.Cache[string, *memoryDocument]
	byName  map[string]*names  // only products that have documents
	dropped map[string]Version // generations of products up to here are over
}

// names are a product's documents in order of their names.
type names = btree.BTreeG[*memoryDocument]

// memoryDocument is a document in memory. Its name is constant; the rest changes under the lock
// of its Memory.
type memoryDocument struct {
	name, value string
	version     Version
	until       int64 // nanoseconds since the epoch; zero means no expiry
	yields      bool
}

// dead reports whether the document has expired at a time since the epoch. It may still be in
// memory.
func (d *memoryDocument) dead(now int64) bool { return d.until != 0 && d.until <= now }

const (
	// btreeDegree makes nodes of a few cache lines.
	btreeDegree = 16
	// btreeShare is a document's share of a half-full node, in bytes.
	btreeShare = 40
)

// item returns the document's cost.
func (d *memoryDocument) item() fair.Item {
	return fair.Item{
		Bytes:  fair.Size(unsafe.Sizeof(*d)) + fair.Size(len(d.name)) + fair.Size(len(d.value)) + btreeShare,
		Due:    d.until,
		Pinned: d.until == 0,
		Last:   !d.yields,
	}
}

// NewMemory returns an empty store; opts may be nil. Its error joins all invalid
// options.
func NewMemory(opts *MemoryOptions) (*Memory, error) {
	o := *cmp.Or(opts, &MemoryOptions{})
	wrong := options.Mistakes{Package: "document"}
	o.MaxBytes = options.Default(&wrong, "MaxBytes", o.MaxBytes, DefaultMaxBytes)
	o.TotalBytes = options.Default(&wrong, "TotalBytes", o.TotalBytes, memlimit.Documents())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	m := &Memory{epoch: time.Now(), byName: map[string]*names{}, dropped: map[string]Version{}}
	m.docs = fair.New(&fair.Options{MaxBytes: o.MaxBytes, TotalBytes: o.TotalBytes},
		func(e *fair.Entry[string, *memoryDocument]) { m.unlist(e.Product(), e.Value) })
	return m, nil
}

// now is the time since the epoch in nanoseconds, above zero. It uses the monotonic clock, so
// setting the clock does not change when documents expire.
func (m *Memory) now() int64 { return int64(time.Since(m.epoch)) + 1 }

// Get implements [Store]. It never fails.
func (m *Memory) Get(_ context.Context, productID string, names ...string) ([]Document, error) {
	docs := make([]Document, len(names))
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for i, name := range names {
		docs[i].Name = name
		if d, ok := m.docs.Get(productID, name); ok && !d.dead(now) {
			docs[i] = d.document()
		}
	}
	return docs, nil
}

// document returns a copy, whose value the caller owns.
func (d *memoryDocument) document() Document {
	return Document{Name: d.name, Value: []byte(d.value), Version: d.version}
}

// Write implements [Store]. It fails only for conflicts, invalid changes and ErrDropped, even if
// ctx has ended. Versions are assigned over all products.
func (m *Memory) Write(ctx context.Context, productID string, changes ...Change) (Version, error) {
	if err := Validate(changes); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if Ended(Generation(ctx, productID), m.dropped[productID]) {
		return 0, ErrDropped
	}
	now := m.now()
	docs := make([]*memoryDocument, len(changes)) // nil for a document that does not exist
	for i, c := range changes {
		var current Version
		if d, ok := m.docs.Get(productID, c.Name); ok {
			if docs[i] = d; !d.dead(now) {
				current = d.version
			}
		}
		if current != c.Prev {
			return 0, &ConflictError{Name: c.Name}
		}
	}
	m.version++
	for i, c := range changes {
		m.apply(productID, docs[i], c, now)
	}
	m.docs.Trim(productID)
	return m.version, nil
}

// apply applies a change whose version has been checked to its document, nil if
// that does not exist. The document may have expired.
func (m *Memory) apply(productID string, d *memoryDocument, c Change, now int64) {
	if c.Op == OpCheck {
		return
	}
	if c.Op == OpDelete {
		m.remove(productID, d)
		return
	}
	if d == nil {
		d = &memoryDocument{name: c.Name}
		m.list(productID, d)
	}
	if c.Op == OpPut {
		d.value, d.version = string(c.Value), m.version
	}
	d.until, d.yields = 0, c.Yields
	if c.TTL > 0 {
		d.until = now + min(int64(c.TTL), math.MaxInt64-now)
	}
	m.docs.Put(productID, d.name, d, d.item())
}

func (m *Memory) remove(productID string, d *memoryDocument) {
	m.docs.Remove(productID, d.name)
	m.unlist(productID, d)
}

// list adds a document to the ordered names.
func (m *Memory) list(productID string, d *memoryDocument) {
	listed, ok := m.byName[productID]
	if !ok {
		listed = btree.NewG(btreeDegree, func(a, b *memoryDocument) bool { return a.name < b.name })
		m.byName[strings.Clone(productID)] = listed
	}
	listed.ReplaceOrInsert(d)
}

// unlist removes a document that is gone from the ordered names.
func (m *Memory) unlist(productID string, d *memoryDocument) {
	listed := m.byName[productID]
	if listed.Delete(d); listed.Len() == 0 {
		delete(m.byName, productID)
	}
}

// Bytes returns the cost of a product's documents, in bytes of memory. Expired ones count until
// they are freed.
func (m *Memory) Bytes(productID string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.docs.Bytes(productID)
}

// Drop ends the generations of a product up to through and removes all its documents,
// including the ones without a time to live; zero ends none. If that generation has
// already ended, Drop does nothing and returns false. Versions assigned later are still
// greater than any before.
func (m *Memory) Drop(productID string, through Version) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if Ended(through, m.dropped[productID]) {
		return false
	}
	if through != 0 {
		m.dropped[strings.Clone(productID)] = through
	}
	m.docs.Drop(productID)
	delete(m.byName, productID)
	return true
}

// Dropped returns the last generation of a product that is over; zero for none.
func (m *Memory) Dropped(productID string) Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped[productID]
}

// List implements [Store]. It never fails.
func (m *Memory) List(_ context.Context, productID, prefix, after string, limit int) ([]Document, error) {
	docs := []Document{}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	listed, ok := m.byName[productID]
	if !ok || limit <= 0 {
		return docs, nil
	}
	from := &memoryDocument{name: max(prefix, after)}
	listed.AscendGreaterOrEqual(from, func(d *memoryDocument) bool {
		if !strings.HasPrefix(d.name, prefix) {
			return false
		}
		if d.name != after && !d.dead(now) {
			docs = append(docs, d.document())
		}
		return len(docs) < limit
	})
	return docs, nil
}

// Expire frees expired documents, which are never returned in any case. Call
// it periodically. It locks the store for short steps only.
func (m *Memory) Expire() {
	fair.Sweep(&m.mu, func() bool {
		due := m.docs.Due(m.now())
		if due != nil {
			m.remove(due.Product(), due.Value)
		}
		return due != nil
	})
}

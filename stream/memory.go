package stream

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// MemoryLog is the [Log] that keeps everything in RAM. After a restart it is
// empty, and resuming readers get a gap.
type MemoryLog struct {
	retention Retention
	born      ID

	mu       sync.Mutex
	products map[string]*memoryProduct
	closed   bool
}

// memoryProduct is the log of one product.
type memoryProduct struct {
	mu      sync.Mutex
	entries []Entry // in order; the retained ones start at head
	head    int
	bytes   int64 // what the retained entries cost
	dropped int64 // entries dropped for their size before their time
	keys    map[activity.Key]struct{}
	floor   ID
	newest  ID
	closed  bool
	changed chan struct{} // nil while nobody waits
}

// NewMemoryLog returns an empty log.
func NewMemoryLog(r Retention) *MemoryLog {
	if r.TTL <= 0 {
		r.TTL = DefaultTTL
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = DefaultMaxBytes
	}
	return &MemoryLog{retention: r, born: ID{}.Next(time.Now()), products: map[string]*memoryProduct{}}
}

func (l *MemoryLog) product(id string) *memoryProduct {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.products[id]
	if !ok {
		p = &memoryProduct{keys: map[activity.Key]struct{}{}, floor: l.born, newest: l.born, closed: l.closed}
		l.products[id] = p
	}
	return p
}

// Append implements [Log].
func (l *MemoryLog) Append(_ context.Context, productID string, entries []Entry) error {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if len(entries) == 0 {
		return nil
	}
	now := time.Now()
	p.expire(IDAt(now.Add(-l.retention.TTL)))
	if err := p.claim(entries); err != nil {
		return err
	}
	for i := range entries {
		p.newest = p.newest.Next(now)
		entries[i].Encode(p.newest)
		kept := entries[i]
		kept.Keys = slices.Clone(kept.Keys)
		p.entries = append(p.entries, kept)
		p.bytes += kept.cost()
	}
	for p.bytes > l.retention.MaxBytes && p.head < len(p.entries)-1 {
		p.dropped++
		p.drop(1)
	}
	p.notify()
	return nil
}

// entryOverhead is what an entry costs beyond its event and keys, in bytes.
const entryOverhead = 128

func (e *Entry) cost() int64 {
	return int64(entryOverhead + cap(e.frame) + len(e.SessionID) + 48*len(e.Keys))
}

// claim marks the entries' keys as seen, or none of them.
func (p *memoryProduct) claim(entries []Entry) error {
	var claimed, seen []activity.Key
	for _, e := range entries {
		for _, key := range e.Keys {
			if _, ok := p.keys[key]; ok {
				seen = append(seen, key)
				continue
			}
			p.keys[key] = struct{}{}
			claimed = append(claimed, key)
		}
	}
	if seen == nil {
		return nil
	}
	for _, key := range claimed {
		delete(p.keys, key)
	}
	return &DuplicateError{Keys: seen}
}

// expire drops the entries up to id.
func (p *memoryProduct) expire(id ID) {
	if p.head < len(p.entries) && p.entries[p.head].ID.Compare(id) <= 0 {
		p.drop(p.after(id) - p.head)
	}
}

// after returns the position of the first entry after id. Most readers are
// near the end, so the search starts there.
func (p *memoryProduct) after(id ID) int {
	lo, hi := p.head, len(p.entries)
	for step := 1; hi-step > lo; step *= 2 {
		if p.entries[hi-step].ID.Compare(id) <= 0 {
			lo = hi - step
			break
		}
		hi -= step
	}
	return lo + sort.Search(hi-lo, func(i int) bool { return p.entries[lo+i].ID.Compare(id) > 0 })
}

// drop forgets the n oldest entries.
func (p *memoryProduct) drop(n int) {
	for range n {
		e := &p.entries[p.head]
		for _, key := range e.Keys {
			delete(p.keys, key)
		}
		p.bytes -= e.cost()
		p.floor = e.ID
		*e = Entry{}
		p.head++
	}
	if p.head > len(p.entries)/2 {
		p.entries = slices.Delete(p.entries, 0, p.head)
		p.head = 0
	}
}

// notify wakes who waits for a change.
func (p *memoryProduct) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// Read implements [Log].
func (l *MemoryLog) Read(_ context.Context, productID string, after ID, dst []Entry) (int, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(IDAt(time.Now().Add(-l.retention.TTL)))
	if after.Compare(p.floor) < 0 {
		return 0, &GapError{Floor: p.floor, Oldest: p.oldest()}
	}
	rest := p.entries[p.after(after):]
	if len(rest) == 0 && p.closed {
		return 0, ErrClosed
	}
	return copy(dst, rest), nil
}

func (p *memoryProduct) oldest() ID {
	if p.head == len(p.entries) {
		return ID{}
	}
	return p.entries[p.head].ID
}

// Bounds implements [Log].
func (l *MemoryLog) Bounds(_ context.Context, productID string) (Bounds, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(IDAt(time.Now().Add(-l.retention.TTL)))
	return Bounds{Floor: p.floor, Oldest: p.oldest(), Newest: p.newest}, nil
}

// Changed implements [Log].
func (l *MemoryLog) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
		if p.closed {
			close(p.changed)
		}
	}
	return p.changed
}

// Close implements [Log].
func (l *MemoryLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, p := range l.products {
		p.mu.Lock()
		if !p.closed {
			p.closed = true
			p.notify()
		}
		p.mu.Unlock()
	}
	return nil
}

// Expire frees the entries that are older than the retention. Reading and
// appending do so too; call it now and then for products where nothing happens.
func (l *MemoryLog) Expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := IDAt(time.Now().Add(-l.retention.TTL))
	for _, p := range l.products {
		p.mu.Lock()
		p.expire(oldest)
		p.mu.Unlock()
	}
}

// Stats is what a product's log holds and has lost.
type Stats struct {
	Entries int
	Bytes   int64 // what the entries cost in memory
	Dropped int64 // entries dropped for their size before their time
}

// Stats returns the figures of every product that has a log.
func (l *MemoryLog) Stats() map[string]Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]Stats, len(l.products))
	for id, p := range l.products {
		p.mu.Lock()
		all[id] = Stats{Entries: len(p.entries) - p.head, Bytes: p.bytes, Dropped: p.dropped}
		p.mu.Unlock()
	}
	return all
}

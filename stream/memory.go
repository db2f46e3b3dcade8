package stream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// MemoryLog is the [Log] that keeps everything in RAM. After a restart it is
// empty, and resuming readers get a gap.
type MemoryLog struct {
	retention Retention
	born      ID
	docs      *document.Memory

	mu       sync.Mutex
	products map[string]*memoryProduct
	closed   bool
}

// memoryProduct is the log of one product.
type memoryProduct struct {
	mu      sync.Mutex
	tail    *Tail
	keys    map[activity.Key]struct{}
	dropped int64 // entries dropped for their size before their time
}

// NewMemoryLog returns an empty log.
func NewMemoryLog(r Retention) *MemoryLog {
	return &MemoryLog{retention: r.WithDefaults(DefaultMaxBytes), born: ID{}.Next(time.Now()),
		docs: document.NewMemory(0), products: map[string]*memoryProduct{}}
}

func (l *MemoryLog) product(id string) *memoryProduct {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.products[id]
	if !ok {
		p = &memoryProduct{tail: NewTail(l.born), keys: map[activity.Key]struct{}{}}
		l.products[id] = p
		if l.closed {
			p.tail.Close()
		}
	}
	return p
}

// Append implements [Log].
func (l *MemoryLog) Append(ctx context.Context, productID string, entries []Entry, changes ...document.Change) error {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tail.Closed() {
		return ErrClosed
	}
	now := time.Now()
	p.expire(IDAt(now.Add(-l.retention.TTL)))
	if err := p.claim(entries); err != nil {
		return err
	}
	if len(changes) > 0 {
		if _, err := l.docs.Write(ctx, productID, changes...); err != nil {
			for _, e := range entries {
				p.forget(e)
			}
			return err
		}
	}
	newest := p.tail.newest
	for i := range entries {
		newest = newest.Next(now)
		entries[i].Encode(newest)
		kept := entries[i]
		kept.Keys = slices.Clone(kept.Keys)
		p.tail.Add(kept)
	}
	p.dropped += int64(p.tail.Shrink(l.retention.MaxBytes, p.forget))
	return nil
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

// forget frees the keys of an entry that is dropped.
func (p *memoryProduct) forget(e Entry) {
	for _, key := range e.Keys {
		delete(p.keys, key)
	}
}

// expire drops the entries up to id.
func (p *memoryProduct) expire(id ID) { p.tail.DropUpTo(id, p.forget) }

// Read implements [Log].
func (l *MemoryLog) Read(_ context.Context, productID string, after ID, dst []Entry) (int, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(IDAt(time.Now().Add(-l.retention.TTL)))
	n, ok := p.tail.Read(after, dst)
	b := p.tail.Bounds()
	if !ok {
		return 0, &GapError{Floor: b.Floor, Oldest: b.Oldest}
	}
	if p.tail.Closed() && after.Compare(b.Newest) >= 0 {
		return 0, ErrClosed
	}
	return n, nil
}

// Bounds implements [Log].
func (l *MemoryLog) Bounds(_ context.Context, productID string) (Bounds, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(IDAt(time.Now().Add(-l.retention.TTL)))
	return p.tail.Bounds(), nil
}

// Changed implements [Log].
func (l *MemoryLog) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail.Changed()
}

// Documents implements [Log]: a [document.Memory] of the default size.
func (l *MemoryLog) Documents() document.Store { return l.docs }

// Close implements [Log].
func (l *MemoryLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, p := range l.products {
		p.mu.Lock()
		p.tail.Close()
		p.mu.Unlock()
	}
	return nil
}

// Expire frees the entries that are older than the retention, and documents
// whose time is over. Reading and appending do so too; call it now and then for
// products where nothing happens.
func (l *MemoryLog) Expire() {
	l.docs.Expire()
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
	Bytes   int64 // what the entries cost where they are kept
	Dropped int64 // entries dropped for their size before their time
}

// Stats returns the figures of every product that has a log.
func (l *MemoryLog) Stats() map[string]Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]Stats, len(l.products))
	for id, p := range l.products {
		p.mu.Lock()
		all[id] = Stats{Entries: p.tail.Len(), Bytes: p.tail.Bytes(), Dropped: p.dropped}
		p.mu.Unlock()
	}
	return all
}

package eventlog

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/fair"
)

// MemoryLog is the in-memory [Log]. After a restart it is empty, and resuming
// readers get a gap.
//
// Entries count with their overhead. Beyond the retention's MaxBytes a product
// loses its oldest entries, and beyond TotalBytes the product that uses most
// does; the newest entry of each product is always kept.
type MemoryLog struct {
	retention Retention
	born      ID
	docs      *document.Memory
	shares    *fair.Shares[*memoryProduct]

	mu       sync.Mutex
	products map[string]*memoryProduct
	closed   bool
}

// memoryProduct is the log of one product.
type memoryProduct struct {
	mu      sync.Mutex
	share   *fair.Share[*memoryProduct]
	tail    *Tail
	keys    map[activity.Key]struct{}
	peak    int   // number of keys since the map was last rebuilt
	dropped int64 // entries trimmed for their size before they expired
}

// NewMemoryLog returns an empty log. It reports all negative fields of the
// retention at once.
func NewMemoryLog(r Retention) (*MemoryLog, error) {
	r, err := r.WithDefaults(DefaultMaxBytes, DefaultStateMaxBytes)
	if err != nil {
		return nil, err
	}
	docs, err := document.NewMemory(&document.MemoryOptions{MaxBytes: r.StateMaxBytes / 2, TotalBytes: r.TotalBytes / 2})
	if err != nil {
		return nil, err
	}
	return &MemoryLog{retention: r, born: ID{}.Next(time.Now()), docs: docs,
		shares: fair.NewShares[*memoryProduct](r.TotalBytes), products: map[string]*memoryProduct{}}, nil
}

func (l *MemoryLog) product(id string) *memoryProduct {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.products[id]
	if !ok {
		p = &memoryProduct{tail: NewTail(l.born), keys: map[activity.Key]struct{}{}}
		p.share = l.shares.Join(p)
		l.products[strings.Clone(id)] = p
		if l.closed {
			p.tail.Close()
		}
	}
	return p
}

// Append implements [Log].
func (l *MemoryLog) Append(ctx context.Context, productID string, entries []Entry, changes ...document.Change) error {
	if err := l.append(ctx, productID, entries, changes); err != nil {
		return err
	}
	l.balance()
	return nil
}

func (l *MemoryLog) append(ctx context.Context, productID string, entries []Entry, changes []document.Change) error {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tail.Closed() {
		return ErrClosed
	}
	if err := Validate(entries); err != nil {
		return err
	}
	now := time.Now()
	p.expire(now, l.retention.TTL)
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
		entries[i].Own()
		entries[i].Encode(newest)
	}
	p.tail.Add(entries...)
	p.tail.Expired(now, l.retention.TTL) // records when it saw IDs ahead of the clock
	p.shrink(l.retention.MaxBytes)
	return nil
}

// balance trims entries while all products together exceed the total.
func (l *MemoryLog) balance() {
	for {
		p, over := l.shares.Excess()
		if !over {
			return
		}
		p.mu.Lock()
		p.shrink(p.tail.Bytes() - 1) // by one entry, since another may then be the largest
		p.mu.Unlock()
	}
}

// shrink trims the oldest entries beyond a size.
func (p *memoryProduct) shrink(maxBytes int64) {
	p.dropped += int64(p.tail.Shrink(maxBytes, p.forget))
	p.account()
}

// account updates the product's cost in the total.
func (p *memoryProduct) account() {
	p.peak = max(p.peak, len(p.keys))
	if p.peak > minSlots && len(p.keys) < p.peak/2 { // maps never shrink
		kept := make(map[activity.Key]struct{}, len(p.keys))
		maps.Copy(kept, p.keys)
		p.keys, p.peak = kept, len(kept)
	}
	p.share.Set(p.tail.Bytes(), p.tail.Len() > 1)
}

// claim marks the entries' keys as seen, all or none.
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

// forget frees the keys of a trimmed entry.
func (p *memoryProduct) forget(e Entry) {
	for _, key := range e.Keys {
		delete(p.keys, key)
	}
}

// expire trims the entries older than ttl.
func (p *memoryProduct) expire(now time.Time, ttl time.Duration) {
	p.dropUpTo(p.tail.Expired(now, ttl))
}

// dropUpTo trims the entries up to id.
func (p *memoryProduct) dropUpTo(id ID) {
	if n := p.tail.Len(); n > 0 {
		if p.tail.DropUpTo(id, p.forget); p.tail.Len() < n {
			p.account()
		}
	}
}

// Read implements [Log].
func (l *MemoryLog) Read(_ context.Context, productID string, after ID, dst []Entry) (int, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(time.Now(), l.retention.TTL)
	b := p.tail.Bounds()
	if after == (ID{}) && b.Floor == l.born { // nothing was ever trimmed
		after = l.born
	}
	n, ok := p.tail.Read(after, dst)
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
	p.expire(time.Now(), l.retention.TTL)
	return p.tail.Bounds(), nil
}

// Changed implements [Log].
func (l *MemoryLog) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail.Changed()
}

// Documents implements [Log]: a [document.Memory].
func (l *MemoryLog) Documents() document.Store { return l.docs }

// Drop implements [Log].
func (l *MemoryLog) Drop(_ context.Context, productID string) error {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tail.Closed() {
		return ErrClosed
	}
	p.dropUpTo(p.tail.newest)
	l.docs.Drop(productID)
	return nil
}

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
func (l *MemoryLog) Expire(context.Context) error {
	l.docs.Expire()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.products {
		p.mu.Lock()
		p.expire(time.Now(), l.retention.TTL)
		p.mu.Unlock()
	}
	return nil
}

// Stats counts what a product's log holds and has lost.
type Stats struct {
	Entries int
	Bytes   int64 // what the entries cost in their storage
	Dropped int64 // entries trimmed for their size before they expired
}

// Stats returns the statistics of every product that has a log.
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

// Storage returns what is kept of a product. What all products share may leave it
// less than its limits.
func (l *MemoryLog) Storage(_ context.Context, productID string) (Storage, error) {
	l.mu.Lock()
	p := l.products[productID]
	l.mu.Unlock()
	s := Storage{Engine: "memory", LogMaxBytes: l.retention.MaxBytes, StateBytes: l.docs.Bytes(productID), StateMaxBytes: l.retention.StateMaxBytes}
	if p != nil {
		p.mu.Lock()
		s.LogBytes = p.tail.Bytes()
		p.mu.Unlock()
	}
	return s, nil
}

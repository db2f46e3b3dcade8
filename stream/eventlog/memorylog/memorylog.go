// Package memorylog is the [eventlog.Log] for one process without storage: entries
// and documents are in memory, and gone when the process ends.
//
//	entries, err := memorylog.New(nil)
//	if err != nil {
//		return err
//	}
//	recorder, err := eventlog.NewRecorder(entries, nil)
//	lookup, err := recent.NewLookup(entries.Activity(), 0)
//
// After a restart the log is empty, and resuming readers get a gap.
//
// The size of an entry includes its overhead. Beyond Retention.MaxBytes a product
// loses its oldest entries, and beyond TotalBytes the product that uses most does;
// the newest entry of each product is always kept. Documents, in a
// [document.Memory], may use half of StateMaxBytes and, for all products together,
// half of TotalBytes. The users' actions, in a [recent.Memory], may use three
// eighths of StateMaxBytes.
package memorylog

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// Defaults of a [Log]'s retention, in bytes.
const (
	DefaultMaxBytes      = 64 << 20  // of a product's log
	DefaultStateMaxBytes = 512 << 20 // of a product's state; documents have half of it
)

// Options configures a [Log]. A zero field means its default.
type Options struct {
	Retention eventlog.Retention // with DefaultMaxBytes and DefaultStateMaxBytes
	MaxEvents int                // actions kept per user; recent.DefaultMaxEvents
}

// Log is the [eventlog.Log] in memory. Its methods are safe for concurrent use.
type Log struct {
	retention eventlog.Retention
	born      eventlog.ID
	docs      *document.Memory
	users     *recent.Memory
	shares    *fair.Shares[*product]
	products  engine.Products[product]
	closed    atomic.Bool // products used for the first time from now on are closed
}

// product is the log of one product. mu guards everything except id and share, which are set once,
// and erased, which guards itself. The locks of documents and actions may be taken under it. keys
// has the keys of the tail's entries.
type product struct {
	id      string
	mu      sync.Mutex
	share   *fair.Share[*product]
	tail    *engine.Tail
	erased  engine.Erasures
	keys    map[feed.Key]struct{}
	peak    int   // number of keys since the map was last rebuilt
	dropped int64 // entries trimmed for their size before they expired
}

var _ eventlog.Log = (*Log)(nil)

// New returns an empty log; opts may be nil. It reports all negative fields at once.
func New(opts *Options) (*Log, error) {
	o := *cmp.Or(opts, &Options{})
	wrong := options.Mistakes{Package: "memorylog"}
	r, err := engine.WithDefaults(o.Retention, DefaultMaxBytes, DefaultStateMaxBytes)
	wrong.Add(err)
	o.MaxEvents = options.Default(&wrong, "MaxEvents", o.MaxEvents, recent.DefaultMaxEvents)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	docs, err := document.NewMemory(&document.MemoryOptions{MaxBytes: r.StateMaxBytes / 2, TotalBytes: r.TotalBytes / 2})
	if err != nil {
		return nil, err
	}
	users, err := recent.NewMemory(&recent.MemoryOptions{TTL: r.TTL, MaxEvents: o.MaxEvents,
		MaxBytes: engine.UserBytes(r)})
	if err != nil {
		return nil, err
	}
	return &Log{retention: r, born: engine.NextID(eventlog.ID{}, time.Now()), docs: docs, users: users,
		shares: fair.NewShares[*product](r.TotalBytes)}, nil
}

// product returns the product with that ID. At its first use it creates one, whose log
// begins at born.
func (l *Log) product(id string) *product {
	return l.products.Get(id, func() *product {
		p := &product{id: strings.Clone(id), tail: engine.NewTail(l.born), keys: map[feed.Key]struct{}{}}
		p.share = l.shares.Join(p)
		if l.closed.Load() {
			p.tail.Close()
		}
		return p
	})
}

// Append implements [eventlog.Log]. It waits only for locks, and does not check whether ctx
// has ended.
func (l *Log) Append(ctx context.Context, productID string, entries []eventlog.Entry,
	changes ...document.Change) error {
	if err := l.append(ctx, productID, entries, changes); err != nil {
		return err
	}
	l.balance()
	return nil
}

// append appends with the product locked. All refusals come first: nothing fails once the
// documents are written. Documents can be read before the entries of the same append.
func (l *Log) append(ctx context.Context, productID string, entries []eventlog.Entry, changes []document.Change) error {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tail.Closed() {
		return eventlog.ErrClosed
	}
	if document.Ended(document.Generation(ctx, productID), l.docs.Dropped(productID)) {
		return document.ErrDropped
	}
	now := time.Now()
	filings, err := p.check(entries, now, l.retention.TTL)
	if err == nil && len(changes) > 0 {
		_, err = l.docs.Write(ctx, productID, changes...)
	}
	if err != nil {
		return err
	}
	l.users.File(productID, p.encode(entries, filings, now)...) // a lookup finds the actions before readers wake
	p.add(entries, now, l.retention)
	return nil
}

// check returns the filings of entries that can be appended, or an error for others. It also
// trims expired entries, which frees their keys.
func (p *product) check(entries []eventlog.Entry, now time.Time, ttl time.Duration) ([]recent.Filing, error) {
	if err := engine.Validate(entries); err != nil {
		return nil, err
	}
	filings, err := engine.Filings(entries)
	if err != nil {
		return nil, err
	}
	p.expire(now, ttl)
	return filings, engine.Duplicates(entries, p.holds)
}

// encode gives the entries and their filings IDs, and copies the entries into memory
// of their own.
func (p *product) encode(entries []eventlog.Entry, filings []recent.Filing, now time.Time) []recent.Filing {
	newest := p.tail.Bounds().Newest
	for i := range entries {
		newest = engine.NextID(newest, now)
		entries[i].Own()
		entries[i].Encode(newest)
		filings[i].Arrived = recent.Position(newest)
	}
	return filings
}

// add adds encoded entries and their keys, wakes readers, and trims the log to its
// limit.
func (p *product) add(entries []eventlog.Entry, now time.Time, r eventlog.Retention) {
	for i := range entries {
		for _, key := range entries[i].Keys {
			p.keys[key] = struct{}{}
		}
	}
	p.tail.Add(entries...)
	p.erased.Add(entries...)
	p.tail.Expired(now, r.TTL) // records the first sight of IDs ahead of the clock
	p.shrink(r.MaxBytes)
}

// balance trims entries while all products together exceed the total. The caller holds no
// product's lock.
func (l *Log) balance() {
	for p, over := l.shares.Excess(); over; p, over = l.shares.Excess() {
		p.mu.Lock()
		p.shrink(p.tail.Bytes() - 1) // by one entry, since another may then be the largest
		p.mu.Unlock()
	}
}

// shrink trims the oldest entries beyond a size in bytes, and counts them as dropped. The
// newest one stays.
func (p *product) shrink(maxBytes int64) {
	p.dropped += int64(p.tail.Shrink(maxBytes, p.forget))
	p.account()
}

// account updates the product's share of the total after entries were added or trimmed, and
// frees the memory of keys and erasures that are gone.
func (p *product) account() {
	p.erased.DropUpTo(p.tail.Bounds().TrimmedTo)
	p.peak = max(p.peak, len(p.keys))
	if p.peak > minKeys && len(p.keys) < p.peak/2 { // maps never shrink
		kept := make(map[feed.Key]struct{}, len(p.keys))
		maps.Copy(kept, p.keys)
		p.keys, p.peak = kept, len(kept)
	}
	p.share.Set(p.tail.Bytes(), p.tail.Len() > 1)
}

// minKeys is the size up to which a map is not worth shrinking.
const minKeys = 64

// holds reports whether the key belongs to a retained entry.
func (p *product) holds(key feed.Key) bool {
	_, held := p.keys[key]
	return held
}

// forget frees the keys of a trimmed entry.
func (p *product) forget(e eventlog.Entry) {
	for _, key := range e.Keys {
		delete(p.keys, key)
	}
}

// expire trims the entries older than ttl.
func (p *product) expire(now time.Time, ttl time.Duration) {
	p.dropUpTo(p.tail.Expired(now, ttl))
}

// dropUpTo trims the entries up to id.
func (p *product) dropUpTo(id eventlog.ID) {
	if n := p.tail.Len(); n > 0 {
		if p.tail.DropUpTo(id, p.forget); p.tail.Len() < n {
			p.account()
		}
	}
}

// Read implements [eventlog.Log].
func (l *Log) Read(_ context.Context, productID string, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	p := l.product(productID)
	n, err := l.read(p, after, dst)
	p.erased.Apply(dst[:n])
	return n, err
}

// read reads entries as they were appended.
func (l *Log) read(p *product, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(time.Now(), l.retention.TTL)
	b := p.tail.Bounds()
	if after == (eventlog.ID{}) && b.TrimmedTo == l.born { // nothing was ever trimmed
		after = l.born
	}
	n, ok := p.tail.Read(after, dst)
	if !ok {
		return 0, &eventlog.GapError{TrimmedTo: b.TrimmedTo, Oldest: b.Oldest}
	}
	if p.tail.Closed() && after.Compare(b.Newest) >= 0 {
		return 0, eventlog.ErrClosed
	}
	return n, nil
}

// Bounds implements [eventlog.Log].
func (l *Log) Bounds(_ context.Context, productID string) (eventlog.Bounds, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(time.Now(), l.retention.TTL)
	return p.tail.Bounds(), nil
}

// Changed implements [eventlog.Log].
func (l *Log) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail.Changed()
}

// Documents implements [eventlog.Log]: a [document.Memory].
func (l *Log) Documents() document.Store { return l.docs }

// Activity implements [eventlog.Log]: a [recent.Memory].
func (l *Log) Activity() recent.Store { return l.users }

// Now implements [eventlog.Log].
func (l *Log) Now() time.Time { return time.Now() }

// Run implements [eventlog.Log]. There is nothing to do.
func (l *Log) Run(ctx context.Context, report func(eventlog.Progress)) error {
	if report != nil {
		report(eventlog.Progress{Done: true})
	}
	<-ctx.Done()
	return nil
}

// Ping implements [eventlog.Log]. Memory can always be written to.
func (l *Log) Ping(context.Context) error { return nil }

// Drop implements [eventlog.Log] in one step: it is never left half done.
func (l *Log) Drop(_ context.Context, productID string, through document.Version) error {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tail.Closed() {
		return eventlog.ErrClosed
	}
	if l.docs.Drop(productID, through) {
		p.dropUpTo(p.tail.Bounds().Newest)
		l.users.Drop(productID)
	}
	return nil
}

// Close implements [eventlog.Log]. Documents and actions remain usable.
func (l *Log) Close() error {
	l.closed.Store(true)
	for _, p := range l.products.All() {
		p.mu.Lock()
		p.tail.Close()
		p.mu.Unlock()
	}
	return nil
}

// Expire implements [eventlog.Log]. It never fails.
func (l *Log) Expire(context.Context) error {
	l.docs.Expire()
	l.users.Expire()
	for _, p := range l.products.All() {
		p.mu.Lock()
		p.expire(time.Now(), l.retention.TTL)
		p.mu.Unlock()
	}
	return nil
}

// Stats implements [eventlog.Log].
func (l *Log) Stats() map[string]eventlog.Stats {
	all := map[string]eventlog.Stats{}
	for _, p := range l.products.All() {
		p.mu.Lock()
		all[p.id] = eventlog.Stats{Entries: p.tail.Len(), Bytes: p.tail.Bytes(), Dropped: p.dropped,
			Users: l.users.Users(p.id)}
		p.mu.Unlock()
	}
	return all
}

// Storage implements [eventlog.Log]. The products' shared bound may leave a product
// less than its limits.
func (l *Log) Storage(_ context.Context, productID string) (eventlog.Storage, error) {
	s := eventlog.Storage{Engine: "memory", LogMaxBytes: l.retention.MaxBytes, StateMaxBytes: l.retention.StateMaxBytes,
		StateBytes: l.docs.Bytes(productID) + l.users.Bytes(productID)}
	if p := l.products.Known(productID); p != nil {
		p.mu.Lock()
		s.LogBytes = p.tail.Bytes()
		p.mu.Unlock()
	}
	return s, nil
}

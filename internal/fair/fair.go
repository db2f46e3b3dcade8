// Package fair bounds the memory of many products, in bytes: of each product, and
// of all products together.
//
// A [Cache] evicts values in the order they were written; reading does not renew
// them. Values that go last are evicted after all others. A product over its own bound loses its
// own values. Over the total, the product that holds most loses values: the one furthest above its
// fair share, which is the total divided by the number of products that hold something. So no
// product can evict another's share.
//
//	users := fair.New[string, user](&fair.Options{MaxBytes: 256 << 20, TotalBytes: 1 << 30}, forgotten)
//	ada, _ := users.Open("acme", "ada") // created if it is missing
//	ada.Value.visits++
//	ada.Keep(fair.Item{Bytes: ada.Value.size(), Due: ada.Value.expires()})
//	users.Trim("acme") // once, after all values are kept
//
// The caller states the cost of a value, honestly: [Size] is the memory of an
// allocation. The cache adds its own overhead.
//
// [Shares] does the accounting for values that are kept in another form.
package fair

import (
	"cmp"
	"maps"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/internal/schedule"
)

// Options are the bounds of a [Cache]. Zero means no bound. Bytes include the cache's own
// overhead.
type Options struct {
	MaxBytes   int64 // of a product
	TotalBytes int64 // of all products together
	MaxItems   int   // values of a product that can be evicted
}

// Cache keeps values by product and key. It is not safe for concurrent use: its owner must
// guard the cache and its entries. Methods cost a map access and at most the logarithm of the
// number of values; Get and Find do not allocate.
type Cache[K comparable, V any] struct {
	maxBytes int64 // of a product; math.MaxInt64 for no bound
	maxItems int
	evicted  func(*Entry[K, V]) // called with entries that are removed already; never nil
	overhead int64              // of a value, beyond its Item
	products map[string]*holder[K, V]
	shares   *Shares[*holder[K, V]]
	due      schedule.Agenda[*Entry[K, V]]
	length   int // values of all products
}

// Item states the cost and the lifetime of a value.
type Item struct {
	Bytes  int64 // the cost of the value and everything it refers to
	Due    int64 // when [Cache.Due] returns it, in any unit above zero; zero for never
	Pinned bool  // it is never evicted, but counts
	Last   bool  // it is evicted after the values without Last
}

// Entry is a value that a [Cache] keeps. It stays the same until the value is
// removed or evicted, and is not to be used from then on.
type Entry[K comparable, V any] struct {
	Value V

	of           *holder[K, V]
	key          K
	bytes, due   int64                       // as its Item says
	slot         schedule.Slot[*Entry[K, V]] // among those that are due, never after due
	unlisted     bool                        // it is pinned, or was never kept
	last         bool
	older, newer *Entry[K, V]
}

// holder holds the values of a product.
type holder[K comparable, V any] struct {
	all     *Cache[K, V]
	product string
	share   *Share[*holder[K, V]]
	bytes   int64
	items   map[K]*Entry[K, V]
	peak    int           // the most there were since the map was made
	lists   [2]list[K, V] // the second has the values that go last
	listed  int
	written *Entry[K, V] // last, of the listed; nil once that has gone
}

// list is the unpinned values in the order they were written. Its links are in the
// items: an entry of golang-lru takes as much memory again.
type list[K comparable, V any] struct{ oldest, newest *Entry[K, V] }

// holderOverhead is the cost of a product that holds something, in bytes.
const holderOverhead = 1024

// New returns an empty cache; opts may be nil. The function, which may be nil, is called with
// each value that was evicted, by Trim, with the owner's lock held if it holds one; it may keep
// and remove others. It is not called for values that are removed or dropped.
func New[K comparable, V any](opts *Options, evicted func(*Entry[K, V])) *Cache[K, V] {
	o := *cmp.Or(opts, &Options{})
	if o.MaxBytes <= 0 {
		o.MaxBytes = math.MaxInt64
	}
	if o.MaxItems <= 0 {
		o.MaxItems = math.MaxInt
	}
	if evicted == nil {
		evicted = func(*Entry[K, V]) {}
	}
	var k K
	var e Entry[K, V]
	const pointer = 8
	size := Size(unsafe.Sizeof(e)) +
		int64(unsafe.Sizeof(k)+pointer+1)*7/3 + // a map is at least three sevenths full
		2*pointer // in due
	return &Cache[K, V]{maxBytes: o.MaxBytes, maxItems: o.MaxItems, evicted: evicted, overhead: size,
		products: map[string]*holder[K, V]{}, shares: NewShares[*holder[K, V]](o.TotalBytes)}
}

// Size returns the memory of an allocation of n bytes: the next size class of
// the runtime, approximately.
func Size[N ~int | ~int64 | ~uintptr](n N) int64 {
	size := int64(n)
	switch {
	case size == 0:
		return 0
	case size <= 128:
		return (size + 15) &^ 15
	case size <= 32<<10:
		return size + size/8
	}
	return (size + 8<<10 - 1) &^ (8<<10 - 1)
}

// Get returns the value of the key. It does not renew it.
func (c *Cache[K, V]) Get(product string, key K) (value V, ok bool) {
	if e := c.Find(product, key); e != nil {
		return e.Value, true
	}
	return value, false
}

// Find returns the entry of the key, nil if there is none. It does not renew it.
func (c *Cache[K, V]) Find(product string, key K) *Entry[K, V] {
	if h, ok := c.products[product]; ok {
		return h.items[key]
	}
	return nil
}

// Open returns the entry of the key, created with a zero value if it is missing.
// It stays until it is removed: a value that was never kept is not evicted.
func (c *Cache[K, V]) Open(product string, key K) (e *Entry[K, V], isNew bool) {
	h := c.holder(product)
	if e = h.items[key]; e != nil {
		return e, false
	}
	e = &Entry[K, V]{}
	h.insert(key, e)
	return e, true
}

// Insert makes e, which may be a part of something larger, the entry of a key that
// has none. It stays as one that Open began.
func (c *Cache[K, V]) Insert(product string, key K, e *Entry[K, V]) {
	c.holder(product).insert(key, e)
}

// Put keeps a value, as [Entry.Keep] does, under a key that may have one.
func (c *Cache[K, V]) Put(product string, key K, value V, as Item) {
	e, _ := c.Open(product, key)
	e.Value = value
	e.Keep(as)
}

// Remove forgets the value of the key.
func (c *Cache[K, V]) Remove(product string, key K) {
	if e := c.Find(product, key); e != nil {
		e.Remove()
	}
}

// Product returns whose entry it is.
func (e *Entry[K, V]) Product() string { return e.of.product }

// Key returns the entry's key.
func (e *Entry[K, V]) Key() K { return e.key }

// Keep makes the value the one written last. It counts, and others are evicted, from Trim on:
// several values can be kept before anything is evicted for them.
func (e *Entry[K, V]) Keep(as Item) {
	e.of.unlink(e)
	e.set(as)
	e.of.link(e)
}

// Set replaces the entry's item. It renews the value only if it is no longer pinned, or if Last
// changes. Nothing is evicted before the next Trim.
func (e *Entry[K, V]) Set(as Item) {
	if as.Pinned == e.unlisted && as.Last == e.last {
		e.set(as)
	} else {
		e.Keep(as)
	}
	e.of.account()
}

// set takes over an item. A value that becomes due later keeps its slot until Due comes to it:
// values that are renewed often cost nothing there.
func (e *Entry[K, V]) set(as Item) {
	e.of.bytes += as.Bytes - e.bytes
	e.bytes, e.due, e.unlisted, e.last = as.Bytes, as.Due, as.Pinned, as.Last
	if as.Due == 0 {
		e.of.all.due.Remove(&e.slot)
	} else if at := time.Unix(0, as.Due); !e.slot.IsSet() || at.Before(e.slot.Due()) {
		e.of.all.due.Set(&e.slot, at)
	}
}

// Remove forgets the value, and the product with its last one. Call it once at most.
func (e *Entry[K, V]) Remove() {
	h, all := e.of, e.of.all
	all.due.Remove(&e.slot)
	h.unlink(e)
	h.forget(e.key)
	h.bytes -= e.bytes + all.overhead
	all.length--
	if len(h.items) == 0 {
		h.share.Set(0, false)
		delete(all.products, h.product)
		return
	}
	h.account()
}

// Drop forgets everything of a product, which is not evicted.
func (c *Cache[K, V]) Drop(product string) {
	c.Each(product, func(e *Entry[K, V]) bool {
		e.Remove()
		return true
	})
}

// Trim evicts values beyond the bounds, after one was kept for the product. The value written
// last stays, even if it is larger than the bounds. Values of other products may go.
func (c *Cache[K, V]) Trim(product string) {
	h, ok := c.products[product]
	if ok {
		h.account()
	}
	for ok && h.listed > 1 && (h.bytes > c.maxBytes || h.listed > c.maxItems) {
		c.evict(h)
		h, ok = c.products[product]
	}
	for {
		most, over := c.shares.Excess()
		if !over || most.product == product && most.listed == 1 {
			return
		}
		c.evict(most)
	}
}

// Evict evicts one value of the product if it has one that can go, the value written last
// included. An owner of several caches that count in one [Shares] makes room by it.
func (c *Cache[K, V]) Evict(product string) {
	if h, ok := c.products[product]; ok && h.listed > 0 {
		c.evict(h)
	}
}

// evict evicts the oldest value of a product that has one: of the values without Last, unless
// the only one of those has just been written.
func (c *Cache[K, V]) evict(h *holder[K, V]) {
	oldest := h.lists[0].oldest
	if oldest == nil || oldest == h.written && h.listed > 1 {
		oldest = h.lists[1].oldest
	}
	oldest.Remove()
	c.evicted(oldest)
}

// Each calls see with the values of a product, in any order, until it returns false. It may
// remove the value that it is given.
func (c *Cache[K, V]) Each(product string, see func(*Entry[K, V]) bool) {
	if h, ok := c.products[product]; ok {
		for _, e := range h.items {
			if !see(e) {
				return
			}
		}
	}
}

// Due returns the entry of a value that was due at that time or before, nil if there is none. The
// value is not due again before it is set again.
func (c *Cache[K, V]) Due(now int64) *Entry[K, V] {
	for {
		e, _ := c.due.Pop(time.Unix(0, now))
		if e == nil || e.due <= now {
			return e
		}
		c.due.Set(&e.slot, time.Unix(0, e.due))
	}
}

// Len returns how many values are kept.
func (c *Cache[K, V]) Len() int { return c.length }

// Bytes returns the cost of a product's values, with the overhead.
func (c *Cache[K, V]) Bytes(product string) int64 {
	if h, ok := c.products[product]; ok {
		return h.bytes
	}
	return 0
}

// holder returns the product's, which begins here if it is new.
func (c *Cache[K, V]) holder(product string) *holder[K, V] {
	h, ok := c.products[product]
	if !ok {
		h = &holder[K, V]{all: c, product: strings.Clone(product), items: map[K]*Entry[K, V]{},
			bytes: holderOverhead + Size(len(product))}
		h.share = c.shares.Join(h)
		c.products[h.product] = h
	}
	return h
}

// insert begins an entry, which is in no list and not due.
func (h *holder[K, V]) insert(key K, e *Entry[K, V]) {
	e.of, e.key, e.unlisted, e.slot.Value = h, key, true, e
	h.items[key] = e
	h.peak = max(h.peak, len(h.items))
	h.bytes += h.all.overhead
	h.all.length++
}

// link makes an entry, unless it is pinned, the one written last.
func (h *holder[K, V]) link(e *Entry[K, V]) {
	if e.unlisted {
		return
	}
	l := h.list(e)
	if e.older = l.newest; e.older != nil {
		e.older.newer = e
	} else {
		l.oldest = e
	}
	l.newest, h.written = e, e
	h.listed++
}

// list returns the list that an entry belongs to.
func (h *holder[K, V]) list(e *Entry[K, V]) *list[K, V] {
	if e.last {
		return &h.lists[1]
	}
	return &h.lists[0]
}

// unlink takes an entry out of its list, if it is in one.
func (h *holder[K, V]) unlink(e *Entry[K, V]) {
	if e.unlisted {
		return
	}
	l := h.list(e)
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		l.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		l.newest = e.older
	}
	if e.older, e.newer = nil, nil; h.written == e {
		h.written = nil
	}
	h.listed--
}

// account updates the product's share after a change.
func (h *holder[K, V]) account() { h.share.Set(h.bytes, h.listed > 0) }

// minShrink is the peak of a map that is worth freeing.
const minShrink = 64

// forget takes a key out of the map, and frees the memory of one that has become much smaller:
// maps do not.
func (h *holder[K, V]) forget(key K) {
	delete(h.items, key)
	if old := h.items; h.peak > minShrink && len(old) < h.peak/2 {
		h.items, h.peak = make(map[K]*Entry[K, V], len(old)), len(old)
		maps.Copy(h.items, old)
	}
}

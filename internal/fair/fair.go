// Package fair limits the memory of many products, in bytes: of each product, and
// of all products together.
//
// A [Cache] evicts values in the order they were written; reading does not renew them. Values
// marked as Last are evicted after all others. A product over its own limit loses its own values.
// If the total is exceeded, the product that holds most loses values: it is the one furthest above
// its fair share, which is the total divided by the number of products that hold something. So no
// product can evict another's share.
//
//	users := fair.New[string, user](&fair.Options{MaxBytes: 256 << 20, TotalBytes: 1 << 30}, forgotten)
//	ada, _ := users.Open("acme", "ada") // created if it is missing
//	ada.Value.visits++
//	ada.Keep(fair.Item{Bytes: ada.Value.size(), Due: ada.Value.expires()})
//	users.Trim("acme") // once, after keeping all values
//
// The caller must state the true cost of a value: [Size] is the memory of an
// allocation. The cache adds its own overhead.
//
// [Shares] does the accounting for values that are stored elsewhere.
package fair

import (
	"cmp"
	"maps"
	"math"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/internal/schedule"
)

// Options are the limits of a [Cache]. Zero means no limit. Bytes include the cache's own
// overhead.
type Options struct {
	MaxBytes   int64 // per product
	TotalBytes int64 // of all products together
	MaxItems   int   // values per product, not counting those that cannot be evicted
}

// Cache keeps values by product and key. It is not safe for concurrent use: its owner must
// guard the cache and its entries. Methods cost one map access and at most the logarithm of
// the number of values; Get and Find do not allocate.
type Cache[K comparable, V any] struct {
	maxBytes int64 // per product; math.MaxInt64 for no limit
	maxItems int
	evicted  func(*Entry[K, V]) // called with entries already removed; never nil
	overhead int64              // per value, in addition to its Item
	products map[string]*holder[K, V]
	shares   *Shares[*holder[K, V]]
	due      schedule.Agenda[*holder[K, V]]
	length   int // values of all products
}

// NoProduct is the product of all values in a cache of values without one.
const NoProduct = ""

// Item states the cost and the lifetime of a value.
type Item struct {
	Bytes  int64 // the cost of the value and everything it refers to
	Due    int64 // when [Cache.Due] returns it, in any unit above zero; zero for never
	Pinned bool  // never evicted, but counted
	Last   bool  // evicted after the values without Last
}

// Entry is a value that a [Cache] keeps. It stays the same until the value is
// removed or evicted; do not use it after that.
type Entry[K comparable, V any] struct {
	Value V

	of           *holder[K, V]
	key          K
	bytes, due   int64                       // as stated by its Item
	slot         schedule.Slot[*Entry[K, V]] // in the product's agenda, never after due
	unlisted     bool                        // pinned, or never kept
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
	peak    int // largest length since the map was made
	due     schedule.Agenda[*Entry[K, V]]
	slot    schedule.Slot[*holder[K, V]] // in the cache's agenda, never after the first of due
	lists   [2]list[K, V]                // the second has the values with Last
	listed  int
	written *Entry[K, V] // newest listed entry; nil once it is removed
}

// list holds the unpinned values in the order they were written. The entries
// contain the links, because an entry of golang-lru would take as much memory
// again.
type list[K comparable, V any] struct{ oldest, newest *Entry[K, V] }

// holderOverhead is the cost in bytes of a product that holds something.
const holderOverhead = 1024

// New returns an empty cache; opts may be nil. The function evicted, which may be nil, is
// called with each evicted value, under whatever lock the caller of Trim or Evict holds; it may
// keep and remove other values. It is not called for values that are removed or dropped.
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
		int64(unsafe.Sizeof(k)+pointer+1)*7/3 + // a map is at least 3/7 full
		2*pointer // in the agenda
	return &Cache[K, V]{maxBytes: o.MaxBytes, maxItems: o.MaxItems, evicted: evicted, overhead: size,
		products: map[string]*holder[K, V]{}, shares: NewShares[*holder[K, V]](o.TotalBytes)}
}

// SizeOfMap returns the approximate memory of a map of at most ten texts, such as an event's properties.
func SizeOfMap(m map[string]string) (size int64) {
	if len(m) > 0 {
		size = 512 // without the texts
	}
	for name, value := range m {
		size += Size(len(name)) + Size(len(value))
	}
	return size
}

// Size returns the approximate memory of an allocation of n bytes: the
// runtime's next size class.
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

// Get returns the key's value and does not renew it.
func (c *Cache[K, V]) Get(product string, key K) (value V, ok bool) {
	if e := c.Find(product, key); e != nil {
		return e.Value, true
	}
	return value, false
}

// Find returns the key's entry, or nil, and does not renew it.
func (c *Cache[K, V]) Find(product string, key K) *Entry[K, V] {
	if h, ok := c.products[product]; ok {
		return h.items[key]
	}
	return nil
}

// Open returns the key's entry, and creates it with a zero value if it is
// missing. A value that was never kept is not evicted, so it stays until it is
// removed.
func (c *Cache[K, V]) Open(product string, key K) (e *Entry[K, V], isNew bool) {
	h := c.holder(product)
	if e = h.items[key]; e != nil {
		return e, false
	}
	e = &Entry[K, V]{of: h, key: key, unlisted: true}
	e.slot.Value = e
	h.items[key] = e
	h.peak = max(h.peak, len(h.items))
	h.bytes += c.overhead
	c.length++
	return e, true
}

// Put sets and keeps a value as [Entry.Keep] does. The key may already have
// one.
func (c *Cache[K, V]) Put(product string, key K, value V, as Item) {
	e, _ := c.Open(product, key)
	e.Value = value
	e.Keep(as)
}

// Remove removes the key's value.
func (c *Cache[K, V]) Remove(product string, key K) {
	if e := c.Find(product, key); e != nil {
		e.Remove()
	}
}

// Product returns the product that owns the entry.
func (e *Entry[K, V]) Product() string { return e.of.product }

// Key returns the entry's key.
func (e *Entry[K, V]) Key() K { return e.key }

// Keep makes the value the one written last. It takes effect on the limits with the next
// Trim, so several values can be kept before anything is evicted for them.
func (e *Entry[K, V]) Keep(as Item) {
	e.of.unlink(e)
	e.set(as)
	e.of.link(e)
}

// Set replaces the entry's item. It renews the value only if it is no longer pinned, or if Last
// changes. Nothing is evicted until the next Trim.
func (e *Entry[K, V]) Set(as Item) {
	if as.Pinned == e.unlisted && as.Last == e.last {
		e.set(as)
	} else {
		e.Keep(as)
	}
	e.of.account()
}

// set applies an item. A value that becomes due later keeps its slot until Due reaches it, so
// renewing a value often costs nothing there.
func (e *Entry[K, V]) set(as Item) {
	e.of.bytes += as.Bytes - e.bytes
	e.bytes, e.due, e.unlisted, e.last = as.Bytes, as.Due, as.Pinned, as.Last
	if as.Due == 0 {
		e.of.due.Remove(&e.slot)
	} else if at := time.Unix(0, as.Due); !e.slot.IsSet() || at.Before(e.slot.Due()) {
		if e.of.due.Set(&e.slot, at) {
			e.of.plan()
		}
	}
}

// Remove removes the value, and the product with its last value. Call it at most
// once.
func (e *Entry[K, V]) Remove() {
	h, all := e.of, e.of.all
	h.due.Remove(&e.slot)
	h.unlink(e)
	h.forget(e.key)
	h.bytes -= e.bytes + all.overhead
	all.length--
	if len(h.items) == 0 {
		all.Drop(h.product)
		return
	}
	h.account()
}

// Drop removes everything of a product, without calling evicted. It takes no longer for many values
// than for one.
func (c *Cache[K, V]) Drop(product string) {
	if h, ok := c.products[product]; ok {
		h.share.Set(0, false)
		c.due.Remove(&h.slot)
		c.length -= len(h.items)
		delete(c.products, product)
	}
}

// Trim evicts values beyond the limits, after one was kept for the product. The product's
// last written value stays, even if it alone exceeds the limits. Values of other products may
// be evicted.
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

// Evict evicts one value of the product if possible, even the one written last. An owner
// of several caches that share one [Shares] uses it to make room.
func (c *Cache[K, V]) Evict(product string) {
	if h, ok := c.products[product]; ok && h.listed > 0 {
		c.evict(h)
	}
}

// evict evicts the oldest value of a product that has one. Values without Last go first,
// unless the only one has just been written.
func (c *Cache[K, V]) evict(h *holder[K, V]) {
	oldest := h.lists[0].oldest
	if oldest == nil || oldest == h.written && h.listed > 1 {
		oldest = h.lists[1].oldest
	}
	oldest.Remove()
	c.evicted(oldest)
}

// Each calls see with a product's values, in any order, until it returns false. see may
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

// SweepEach is like Each for all values, but takes the lock itself, and like Sweep releases it after every
// 1000 calls. Of the values that are added or removed meanwhile, it may see some.
func (c *Cache[K, V]) SweepEach(lock sync.Locker, product string, see func(*Entry[K, V])) {
	lock.Lock()
	defer lock.Unlock()
	seen := 0
	c.Each(product, func(e *Entry[K, V]) bool {
		see(e)
		if seen++; seen%atOnce == 0 {
			lock.Unlock()
			lock.Lock()
		}
		return true
	})
}

// Due returns the entry of a value that was due at that time or earlier, or nil. The value is not
// due again until it is set again.
func (c *Cache[K, V]) Due(now int64) *Entry[K, V] {
	for {
		h, ok := c.due.Pop(time.Unix(0, now))
		if !ok {
			return nil
		}
		e, ok := h.due.Pop(time.Unix(0, now))
		isDue := ok && e.due <= now
		if ok && !isDue {
			h.due.Set(&e.slot, time.Unix(0, e.due))
		}
		if h.plan(); isDue {
			return e
		}
	}
}

// plan sets when the product's next value may be due.
func (h *holder[K, V]) plan() {
	if next, ok := h.due.Next(); ok {
		h.all.due.Set(&h.slot, next)
	}
}

// atOnce is the number of values that are seen before others get the lock.
const atOnce = 1000

// Sweep calls step with the lock held until step reports that nothing is left. It releases the
// lock after every 1000 calls, so that others need not wait for all of them.
func Sweep(lock sync.Locker, step func() (more bool)) {
	for more := true; more; {
		func() {
			lock.Lock()
			defer lock.Unlock()
			for n := 0; more && n < atOnce; n++ {
				more = step()
			}
		}()
	}
}

// Len returns how many values are kept.
func (c *Cache[K, V]) Len() int { return c.length }

// Bytes returns the cost of a product's values, including the overhead.
func (c *Cache[K, V]) Bytes(product string) int64 {
	if h, ok := c.products[product]; ok {
		return h.bytes
	}
	return 0
}

// holder returns the product's holder, and creates it if it is missing.
func (c *Cache[K, V]) holder(product string) *holder[K, V] {
	h, ok := c.products[product]
	if !ok {
		h = &holder[K, V]{all: c, product: strings.Clone(product), items: map[K]*Entry[K, V]{},
			bytes: holderOverhead + Size(len(product))}
		h.share, h.slot.Value = c.shares.Join(h), h
		c.products[h.product] = h
	}
	return h
}

// link makes an entry the one written last, unless it is pinned.
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

// unlink removes an entry from its list, if it is in one.
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

// minShrink is the smallest peak at which a map is worth replacing.
const minShrink = 64

// forget deletes a key from the map, and replaces a map that has become much smaller, since
// maps do not free memory.
func (h *holder[K, V]) forget(key K) {
	delete(h.items, key)
	if old := h.items; h.peak > minShrink && len(old) < h.peak/2 {
		h.items, h.peak = make(map[K]*Entry[K, V], len(old)), len(old)
		maps.Copy(h.items, old)
	}
}

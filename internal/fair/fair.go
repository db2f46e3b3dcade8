// Package fair bounds in bytes what is kept in memory for many products: what
// each may hold, and what all of them may hold together.
//
// A [Cache] keeps values that are forgotten in the order they were written, the
// first first; reading does not renew them. A product that holds too much loses
// its own. When all hold too much, the one that holds most does, which is the
// one furthest above its fair share: the total divided by the number of
// products that hold something. So no product can push out what another holds
// within its share.
//
//	users := fair.New(&fair.Options{MaxBytes: 256 << 20, TotalBytes: 1 << 30}, forgotten)
//	users.Put("acme", "ada", user, fair.Item{Bytes: user.size(), Due: user.expires()})
//	users.Trim("acme") // once for everything that was put
//
// What a value costs is for who puts it to say, honestly: [Size] is what an
// allocation takes. The cache adds what it needs for itself.
//
// [Shares] is the account behind it, for who keeps values in another form.
package fair

import (
	"container/heap"
	"maps"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// Options are the bounds of a [Cache]. Zero means no bound.
type Options struct {
	MaxBytes   int64 // of a product
	TotalBytes int64 // of all products together
	MaxItems   int   // values of a product that can be evicted
}

// Cache keeps values by product and key. It is not safe for concurrent use:
// its owner must guard it. Get, Put, Set and Remove take the time of a map
// and, at worst, the logarithm of what is kept; Get does not allocate.
type Cache[K comparable, V any] struct {
	maxBytes int64
	maxItems int
	evicted  func(product string, key K, value V)
	overhead int64 // of a value, beyond what its Item says
	products map[string]*holder[K, V]
	shares   *Shares[*holder[K, V]]
	due      dueHeap[K, V]
	length   int
}

// Item is what a cache needs to know of a value.
type Item struct {
	Bytes  int64 // what it costs, with what it refers to
	Due    int64 // when [Cache.Due] returns it, in any unit above zero; zero for never
	Pinned bool  // it is never evicted, but counts
}

// holder is what a product holds.
type holder[K comparable, V any] struct {
	product string
	share   *Share[*holder[K, V]]
	bytes   int64
	items   map[K]*item[K, V]
	peak    int // the most there were since the map was made
	// What is not pinned is a list in the order it was written. Its links are in
	// the items: an entry of golang-lru takes as much memory as an item again.
	oldest, newest *item[K, V]
	listed         int
}

type item[K comparable, V any] struct {
	of           *holder[K, V]
	key          K
	value        V
	bytes, due   int64 // as its Item says
	asked        int64 // the time it is in the heap by: never after it is due
	at           int32 // in the heap, -1 for not
	pinned       bool
	older, newer *item[K, V]
}

// holderOverhead is what a product costs that holds something.
const holderOverhead = 1024

// New returns an empty cache; opts may be nil. The function, which may be nil,
// is called with each value that is evicted; it may put and remove others.
func New[K comparable, V any](opts *Options, evicted func(product string, key K, value V)) *Cache[K, V] {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = math.MaxInt64
	}
	if o.MaxItems <= 0 {
		o.MaxItems = math.MaxInt
	}
	if evicted == nil {
		evicted = func(string, K, V) {}
	}
	var k K
	var i item[K, V]
	const pointer = 8
	size := Size(unsafe.Sizeof(i)) +
		int64(unsafe.Sizeof(k)+pointer+1)*7/3 + // a map is at least three sevenths full
		2*pointer // in due
	return &Cache[K, V]{maxBytes: o.MaxBytes, maxItems: o.MaxItems, evicted: evicted, overhead: size,
		products: map[string]*holder[K, V]{}, shares: NewShares[*holder[K, V]](o.TotalBytes)}
}

// Size returns about what an allocation of n bytes takes: those of the next
// size that the runtime has.
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
	if i := c.find(product, key); i != nil {
		return i.value, true
	}
	return value, false
}

func (c *Cache[K, V]) find(product string, key K) *item[K, V] {
	if h, ok := c.products[product]; ok {
		return h.items[key]
	}
	return nil
}

// Put keeps the value, as the one written last. It counts, and others are evicted,
// from Trim on.
func (c *Cache[K, V]) Put(product string, key K, value V, as Item) {
	h := c.holder(product)
	i := h.items[key]
	if i == nil {
		i = &item[K, V]{of: h, key: key, at: -1}
		h.bytes += c.overhead
		h.items[key] = i
		c.length++
	} else {
		h.unlink(i)
	}
	i.value = value
	c.set(i, as)
	h.link(i)
}

// Set says anew what a cache needs to know of a value that it has, which does
// not renew it, unless it is pinned no longer.
func (c *Cache[K, V]) Set(product string, key K, as Item) {
	i := c.find(product, key)
	if i == nil {
		return
	}
	moves := i.pinned != as.Pinned
	if moves {
		i.of.unlink(i)
	}
	if c.set(i, as); moves {
		i.of.link(i)
	}
	i.of.account()
}

func (c *Cache[K, V]) set(i *item[K, V], as Item) {
	i.of.bytes += as.Bytes - i.bytes
	i.bytes, i.due, i.pinned = as.Bytes, as.Due, as.Pinned
	switch {
	case as.Due == 0 && i.at >= 0:
		heap.Remove(&c.due, int(i.at))
	case as.Due == 0 || i.at >= 0 && i.asked <= as.Due: // what is asked too early is asked again
	case i.at >= 0:
		i.asked = as.Due
		heap.Fix(&c.due, int(i.at))
	default:
		i.asked = as.Due
		heap.Push(&c.due, i)
	}
}

// Remove forgets the value of the key.
func (c *Cache[K, V]) Remove(product string, key K) {
	if i := c.find(product, key); i != nil {
		c.remove(i)
	}
}

func (c *Cache[K, V]) remove(i *item[K, V]) {
	h := i.of
	if i.at >= 0 {
		heap.Remove(&c.due, int(i.at))
	}
	h.unlink(i)
	delete(h.items, i.key)
	h.bytes -= i.bytes + c.overhead
	c.length--
	if len(h.items) == 0 {
		h.share.Set(0, false)
		delete(c.products, h.product)
		return
	}
	h.account()
}

// Drop forgets everything of a product, which is not evicted, and calls each,
// if not nil, with every value.
func (c *Cache[K, V]) Drop(product string, each func(V)) {
	h, ok := c.products[product]
	if !ok {
		return
	}
	for _, i := range slices.Collect(maps.Values(h.items)) {
		c.remove(i)
		if each != nil {
			each(i.value)
		}
	}
}

// Trim evicts what is beyond the bounds, after something was put for the
// product. The value written last stays.
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

func (c *Cache[K, V]) evict(h *holder[K, V]) {
	i := h.oldest
	c.remove(i)
	c.evicted(h.product, i.key, i.value)
}

// Due returns a value that was due at that time or before, if there is one. Who
// calls it again removes the value first, or sets when it is due next.
func (c *Cache[K, V]) Due(now int64) (product string, key K, value V, ok bool) {
	for len(c.due) > 0 && c.due[0].asked <= now {
		i := c.due[0]
		if i.due <= now {
			return i.of.product, i.key, i.value, true
		}
		i.asked = i.due
		heap.Fix(&c.due, 0)
	}
	return product, key, value, false
}

// Len returns how many values are kept.
func (c *Cache[K, V]) Len() int { return c.length }

// Bytes returns what a product's values cost.
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
		h = &holder[K, V]{product: strings.Clone(product), items: map[K]*item[K, V]{}, bytes: holderOverhead + Size(len(product))}
		h.share = c.shares.Join(h)
		c.products[h.product] = h
	}
	return h
}

// link makes an item, unless it is pinned, the one written last.
func (h *holder[K, V]) link(i *item[K, V]) {
	if i.pinned {
		return
	}
	if i.older = h.newest; i.older != nil {
		i.older.newer = i
	} else {
		h.oldest = i
	}
	h.newest = i
	h.listed++
}

func (h *holder[K, V]) unlink(i *item[K, V]) {
	if i.pinned {
		return
	}
	if i.older != nil {
		i.older.newer = i.newer
	} else {
		h.oldest = i.newer
	}
	if i.newer != nil {
		i.newer.older = i.older
	} else {
		h.newest = i.older
	}
	i.older, i.newer = nil, nil
	h.listed--
}

// account says what the product holds after a change.
func (h *holder[K, V]) account() {
	h.shrink()
	h.share.Set(h.bytes, h.listed > 0)
}

// minShrink is the peak of a map that is worth freeing.
const minShrink = 64

// shrink frees the memory of a map that has become much smaller: maps do not.
func (h *holder[K, V]) shrink() {
	h.peak = max(h.peak, len(h.items))
	if h.peak > minShrink && len(h.items) < h.peak/2 {
		old := h.items
		h.items, h.peak = make(map[K]*item[K, V], len(old)), len(old)
		maps.Copy(h.items, old)
	}
}

// dueHeap is a heap of items by due time.
type dueHeap[K comparable, V any] []*item[K, V]

func (d dueHeap[K, V]) Len() int           { return len(d) }
func (d dueHeap[K, V]) Less(a, b int) bool { return d[a].asked < d[b].asked }
func (d dueHeap[K, V]) Swap(a, b int) {
	d[a], d[b] = d[b], d[a]
	d[a].at, d[b].at = int32(a), int32(b)
}

func (d *dueHeap[K, V]) Push(x any) {
	i := x.(*item[K, V])
	i.at = int32(len(*d))
	*d = append(*d, i)
}

func (d *dueHeap[K, V]) Pop() any {
	last := len(*d) - 1
	i := (*d)[last]
	i.at = -1
	(*d)[last] = nil
	if *d = (*d)[:last]; cap(*d) > 4*last+minShrink {
		*d = append(make(dueHeap[K, V], 0, 2*last), *d...)
	}
	return i
}

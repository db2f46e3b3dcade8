package stream

import (
	"slices"
	"sort"
)

// Tail is the end of a product's log in memory, the part of an engine that
// readers who keep up are served from: [MemoryLog] keeps nothing else, the
// lasting engines keep the rest where it lasts. It is not safe for concurrent
// use: whoever holds one guards it.
type Tail struct {
	entries []Entry // in order; those in use start at head
	head    int
	bytes   int64 // what those in use cost
	floor   ID
	newest  ID
	closed  bool
	changed chan struct{} // nil while nobody waits
}

// NewTail returns an empty tail of a log whose newest entry has that ID.
func NewTail(newest ID) *Tail { return &Tail{floor: newest, newest: newest} }

// Add adds entries that are encoded already, in order, and wakes the readers.
// The tail keeps the entries' memory, but not the slice.
func (t *Tail) Add(entries ...Entry) {
	if len(entries) == 0 {
		return
	}
	for _, e := range entries {
		e.Batch = nil
		t.entries = append(t.entries, e)
		t.bytes += e.cost()
	}
	t.newest = entries[len(entries)-1].ID
	t.Notify()
}

// entryOverhead is what an entry costs beyond its event and keys, in bytes.
const entryOverhead = 144

func (e *Entry) cost() int64 {
	return int64(entryOverhead + cap(e.frame) + len(e.SessionID) + 48*len(e.Keys))
}

// Read copies entries after the cursor, and reports false when the tail begins
// after it.
func (t *Tail) Read(after ID, dst []Entry) (int, bool) {
	if after.Compare(t.floor) < 0 {
		return 0, false
	}
	return copy(dst, t.entries[t.after(after):]), true
}

// after returns the position of the first entry after id. Most readers are
// near the end, so the search starts there.
func (t *Tail) after(id ID) int {
	lo, hi := t.head, len(t.entries)
	for step := 1; hi-step > lo; step *= 2 {
		if t.entries[hi-step].ID.Compare(id) <= 0 {
			lo = hi - step
			break
		}
		hi -= step
	}
	return lo + sort.Search(hi-lo, func(i int) bool { return t.entries[lo+i].ID.Compare(id) > 0 })
}

// DropUpTo forgets the entries up to id. The function, if not nil, is called
// with each.
func (t *Tail) DropUpTo(id ID, dropped func(Entry)) {
	if t.Len() > 0 && t.entries[t.head].ID.Compare(id) <= 0 {
		t.drop(t.after(id)-t.head, dropped)
	}
}

// Shrink forgets the oldest entries until the rest costs at most maxBytes or
// is a single one, and returns how many it forgot.
func (t *Tail) Shrink(maxBytes int64, dropped func(Entry)) (n int) {
	for t.bytes > maxBytes && t.Len() > 1 {
		t.drop(1, dropped)
		n++
	}
	return n
}

func (t *Tail) drop(n int, dropped func(Entry)) {
	for range n {
		e := &t.entries[t.head]
		if dropped != nil {
			dropped(*e)
		}
		t.bytes -= e.cost()
		t.floor = e.ID
		*e = Entry{}
		t.head++
	}
	if t.head > len(t.entries)/2 {
		t.entries = slices.Delete(t.entries, 0, t.head)
		t.head = 0
	}
}

// Changed returns a channel that is closed by the next Add, Notify or Close.
func (t *Tail) Changed() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
		if t.closed {
			close(t.changed)
		}
	}
	return t.changed
}

// Notify wakes who waits for a change.
func (t *Tail) Notify() {
	if t.changed != nil && !t.closed {
		close(t.changed)
		t.changed = nil
	}
}

// Close wakes who waits, now and from now on.
func (t *Tail) Close() {
	t.Notify()
	t.closed = true
}

// Closed reports whether the tail was closed.
func (t *Tail) Closed() bool { return t.closed }

// Len returns how many entries are in the tail.
func (t *Tail) Len() int { return len(t.entries) - t.head }

// Bytes returns what the entries cost in memory.
func (t *Tail) Bytes() int64 { return t.bytes }

// Bounds returns what is in the tail: every entry with Floor < id ≤ Newest.
func (t *Tail) Bounds() Bounds {
	b := Bounds{Floor: t.floor, Newest: t.newest}
	if t.Len() > 0 {
		b.Oldest = t.entries[t.head].ID
	}
	return b
}

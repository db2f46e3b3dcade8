package engine

import (
	"sort"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Tail is the end of a product's log in memory, from which an engine serves readers that keep
// up. An engine in memory has only the tail; durable engines have the rest in their storage. A
// Tail is not safe for concurrent use; its owner must guard it.
//
// It has every entry of the log with trimmedTo < ID ≤ newest. The cost of adding or trimming an
// entry does not depend on the length of the tail.
type Tail struct {
	blocks    [][]eventlog.Entry // in order, all but the last of blockSize entries
	head      int                // number of trimmed entries in the first block
	count     int                // of live entries
	bytes     int64              // their cost
	trimmedTo eventlog.ID
	newest    eventlog.ID
	closed    bool
	changed   chan struct{} // nil without waiters
	ahead     []sighting    // of IDs that were ahead of the clock, in order
	expired   eventlog.ID   // by the sightings, entries up to here are too old
}

// blockSize is the number of entries that fill 4 KiB. Blocks are not moved when the
// tail grows, and are freed one by one.
const blockSize = 34

// sighting records when an ID was first found to be ahead of the clock.
type sighting struct {
	id eventlog.ID
	at time.Time
}

// sightings is the approximate limit on the sightings recorded within the retention's
// TTL.
const sightings = 64

// Expired returns the ID up to which entries are older than ttl. The age of an ID
// ahead of the clock, such as one assigned before the clock was set back, counts
// from the first call of Expired that saw it.
func (t *Tail) Expired(now time.Time, ttl time.Duration) eventlog.ID {
	seen := len(t.ahead)
	if t.newest.Time().After(now) && t.newest.Compare(t.expired) > 0 &&
		(seen == 0 || t.newest != t.ahead[seen-1].id && now.Sub(t.ahead[seen-1].at) >= ttl/sightings) {
		t.ahead = append(t.ahead, sighting{t.newest, now})
	}
	for len(t.ahead) > 0 && now.Sub(t.ahead[0].at) >= ttl {
		t.expired = eventlog.Later(t.expired, t.ahead[0].id)
		t.ahead = t.ahead[1:]
	}
	return eventlog.Later(t.expired, eventlog.IDAt(now.Add(-ttl)))
}

// NewTail returns an empty tail of a log whose newest entry has that ID.
func NewTail(newest eventlog.ID) *Tail { return &Tail{trimmedTo: newest, newest: newest} }

// Add adds encoded entries in order and wakes the readers. Their IDs must be greater than the
// newest one. The tail retains the entries' memory, except for their batches, but not the
// slice.
func (t *Tail) Add(entries ...eventlog.Entry) {
	if len(entries) == 0 {
		return
	}
	for _, e := range entries {
		e.Batch = nil
		t.add(e)
		t.bytes += cost(&e)
	}
	t.newest = entries[len(entries)-1].ID
	t.Notify()
}

// add puts an entry into the last block, or into a new block, which starts smaller in a
// short tail.
func (t *Tail) add(e eventlog.Entry) {
	last := len(t.blocks) - 1
	if last < 0 || len(t.blocks[last]) == blockSize {
		t.blocks = append(t.blocks, make([]eventlog.Entry, 0, min(1+t.count, blockSize)))
		last++
	}
	t.blocks[last] = append(t.blocks[last], e)
	t.count++
}

// at returns the live entry at a position, counted from zero.
func (t *Tail) at(i int) *eventlog.Entry {
	i += t.head
	return &t.blocks[i/blockSize][i%blockSize]
}

// Costs of an entry besides its event.
const (
	keyShare   = 44 // bytes of a key in a half-full map
	eventShare = 31 // bytes of an event besides its data
)

// cost is the memory of an entry in a tail with its keys in a map, in bytes.
func cost(e *eventlog.Entry) int64 {
	keys := len(e.Keys) * len(feed.Key{})
	return int64(unsafe.Sizeof(*e)) + fair.Size(eventShare+len(e.Data)) + fair.Size(len(e.SessionID)) +
		fair.Size(keys) + int64(keyShare*len(e.Keys))
}

// Read copies entries after the cursor to dst, as many as Read of an [eventlog.Log] does, and
// reports false if the tail starts after the cursor. The entries share the tail's memory and
// must not be modified.
func (t *Tail) Read(after eventlog.ID, dst []eventlog.Entry) (n int, ok bool) {
	if after.Compare(t.trimmedTo) < 0 {
		return 0, false
	}
	bytes := 0
	for i := t.after(after); i < t.count && n < len(dst) && bytes < eventlog.ReadBytes; i++ {
		dst[n] = *t.at(i)
		bytes += len(dst[n].Data)
		n++
	}
	return n, true
}

// after returns the position of the first entry after id, which is count if there is none.
func (t *Tail) after(id eventlog.ID) int {
	return sort.Search(t.count, func(i int) bool { return t.at(i).ID.Compare(id) > 0 })
}

// DropUpTo trims the entries up to id. It calls dropped, if not nil, with each one. An id
// beyond the newest entry trims to that entry.
func (t *Tail) DropUpTo(id eventlog.ID, dropped func(eventlog.Entry)) {
	if t.count > 0 && t.at(0).ID.Compare(id) <= 0 {
		t.drop(t.after(id), dropped)
	}
}

// Shrink trims the oldest entries until the rest costs at most maxBytes or is
// a single entry, and returns how many it trimmed.
func (t *Tail) Shrink(maxBytes int64, dropped func(eventlog.Entry)) (n int) {
	for t.bytes > maxBytes && t.Len() > 1 {
		t.drop(1, dropped)
		n++
	}
	return n
}

// drop trims the first n entries. The tail must have at least n. Their memory is freed block
// by block.
func (t *Tail) drop(n int, dropped func(eventlog.Entry)) {
	for range n {
		e := t.at(0)
		if dropped != nil {
			dropped(*e)
		}
		t.bytes -= cost(e)
		t.trimmedTo = e.ID
		*e = eventlog.Entry{}
		t.count--
		if t.head++; t.head == len(t.blocks[0]) {
			t.blocks[0] = nil
			t.blocks, t.head = t.blocks[1:], 0
		}
	}
}

// Changed returns a channel that is closed by the next Add, Notify or Close. All waiters
// until then share one channel.
func (t *Tail) Changed() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
		if t.closed {
			close(t.changed)
		}
	}
	return t.changed
}

// Notify wakes all current waiters.
func (t *Tail) Notify() {
	if t.changed != nil && !t.closed {
		close(t.changed)
		t.changed = nil
	}
}

// Close wakes all current and future waiters.
func (t *Tail) Close() {
	t.Notify()
	t.closed = true
}

// Closed reports whether the tail was closed.
func (t *Tail) Closed() bool { return t.closed }

// Len returns the number of entries in the tail.
func (t *Tail) Len() int { return t.count }

// Bytes returns the memory that the entries take, in bytes.
func (t *Tail) Bytes() int64 { return t.bytes }

// Bounds returns the bounds of the tail: its entries have TrimmedTo < id ≤ Newest.
func (t *Tail) Bounds() eventlog.Bounds {
	b := eventlog.Bounds{TrimmedTo: t.trimmedTo, Newest: t.newest}
	if t.count > 0 {
		b.Oldest = t.at(0).ID
	}
	return b
}

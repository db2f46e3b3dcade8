package admission

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Arrivals bounds the bytes of request bodies that are arriving or wait to be unpacked. When
// there is no room, the body that arrives most slowly gives way: slow senders cannot keep fast
// ones out. It is safe for concurrent use.
//
// A body goes from Begin through Grow, as its bytes come, to Arrived, from where on it gives
// way to none, and to Release.
type Arrivals struct {
	limit int64

	mu       sync.Mutex
	used     int64
	arriving map[*Arrival]struct{} // the ones that may have to give way; they end with Arrived
}

// NewArrivals returns room for so many bytes.
func NewArrivals(limit int64) *Arrivals {
	return &Arrivals{limit: limit, arriving: map[*Arrival]struct{}{}}
}

// Arrival is a body that arrives. Its fields are guarded by the mutex of all.
type Arrival struct {
	all *Arrivals
	// interrupt does not change; it is called at most once.
	interrupt func()
	begun     time.Time
	bytes     int64
	gaveWay   bool
}

// Limit returns how many bytes there is room for.
func (a *Arrivals) Limit() int64 { return a.limit }

// Begin returns an arrival that holds nothing yet. The function interrupt is
// called, by another goroutine, when it has to give way: it must make the
// sender's next Read fail. Release must be called in the end.
func (a *Arrivals) Begin(interrupt func()) *Arrival {
	b := &Arrival{all: a, interrupt: interrupt, begun: time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arriving[b] = struct{}{}
	return b
}

// Grow holds n more bytes, or returns ErrBusy: the arrival has given way, or nothing gives way
// to it. It never waits. Nothing more is held after an error; the bytes held so far are, unless
// the arrival has given way.
func (b *Arrival) Grow(n int64) error {
	a := b.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used+n > a.limit && !b.gaveWay {
		a.makeRoom(n)
	}
	if b.gaveWay || a.used+n > a.limit {
		return ErrBusy
	}
	b.bytes += n
	a.used += n
	return nil
}

// Shrink holds n bytes less, or none if it holds less than n.
func (b *Arrival) Shrink(n int64) {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	n = min(n, b.bytes)
	b.bytes -= n
	b.all.used -= n
}

// GaveWay reports whether the arrival had to give way.
func (b *Arrival) GaveWay() bool {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	return b.gaveWay
}

// Arrived marks the body as complete: it no longer gives way.
func (b *Arrival) Arrived() {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	delete(b.all.arriving, b)
}

// Release releases everything. It may be called more than once. It does not interrupt the
// sender.
func (b *Arrival) Release() {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b.all.drop(b)
}

// drop frees the bytes of an arrival, which gives way no more. The mutex is held.
func (a *Arrivals) drop(b *Arrival) {
	a.used -= b.bytes
	b.bytes = 0
	delete(a.arriving, b)
}

const (
	// youth is how long a body has to show how fast it is.
	youth = 2 * time.Second
	// reserve is the part of the room that is freed at once, so that slow senders are
	// not compared on every byte.
	reserve = 16
)

// makeRoom lets the slowest give way until there is room for n bytes and some more. The caller
// may be among them. The mutex is held.
func (a *Arrivals) makeRoom(n int64) {
	now := time.Now()
	slowest := make([]*Arrival, 0, len(a.arriving))
	for b := range a.arriving {
		if b.bytes > 0 {
			slowest = append(slowest, b)
		}
	}
	slices.SortFunc(slowest, func(x, y *Arrival) int { return cmp.Compare(x.speed(now), y.speed(now)) })
	for _, b := range slowest {
		if a.used+n <= a.limit-a.limit/reserve {
			return
		}
		a.drop(b)
		b.gaveWay = true
		go b.interrupt() // it may wait for a lock of the connection
	}
}

// speed is in bytes per second; a young body counts as faster than any other.
func (b *Arrival) speed(now time.Time) float64 {
	age := now.Sub(b.begun)
	speed := float64(b.bytes) / max(age, time.Millisecond).Seconds()
	if age < youth {
		speed += 1e12
	}
	return speed
}

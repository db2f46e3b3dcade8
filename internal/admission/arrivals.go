package admission

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Arrivals limits the bytes of request bodies that are arriving or waiting to be decoded. If
// there is no room, the slowest body gives way, so slow senders cannot keep fast ones out. It
// is safe for concurrent use.
//
// A body begins with Begin, calls Grow as its bytes arrive, and then Arrived, after which it
// never gives way. It ends with Release.
type Arrivals struct {
	limit int64

	mu       sync.Mutex
	used     int64
	arriving map[*Arrival]struct{} // bodies that may have to give way; removed by Arrived
}

// NewArrivals returns Arrivals with room for so many bytes.
func NewArrivals(limit int64) *Arrivals {
	return &Arrivals{limit: limit, arriving: map[*Arrival]struct{}{}}
}

// Arrival is a body that is arriving. The mutex of all guards its fields.
type Arrival struct {
	all *Arrivals
	// interrupt never changes, and is called at most once.
	interrupt func()
	begun     time.Time
	bytes     int64
	gaveWay   bool
}

// Limit returns the number of bytes for which there is room.
func (a *Arrivals) Limit() int64 { return a.limit }

// Begin returns an arrival that holds nothing yet. When it has to give way,
// another goroutine calls interrupt, which must make the sender's next Read
// fail. Call Release in the end.
func (a *Arrivals) Begin(interrupt func()) *Arrival {
	b := &Arrival{all: a, interrupt: interrupt, begun: time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arriving[b] = struct{}{}
	return b
}

// Grow holds n more bytes, or returns ErrBusy: the arrival has given way, or nothing can give
// way to it. It never waits. After an error the arrival keeps only the bytes that it already
// held, or none if it has given way.
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

// Shrink releases n bytes, or all if it holds fewer.
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

// Release releases everything. It may be called more than once. It never interrupts the
// sender.
func (b *Arrival) Release() {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b.all.drop(b)
}

// drop frees the bytes of an arrival, which can no longer give way. The mutex
// must be held.
func (a *Arrivals) drop(b *Arrival) {
	a.used -= b.bytes
	b.bytes = 0
	delete(a.arriving, b)
}

const (
	// youth is how long a body may take to show its speed.
	youth = 2 * time.Second
	// reserve is the part of the room that is freed in one call, one in sixteen, so
	// that slow senders are not compared on every byte.
	reserve = 16
)

// makeRoom makes the slowest bodies give way until there is room for n bytes and the reserve.
// The caller may be among them. The mutex must be held.
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
		go b.interrupt() // it may wait for the connection's lock
	}
}

// speed returns bytes per second; a young body counts as faster than any other.
func (b *Arrival) speed(now time.Time) float64 {
	age := now.Sub(b.begun)
	speed := float64(b.bytes) / max(age, time.Millisecond).Seconds()
	if age < youth {
		speed += 1e12
	}
	return speed
}

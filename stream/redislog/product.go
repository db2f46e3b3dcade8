package redislog

import (
	"slices"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/groupcommit"
	"github.com/liveactivity/liveactivity/stream"
)

// product is what this process knows of a product's log: its end.
type product struct {
	log        *Log
	id         string
	keys       keys
	commitKeys []string
	commits    *groupcommit.Group[*commit]

	// When Redis could not be reached last, and why. It belongs to whoever
	// commits.
	failedAt time.Time
	failure  error

	mu      sync.Mutex
	tail    *stream.Tail
	started bool      // the tail has its place in the log
	known   stream.ID // there is nothing newer, as far as this process has heard
	// known was the newest ID at that time, and this subscription has told of
	// everything since.
	checkedAt    time.Time
	subscription uint64
	fetch        *fetch // that is under way

	closed bool
	end    *stream.ID // after Close: where reading ends
}

func newProduct(l *Log, id string) *product {
	k := keysOf(l.opts.Prefix, id)
	p := &product{log: l, id: id, keys: k, tail: stream.NewTail(stream.ID{}),
		commitKeys: []string{k.meta, k.log, k.seen, k.names, k.never}}
	p.commits = groupcommit.New(maxCommits, p.commitAll)
	return p
}

// heard returns the newest ID that this process has heard of.
func (p *product) heard() stream.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// seen returns the newest ID that may have been read here. What is appended
// comes after it, even when Redis has lost it.
func (p *product) seen() stream.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return later(p.known, p.tail.Bounds().Newest)
}

// Changed implements [stream.Log].
func (l *Log) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	closed := l.closed.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	if closed && !p.closed {
		p.closeLocked()
	}
	return p.tail.Changed()
}

// hear takes note that there is an entry of that ID.
func (p *product) hear(id stream.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known.Compare(id) < 0 {
		p.known = id
		p.tail.Notify()
	}
}

// wake wakes everybody who waits.
func (p *product) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail.Notify()
}

// check takes note of the newest ID there was at a time, when this was the
// subscription.
func (p *product) check(newest stream.ID, at time.Time, subscription uint64) {
	if p.known.Compare(newest) < 0 {
		p.known = newest
	}
	if at.After(p.checkedAt) {
		p.checkedAt, p.subscription = at, subscription
	}
}

// appended takes over entries of this process. Where the tail ends right
// before them it goes on with them; else readers fetch them.
func (p *product) appended(entries []stream.Entry, previous, first, floor stream.ID, began time.Time, subscription uint64) {
	kept := make([]stream.Entry, len(entries))
	n := 0
	for _, e := range entries {
		n += len(e.Keys)
	}
	keys := make([]activity.Key, 0, n)
	for i := range entries {
		entries[i].Encode(stream.ID{Milli: first.Milli, Seq: first.Seq + uint64(i)})
		kept[i] = entries[i]
		start := len(keys)
		keys = append(keys, entries[i].Keys...)
		kept[i].Keys = keys[start:len(keys):len(keys)]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.check(entries[len(entries)-1].ID, began, subscription)
	if !p.started {
		p.restart(previous)
	}
	if p.tail.Bounds().Newest == previous {
		p.extend(kept)
	}
	p.tail.DropUpTo(floor, nil)
	p.tail.Notify()
}

// restart makes the tail begin after an ID.
func (p *product) restart(at stream.ID) {
	p.tail.Notify() // who waits, waits for another tail
	p.tail, p.started = stream.NewTail(at), true
	if p.closed {
		p.tail.Close()
	}
}

// extend adds those of the entries that the tail does not have. They must go
// on where it ends, or before.
func (p *product) extend(entries []stream.Entry) {
	newest := p.tail.Bounds().Newest
	fresh := slices.IndexFunc(entries, func(e stream.Entry) bool { return e.ID.Compare(newest) > 0 })
	if fresh >= 0 {
		p.tail.Add(entries[fresh:]...)
		p.tail.Shrink(p.log.opts.TailBytes, nil)
	}
}

// dropUpTo forgets what Redis has dropped.
func (p *product) dropUpTo(floor stream.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail.DropUpTo(floor, nil)
}

// expire forgets what is too old.
func (p *product) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
}

func (p *product) expireLocked() {
	p.tail.DropUpTo(stream.IDAt(time.Now().Add(-p.log.opts.Retention.TTL)), nil)
}

// close ends reading after what there is now.
func (p *product) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked()
}

func (p *product) closeLocked() {
	if !p.closed {
		p.closed = true
		p.tail.Close()
	}
}

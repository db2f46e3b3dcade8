package redislog

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/groupcommit"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// product is the end of a product's log, as far as this process knows it. Methods that take no
// lock are called with mu held, except the ones that commit.
//
// mu guards the fields below it, except erased, which guards itself. The tail has every
// entry between its bounds. If it ends before known, readers fetch the entries in between.
// isCurrent reports whether the log in Redis ends at known.
type product struct {
	log        *Log
	id         string
	keys       keys
	scriptKeys []string // of the scripts that change it
	commits    *groupcommit.Group[*commit]

	// These belong to the goroutine that commits.
	failedAt time.Time // when Redis was last found unreachable
	failure  error     // and why
	turn     time.Time // when the next commit may be sent

	version atomic.Uint64      // the newest that this process knows of
	fetches singleflight.Group // of one key

	mu        sync.Mutex
	tail      *engine.Tail
	share     *fair.Share[*product]
	erased    engine.Erasures
	erasedTo  eventlog.ID // the newest erasure read from Redis
	started   bool        // the tail has its position in the log
	known     eventlog.ID // the newest ID that this process has heard of
	checkedAt time.Time   // known was the newest ID then
	news      time.Time   // known changed last
	watched   bool        // a reader has come to the end, or waited for a change
	unused    eventlog.ID // no entry up to this ID ever was, or zero

	committing  bool      // a commit is in flight
	committedAt time.Time // of the last commit
	tidiedAt    time.Time // by Run

	announced eventlog.ID // the newest ID announced during the commit in flight

	end *eventlog.ID // after Close: where reading ends
}

// newProduct returns a product about which nothing is known. It does not ask Redis.
func newProduct(l *Log, id string) *product {
	k := keysOf(l.opts.Prefix, id)
	p := &product{log: l, id: id, keys: k, tail: engine.NewTail(eventlog.ID{}), scriptKeys: k.changed()}
	p.share = l.shares.Join(p)
	p.commits = groupcommit.New(maxCommits, p.commitAll)
	if l.closed.Load() {
		p.tail.Close()
	}
	return p
}

// arguments returns the arguments of a script that changes the product: the common ones, and then
// more.
func (p *product) arguments(more ...any) []any {
	r := p.log.opts.Retention
	return append([]any{milliseconds(r.TTL), r.MaxBytes, r.StateMaxBytes / 2}, more...)
}

// sawVersion records an assigned version, unless a newer one is known. It takes no lock.
func (p *product) sawVersion(v uint64) {
	for known := p.version.Load(); known < v && !p.version.CompareAndSwap(known, v); known = p.version.Load() {
	}
}

// Changed implements [eventlog.Log]. From the first call on, the product has readers, and
// poll asks Redis about it.
func (l *Log) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = true
	return p.tail.Changed()
}

// announce is learn, but defers the newest ID until the commit in flight, if any, is done: the
// entry may be the commit's own, and readers need not ask Redis for an entry that is about to be
// in the tail.
func (p *product) announce(newest, trimmedTo eventlog.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetUpTo(trimmedTo)
	if p.committing {
		p.announced = eventlog.Later(p.announced, newest)
		return
	}
	p.hear(newest)
}

// setCommitting records whether a commit is in flight. When the commit ends, it applies
// the announcement that was deferred.
func (p *product) setCommitting(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.committing = is; !is {
		p.committedAt = time.Now()
		p.hear(p.announced)
		p.announced = eventlog.ID{} // Redis may lose it
	}
}

// hear records that an entry with that ID exists, and wakes the readers if it is news.
func (p *product) hear(id eventlog.ID) {
	if p.known.Compare(id) < 0 {
		p.known, p.news = id, time.Now()
		p.tail.Notify()
	}
}

// polled records the newest ID in Redis as of a time before the request. If Redis has lost
// entries, it wakes the readers, whose requests inform Redis of the loss. It takes the lock.
func (p *product) polled(newest, trimmedTo eventlog.ID, at time.Time) {
	p.announce(newest, trimmedTo)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch order := p.known.Compare(newest); {
	case order == 0:
		p.checked(newest, at)
	case order > 0 && p.checkedAt.Before(at):
		p.checkedAt = time.Time{}
		p.tail.Notify()
	}
}

// checked records the newest ID as of a time before the request.
func (p *product) checked(newest eventlog.ID, at time.Time) {
	p.hear(newest)
	p.checkedAt = schedule.Later(p.checkedAt, at)
}

// appended gives entries of this process their IDs. If the tail ends right before them, at
// previous, they extend it; otherwise another process has appended in between, and readers
// fetch the entries. It takes the lock. began is a time before the commit was sent.
func (p *product) appended(entries []eventlog.Entry, previous, first, trimmedTo eventlog.ID, lost []lostRange,
	began time.Time) {
	for i := range entries {
		entries[i].Encode(eventlog.ID{Milli: first.Milli, Seq: first.Seq + uint64(i)})
	}
	p.erased.Add(entries...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checked(entries[len(entries)-1].ID, began)
	p.lose(lost)
	if !p.started {
		p.restart(previous)
	}
	if p.tail.Bounds().Newest == previous {
		p.extend(entries)
	}
	p.forgetUpTo(trimmedTo)
	p.tail.Notify()
}

// forgetUpTo forgets entries of the tail up to an ID, and accounts for the rest.
func (p *product) forgetUpTo(id eventlog.ID) {
	p.tail.DropUpTo(id, nil)
	p.erased.DropUpTo(id)
	p.account()
}

// account accounts for the tail's bytes. A tail with a single entry is not
// shortened.
func (p *product) account() { p.share.Set(p.tail.Bytes(), p.tail.Len() > 1) }

// balance shortens tails while all products together hold too much. The entries stay in
// Redis. The caller holds no product's lock.
func (l *Log) balance() {
	for p, over := l.shares.Excess(); over; p, over = l.shares.Excess() {
		p.mu.Lock()
		p.tail.Shrink(p.tail.Bytes()-1, nil) // by one entry: then another product may be next
		p.account()
		p.mu.Unlock()
	}
}

// restart replaces the tail with an empty one that begins after an ID. Readers before
// it read from Redis.
func (p *product) restart(at eventlog.ID) {
	p.tail.Notify() // waiters must wait for the new tail
	closed := p.tail.Closed()
	p.tail, p.started = engine.NewTail(at), true
	if closed {
		p.tail.Close()
	}
}

// extend adds the entries that the tail does not have. They must continue from its end,
// or from a place before it. The tail keeps the newest ones, up to TailBytes.
func (p *product) extend(entries []eventlog.Entry) {
	newest := p.tail.Bounds().Newest
	fresh := slices.IndexFunc(entries, func(e eventlog.Entry) bool { return e.ID.Compare(newest) > 0 })
	if fresh >= 0 {
		p.tail.Add(entries[fresh:]...)
		p.tail.Shrink(p.log.opts.TailBytes, nil)
	}
}

// learn records the newest ID in Redis, and forgets entries that Redis has dropped or lost.
// Zero and nil mean that there is no news. It takes the lock.
func (p *product) learn(newest, trimmedTo eventlog.ID, lost []lostRange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hear(newest)
	p.lose(lost)
	p.forgetUpTo(trimmedTo)
}

// expire forgets the entries that are too old by the clock of this process. Redis uses its
// own clock.
func (p *product) expire() {
	if p.tail.Len() > 0 {
		p.forgetUpTo(eventlog.IDAt(time.Now().Add(-p.log.opts.Retention.TTL)))
	}
}

package redislog

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/groupcommit"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// product is the end of a product's log, as far as this process knows it. Methods that take no
// lock are called with mu held, except commits.
//
// mu guards the fields below it, but erased, which guards itself. The tail has every entry
// between its bounds. Where it ends before known, readers fetch the entries between; whether
// the log of Redis ends at known, isCurrent says.
type product struct {
	log        *Log
	id         string
	keys       keys
	scriptKeys []string // of the scripts that change it
	commits    *groupcommit.Group[*commit]

	// These belong to the goroutine that commits.
	failedAt time.Time // when Redis could not be reached last
	failure  error     // and why
	turn     time.Time // of the next commit

	version atomic.Uint64 // the newest that this process knows of

	mu        sync.Mutex
	tail      *engine.Tail
	share     *fair.Share[*product]
	erased    engine.Erasures
	erasedTo  eventlog.ID // of these, the newest that Redis has named
	started   bool        // the tail has its place in the log
	known     eventlog.ID // there is nothing newer, as far as this process has heard
	checkedAt time.Time   // known was the newest ID then
	fetch     *fetch      // in flight
	news      time.Time   // known changed last
	watched   bool        // a reader has come to the end, or waited for a change
	unused    eventlog.ID // no entry up to this ID ever was, or zero

	committing  bool      // a commit is in flight
	committedAt time.Time // of the last commit
	tidiedAt    time.Time // by Run

	announced eventlog.ID // newest that was announced meanwhile

	closed bool
	end    *eventlog.ID // after Close: where reading ends
}

// newProduct returns a product of which nothing is known. Redis is not asked.
func newProduct(l *Log, id string) *product {
	k := keysOf(l.opts.Prefix, id)
	p := &product{log: l, id: id, keys: k, tail: engine.NewTail(eventlog.ID{}),
		scriptKeys: []string{k.meta, k.log, k.seen, k.names, k.docs, k.acts, k.never}}
	p.share = l.shares.Join(p)
	p.commits = groupcommit.New(maxCommits, p.commitAll)
	return p
}

// arguments returns the arguments of a script that changes the product: those that all of them have, and then more.
func (p *product) arguments(more ...any) []any {
	r := p.log.opts.Retention
	return append([]any{milliseconds(r.TTL), r.MaxBytes, r.StateMaxBytes / 2}, more...)
}

// sawVersion records an assigned version, unless a newer one is known. It takes no lock.
func (p *product) sawVersion(v uint64) {
	for known := p.version.Load(); known < v && !p.version.CompareAndSwap(known, v); known = p.version.Load() {
	}
}

// Changed implements [eventlog.Log]. From the first call on, the product is one with readers,
// about which poll asks Redis.
func (l *Log) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	closed := l.closed.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	if closed {
		p.close()
	}
	p.watched = true
	return p.tail.Changed()
}

// announce is learn, but hears of the newest ID after the commit in flight, if there is one: the entry may be the
// commit's, and readers then need not ask Redis for an entry that is about to be in the tail.
func (p *product) announce(newest, trimmedTo eventlog.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetUpTo(trimmedTo)
	if p.committing {
		p.announced = engine.Later(p.announced, newest)
		return
	}
	p.hear(newest)
}

// setCommitting records whether a commit is in flight. At its end the product hears of the
// announcement that came meanwhile.
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

// polled records the newest ID in Redis as of a time, which is before the question. Where Redis
// has lost entries, readers ask, so that it learns of that. It takes the lock.
func (p *product) polled(newest, trimmedTo eventlog.ID, at time.Time) {
	p.announce(newest, trimmedTo)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch order := p.known.Compare(newest); {
	case order == 0:
		p.check(newest, at)
	case order > 0 && p.checkedAt.Before(at):
		p.checkedAt = time.Time{}
		p.tail.Notify()
	}
}

// check records the newest ID as of a time, which is before the question. It wakes no reader.
func (p *product) check(newest eventlog.ID, at time.Time) {
	if p.known.Compare(newest) < 0 {
		p.known, p.news = newest, time.Now()
	}
	if at.After(p.checkedAt) {
		p.checkedAt = at
	}
}

// appended takes over entries of this process, which get their IDs. Where the tail ends right
// before them, at previous, it goes on with them; else another process has appended between,
// and readers fetch them. It takes the lock. began is a time before the commit was sent.
func (p *product) appended(entries []eventlog.Entry, previous, first, trimmedTo eventlog.ID, lost []lostRange,
	began time.Time) {
	for i := range entries {
		entries[i].Encode(eventlog.ID{Milli: first.Milli, Seq: first.Seq + uint64(i)})
	}
	p.erased.Add(entries...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.check(entries[len(entries)-1].ID, began)
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

// account accounts for the tail's bytes. A single entry is not given up.
func (p *product) account() { p.share.Set(p.tail.Bytes(), p.tail.Len() > 1) }

// balance makes tails shorter while all products together hold too much. The entries stay in
// Redis. The caller holds no product's lock.
func (l *Log) balance() {
	for {
		p, over := l.shares.Excess()
		if !over {
			return
		}
		p.mu.Lock()
		p.tail.Shrink(p.tail.Bytes()-1, nil) // by one entry: then another may be the one
		p.account()
		p.mu.Unlock()
	}
}

// restart makes the tail begin, empty, after an ID. Readers before it read from Redis.
func (p *product) restart(at eventlog.ID) {
	p.tail.Notify() // waiters wait for another tail
	p.tail, p.started = engine.NewTail(at), true
	if p.closed {
		p.tail.Close()
	}
}

// extend adds the entries that the tail does not have. They must go on where it ends, or
// before. It keeps the newest ones, up to TailBytes.
func (p *product) extend(entries []eventlog.Entry) {
	newest := p.tail.Bounds().Newest
	fresh := slices.IndexFunc(entries, func(e eventlog.Entry) bool { return e.ID.Compare(newest) > 0 })
	if fresh >= 0 {
		p.tail.Add(entries[fresh:]...)
		p.tail.Shrink(p.log.opts.TailBytes, nil)
	}
}

// learn records the newest ID in Redis, and forgets entries that Redis has dropped or lost.
// Zero and nil say nothing. It takes the lock.
func (p *product) learn(newest, trimmedTo eventlog.ID, lost []lostRange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hear(newest)
	p.lose(lost)
	p.forgetUpTo(trimmedTo)
}

// expire forgets the entries that are too old by the clock of this process. Redis goes by its
// own.
func (p *product) expire() {
	if p.tail.Len() > 0 {
		p.forgetUpTo(eventlog.IDAt(time.Now().Add(-p.log.opts.Retention.TTL)))
	}
}

// close ends reading after the entries that exist now, which look finds out. It may be called
// again.
func (p *product) close() {
	if !p.closed {
		p.closed = true
		p.tail.Close()
	}
}

// Package admission bounds the memory that requests hold while they are served:
// a [Pool] the bytes that were unpacked, [Arrivals] those that still arrive.
package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrBusy reports that there was no room within the time to wait.
var ErrBusy = errors.New("admission: too much is held already")

// Pool bounds how many bytes are held at once, in all and by each key, which
// names a product. A caller that does not fit waits: in the order of arrival
// among those of its key, in turn with other keys. It is safe for concurrent use.
type Pool struct {
	total, share, waitShare int64

	mu   sync.Mutex
	used int64
	keys map[string]*holder
	turn []*holder // those with waiters, the next to be served first
}

// holder is a key, its bytes and its waiters. It is dropped once it has neither.
type holder struct {
	key         string
	used        int64
	waiting     []*waiter
	waitingHold int64 // sum of what the waiters hold meanwhile
}

// waiter is a call that waits for n bytes, and holds others meanwhile.
type waiter struct {
	n, hold int64
	ready   chan struct{} // closed when n is held
}

// NewPool returns a pool of total bytes, of which a key holds at most share. While
// they wait, the callers of a key may hold waitShare bytes elsewhere.
func NewPool(total, share, waitShare int64) *Pool {
	return &Pool{total: total, share: share, waitShare: waitShare, keys: map[string]*holder{}}
}

// Acquire holds n bytes for the key until release is called, once. It waits for room until the
// deadline or until ctx ends, and then returns an error that wraps ErrBusy; it does not wait
// when the waiting callers of the key, each with the bytes it holds elsewhere meanwhile, would
// exceed their share. A request larger than the pool or a share counts as large as that, and is
// served alone. A caller overtakes no waiting one, unless that one's key holds its share.
func (p *Pool) Acquire(ctx context.Context, deadline time.Time, key string, n, hold int64) (release func(), err error) {
	n = min(n, p.total, p.share)
	p.mu.Lock()
	h := p.keys[key]
	if h == nil {
		h = &holder{key: key}
		p.keys[key] = h
	}
	if len(p.turn) == 0 && p.fits(h, n) {
		p.take(h, n)
		p.mu.Unlock()
		return func() { p.release(h, n) }, nil
	}
	if h.waitingHold+hold > p.waitShare && len(h.waiting) > 0 {
		p.mu.Unlock()
		return nil, ErrBusy
	}
	w := &waiter{n: n, hold: hold, ready: make(chan struct{})}
	p.enqueue(h, w)
	p.serve()
	p.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	select {
	case <-w.ready:
	case <-ctx.Done():
		if !p.leave(h, w) {
			return nil, errors.Join(ErrBusy, context.Cause(ctx))
		}
	}
	return func() { p.release(h, n) }, nil
}

// fits reports whether n bytes more are within the bounds. It, take, enqueue, serve, dequeue
// and forget are called with mu held.
func (p *Pool) fits(h *holder, n int64) bool { return p.used+n <= p.total && h.used+n <= p.share }

func (p *Pool) take(h *holder, n int64) { p.used, h.used = p.used+n, h.used+n }

// enqueue puts a waiter behind others of its key, and its key, if it is new to the line, behind
// other keys.
func (p *Pool) enqueue(h *holder, w *waiter) {
	if len(h.waiting) == 0 {
		p.turn = append(p.turn, h)
	}
	h.waiting = append(h.waiting, w)
	h.waitingHold += w.hold
}

// serve gives the free bytes to the waiters. A key that has its share is passed
// over; when the pool has no room for the one whose turn it is, all wait, so that none
// is overtaken forever.
func (p *Pool) serve() {
	for i := 0; i < len(p.turn); {
		h := p.turn[i]
		w := h.waiting[0]
		switch {
		case h.used+w.n > p.share:
			i++
			continue
		case p.used+w.n > p.total:
			return
		}
		p.take(h, w.n)
		close(w.ready)
		p.dequeue(h, 0)
		if len(h.waiting) > 0 { // to the end of the line
			p.turn = append(slices.Delete(p.turn, i, i+1), h)
		}
		i = 0
	}
}

// dequeue forgets a waiter.
func (p *Pool) dequeue(h *holder, i int) {
	h.waitingHold -= h.waiting[i].hold
	h.waiting = slices.Delete(h.waiting, i, i+1)
	if len(h.waiting) == 0 {
		i := slices.Index(p.turn, h)
		p.turn = slices.Delete(p.turn, i, i+1)
	}
}

// leave takes a waiter out of the line, and reports whether it was served first.
func (p *Pool) leave(h *holder, w *waiter) (served bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(h.waiting, w)
	if i < 0 {
		return true
	}
	p.dequeue(h, i)
	p.serve() // those behind it may fit
	p.forget(h)
	return false
}

// release gives bytes back, to the waiters first.
func (p *Pool) release(h *holder, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used, h.used = p.used-n, h.used-n
	p.serve()
	p.forget(h)
}

// forget drops a key that holds nothing.
func (p *Pool) forget(h *holder) {
	if h.used == 0 && len(h.waiting) == 0 {
		delete(p.keys, h.key)
	}
}

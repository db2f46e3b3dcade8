// Package admission limits the memory that requests hold while they are served:
// a [Pool] limits the decoded bytes, and [Arrivals] the bytes that are still
// arriving.
package admission

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrBusy means that there was no room within the time to wait.
var ErrBusy = errors.New("admission: too much is held already")

// Pool limits the bytes held at any time, in total and per key, where a key is a
// product's ID. A caller that does not fit waits: in order of arrival among those
// of its key, and in turn with other keys. It is safe for concurrent use.
type Pool struct {
	total, share, waitShare int64

	all *semaphore.Weighted // of total bytes

	mu   sync.Mutex
	keys map[string]*holder
}

// holder is a key with callers. mu guards the counts.
type holder struct {
	room        *semaphore.Weighted // of share bytes
	line        *semaphore.Weighted // has room for one: the waiter that is in line with other keys
	callers     int                 // callers that hold bytes or wait
	waiting     int                 // of these, the ones that wait
	waitingHold int64               // bytes that the waiting callers hold elsewhere
}

// NewPool returns a pool of total bytes, of which a key holds at most share. While
// they wait, a key's callers may hold waitShare bytes elsewhere.
func NewPool(total, share, waitShare int64) *Pool {
	return &Pool{total: total, share: share, waitShare: waitShare, all: semaphore.NewWeighted(total),
		keys: map[string]*holder{}}
}

// Acquire holds n bytes for the key until release is called, once. It waits for room until the
// deadline or until ctx ends, and then returns an error that wraps ErrBusy. It does not wait if
// the key's waiting callers, with the bytes that each holds elsewhere, would exceed their
// share. A request larger than the pool or a share counts as that size, and is served alone. A
// caller never overtakes a waiting one, unless the other's key holds its full share.
func (p *Pool) Acquire(ctx context.Context, deadline time.Time, key string, n, hold int64) (release func(), err error) {
	n = min(n, p.total, p.share)
	h, fits, err := p.enter(key, n, hold)
	if err != nil {
		return nil, err
	}
	if !fits {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		if err := p.wait(ctx, h, n, hold); err != nil {
			p.leave(key, h)
			return nil, errors.Join(ErrBusy, context.Cause(ctx))
		}
	}
	return func() {
		h.room.Release(n)
		p.all.Release(n)
		p.leave(key, h)
	}, nil
}

// enter registers a caller of the key, and reports whether it already holds its bytes. If not, it
// must wait, or enter fails if too many bytes are waiting.
func (p *Pool) enter(key string, n, hold int64) (h *holder, fits bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h = p.keys[key]
	if h == nil {
		h = &holder{room: semaphore.NewWeighted(p.share), line: semaphore.NewWeighted(1)}
		p.keys[key] = h
	}
	fits = h.waiting == 0 && p.try(h, n)
	if !fits && h.waiting > 0 && h.waitingHold+hold > p.waitShare {
		return nil, false, ErrBusy
	}
	if !fits {
		h.waiting, h.waitingHold = h.waiting+1, h.waitingHold+hold
	}
	h.callers++
	return h, fits, nil
}

// try holds n bytes if there is room and nobody waits for it.
func (p *Pool) try(h *holder, n int64) bool {
	if !h.room.TryAcquire(n) {
		return false
	}
	if !p.all.TryAcquire(n) {
		h.room.Release(n)
		return false
	}
	return true
}

// wait holds n bytes once there is room, or returns ctx's error.
func (p *Pool) wait(ctx context.Context, h *holder, n, hold int64) error {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		h.waiting, h.waitingHold = h.waiting-1, h.waitingHold-hold
	}()
	if err := h.line.Acquire(ctx, 1); err != nil {
		return err
	}
	defer h.line.Release(1)
	if err := h.room.Acquire(ctx, n); err != nil {
		return err
	}
	err := p.all.Acquire(ctx, n)
	if err != nil {
		h.room.Release(n)
	}
	return err
}

// leave removes a caller, and its key if it has no other.
func (p *Pool) leave(key string, h *holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.callers--; h.callers == 0 {
		delete(p.keys, key)
	}
}

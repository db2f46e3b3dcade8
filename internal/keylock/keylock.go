// Package keylock locks by key: only one caller at a time holds a key.
//
//	if err := locks.Lock(ctx, "session"); err != nil {
//		return err
//	}
//	defer locks.Unlock("session")
package keylock

import (
	"context"
	"slices"
	"sync"
)

// Locks are the locks of any number of keys. The zero value is ready for use, and safe for
// concurrent use. A key that nobody holds costs nothing.
type Locks struct {
	mu sync.Mutex
	// held has each key's waiting callers, in order: a key is passed on by closing the
	// channel of the first.
	held map[string][]chan struct{}
}

// Lock waits until the caller holds all of the keys, which must be distinct. If ctx ends first, it
// returns ctx's error, and the caller holds none. Callers get a key in the order in which they
// asked for it. A caller that holds a key must not lock another one.
func (l *Locks) Lock(ctx context.Context, keys ...string) error {
	keys = slices.Sorted(slices.Values(keys)) // a common order prevents deadlock
	for i, key := range keys {
		if err := l.lock(ctx, key); err != nil {
			l.Unlock(keys[:i]...)
			return err
		}
	}
	return nil
}

func (l *Locks) lock(ctx context.Context, key string) error {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string][]chan struct{}{}
	}
	waiting, isHeld := l.held[key]
	if !isHeld {
		l.held[key] = nil
		l.mu.Unlock()
		return nil
	}
	handed := make(chan struct{})
	l.held[key] = append(waiting, handed)
	l.mu.Unlock()
	select {
	case <-handed:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		l.leave(key, handed)
		return err
	}
	return nil
}

// leave removes a caller from the waiting ones.
func (l *Locks) leave(key string, handed chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.held[key], handed); at >= 0 {
		l.held[key] = slices.Delete(l.held[key], at, at+1)
	} else { // the key has just been passed to this caller
		l.pass(key)
	}
}

// Unlock releases keys that the caller holds.
func (l *Locks) Unlock(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.pass(key)
	}
}

// pass passes a key to the first waiting caller, or frees it. mu must be held.
func (l *Locks) pass(key string) {
	waiting := l.held[key]
	if len(waiting) == 0 {
		delete(l.held, key)
		return
	}
	close(waiting[0])
	l.held[key] = waiting[1:]
}

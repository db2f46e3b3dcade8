// Package keylock locks by key: one caller at a time holds a key.
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

// Locks are the locks of any number of keys. The zero value is ready for use, by any number of
// callers. A key that nobody holds costs nothing.
type Locks[K comparable] struct {
	mu sync.Mutex
	// held has the waiting callers of each key, in order: a key is handed over by closing the
	// channel of the first.
	held map[K][]chan struct{}
}

// Lock returns when the key is the caller's, or the error of ctx if that ends while the caller
// waits. Callers get a key in the order in which they asked for it.
func (l *Locks[K]) Lock(ctx context.Context, key K) error {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[K][]chan struct{}{}
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

// leave takes a caller out of those that wait.
func (l *Locks[K]) leave(key K, handed chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.held[key], handed); at >= 0 {
		l.held[key] = slices.Delete(l.held[key], at, at+1)
	} else { // it has just been handed over
		l.pass(key)
	}
}

// Unlock gives back keys that the caller holds.
func (l *Locks[K]) Unlock(keys ...K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.pass(key)
	}
}

// pass hands a key over to the first caller that waits for it, or frees it. mu is held.
func (l *Locks[K]) pass(key K) {
	waiting := l.held[key]
	if len(waiting) == 0 {
		delete(l.held, key)
		return
	}
	close(waiting[0])
	l.held[key] = waiting[1:]
}

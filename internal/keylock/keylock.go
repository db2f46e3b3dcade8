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
type Locks[K comparable] struct {
	mu sync.Mutex
	// held has each key's waiting callers, in order: a key is passed on by closing the
	// channel of the first.
	held map[K][]chan struct{}
}

// Lock waits until the caller holds the key. If ctx ends first, it returns ctx's error.
// Callers get a key in the order in which they asked for it.
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

// leave removes a caller from the waiting ones.
func (l *Locks[K]) leave(key K, handed chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.held[key], handed); at >= 0 {
		l.held[key] = slices.Delete(l.held[key], at, at+1)
	} else { // the key has just been passed to this caller
		l.pass(key)
	}
}

// Unlock releases keys that the caller holds.
func (l *Locks[K]) Unlock(keys ...K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.pass(key)
	}
}

// pass passes a key to the first waiting caller, or frees it. mu must be held.
func (l *Locks[K]) pass(key K) {
	waiting := l.held[key]
	if len(waiting) == 0 {
		delete(l.held, key)
		return
	}
	close(waiting[0])
	l.held[key] = waiting[1:]
}

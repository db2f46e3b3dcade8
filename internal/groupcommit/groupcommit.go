// Package groupcommit lets concurrent calls share the cost of a commit.
package groupcommit

import (
	"context"
	"slices"
	"sync"
)

// Group commits the values given to Do. While a commit is in flight, the values of other calls
// queue up, and are then committed together. So there is one commit at a time, in the order of
// the calls. A goroutine runs only while there is something to commit. Its methods are safe
// for concurrent use. mu is not held during a commit.
type Group[T any] struct {
	commit func([]T)
	max    int

	mu    sync.Mutex
	busy  bool       // whether a goroutine is committing
	queue []*call[T] // waiting calls, in order; guarded by mu, like busy
}

// call is one call of Do.
type call[T any] struct {
	value T
	done  chan struct{} // closed after the commit
}

// New returns a group that calls commit with at least one and at most max values. Each
// caller's outcome is part of the value. commit may keep the slice.
func New[T any](max int, commit func([]T)) *Group[T] {
	return &Group[T]{commit: commit, max: max}
}

// Do returns nil if the value was part of a commit, or the context's error if
// that ends first. In that case a value still in the queue is never committed.
// Otherwise its commit continues with an unknown outcome, and the value belongs
// to the commit.
func (g *Group[T]) Do(ctx context.Context, value T) error {
	c := &call[T]{value: value, done: make(chan struct{})}
	g.mu.Lock()
	g.queue = append(g.queue, c)
	if !g.busy {
		g.busy = true
		go g.run()
	}
	g.mu.Unlock()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		g.withdraw(c)
		return ctx.Err()
	}
}

// withdraw removes a call from the queue, if it is still there.
func (g *Group[T]) withdraw(c *call[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, c); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
	}
}

// run commits until there is nothing left.
func (g *Group[T]) run() {
	for calls := g.next(); calls != nil; calls = g.next() {
		g.commitAll(calls)
	}
}

// next returns the calls to commit together, or nil if there are none.
func (g *Group[T]) next() []*call[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(g.max, len(g.queue))
	if n == 0 {
		g.busy, g.queue = false, nil
		return nil
	}
	calls := g.queue[:n:n]
	g.queue = g.queue[n:]
	return calls
}

// commitAll commits the values of calls, and makes all calls return.
func (g *Group[T]) commitAll(calls []*call[T]) {
	values := make([]T, len(calls))
	for i, c := range calls {
		values[i] = c.value
	}
	g.commit(values)
	for _, c := range calls {
		close(c.done)
	}
}

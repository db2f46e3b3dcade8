// Package groupcommit lets concurrent calls share the cost of a commit.
package groupcommit

import "sync"

// Group commits what is given to Do. While a commit is under way the values of
// other calls gather; one of the callers then commits all of them at once. So
// there is one commit at a time, in the order of the calls, and no goroutine.
type Group[T any] struct {
	commit func([]T)
	max    int

	mu     sync.Mutex
	busy   bool // somebody commits
	queue  []T
	queued []chan bool // of the callers of queue: true makes one the next to commit, false says that it is done
}

// New returns a group that calls commit with at most max values. What commit
// tells each caller it tells through the values.
func New[T any](max int, commit func([]T)) *Group[T] {
	return &Group[T]{commit: commit, max: max}
}

// Do returns when the value was part of a commit.
func (g *Group[T]) Do(value T) {
	turn := make(chan bool, 1)
	g.mu.Lock()
	g.queue, g.queued = append(g.queue, value), append(g.queued, turn)
	lead := !g.busy
	g.busy = true
	g.mu.Unlock()
	if lead || <-turn {
		g.lead()
	}
}

// lead commits what is queued, starting with the caller's own, and passes on
// the turn.
func (g *Group[T]) lead() {
	g.mu.Lock()
	n := min(g.max, len(g.queue))
	values, callers := g.queue[:n:n], g.queued[:n:n]
	g.queue, g.queued = g.queue[n:], g.queued[n:]
	g.mu.Unlock()
	defer g.pass(callers)
	g.commit(values)
}

// pass tells the callers that they are done, and the next one to lead.
func (g *Group[T]) pass(done []chan bool) {
	for _, turn := range done[1:] {
		turn <- false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queued) == 0 {
		g.busy, g.queue, g.queued = false, nil, nil
		return
	}
	g.queued[0] <- true
}

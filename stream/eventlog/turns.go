package eventlog

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// turn is the exclusive right to work on a session of a product, or on a user outside any
// session. It is a right among the requests of one recorder: requests to other servers meet as
// conflicts of documents.
type turn struct {
	product string
	owner
}

// compare orders turns, by product, session and user.
func (t turn) compare(other turn) int {
	return cmp.Or(cmp.Compare(t.product, other.product), cmp.Compare(t.sessionID, other.sessionID),
		cmp.Compare(t.user, other.user))
}

// turns are the turns held and waited for. The zero value is ready for use, by any number of
// callers.
type turns struct {
	mu sync.Mutex
	// held has the waiting callers of each turn, in order: a turn is
	// handed over by closing the channel of the first.
	held map[turn][]chan struct{}
}

// take waits for all of the turns, or until ctx ends; then it has none of them. Callers get a
// turn in the order in which they asked for it. A caller that holds turns takes no more. Call
// done, once, to give them back; wanted is sorted and must not be changed before that.
func (t *turns) take(ctx context.Context, wanted []turn) (done func(), err error) {
	slices.SortFunc(wanted, turn.compare) // a common order prevents deadlock
	wanted = slices.Compact(wanted)
	for i, w := range wanted {
		if err := t.wait(ctx, w); err != nil {
			t.leave(wanted[:i])
			return nil, err
		}
	}
	return func() { t.leave(wanted) }, nil
}

// wait returns when the turn is the caller's.
func (t *turns) wait(ctx context.Context, w turn) error {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[turn][]chan struct{}{}
	}
	waiting, held := t.held[w]
	if !held {
		t.held[w] = nil
		t.mu.Unlock()
		return nil
	}
	handed := make(chan struct{})
	t.held[w] = append(waiting, handed)
	t.mu.Unlock()
	select {
	case <-handed:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(t.held[w], handed); at >= 0 {
		t.held[w] = slices.Delete(t.held[w], at, at+1)
	} else { // it has just been handed over
		t.pass(w)
	}
	return ctx.Err()
}

func (t *turns) leave(held []turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range held {
		t.pass(w)
	}
}

// pass hands a turn over to the first caller that waits for it, or frees it. mu is held.
func (t *turns) pass(w turn) {
	waiting := t.held[w]
	if len(waiting) == 0 {
		delete(t.held, w)
		return
	}
	close(waiting[0])
	t.held[w] = waiting[1:]
}

package eventlog

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// turn is the exclusive right to work on something of a product: a session, a
// user outside any session, or the filing of unfiled actions.
type turn struct {
	product, session, user string
	filing                 bool
}

func (t turn) compare(other turn) int {
	return cmp.Or(cmp.Compare(t.product, other.product), cmp.Compare(t.session, other.session), cmp.Compare(t.user, other.user))
}

// turns are the turns held and waited for, in order. The zero value is ready
// for use.
type turns struct {
	mu    sync.Mutex
	taken map[turn]*seat
}

// seat is the state of one turn.
type seat struct {
	free  chan struct{} // a semaphore of one: the holder's
	users int           // the holder and the waiters
}

// take waits for all of the turns, or until ctx ends. A caller that holds
// turns and takes more does so in the order of the products' turns, filing
// last. Call done to give them back.
func (t *turns) take(ctx context.Context, wanted []turn) (done func(), err error) {
	slices.SortFunc(wanted, turn.compare) // a common order prevents deadlock
	wanted = slices.Compact(wanted)
	held := make([]*seat, 0, len(wanted))
	done = func() { t.leave(wanted, held) }
	for _, w := range wanted {
		s, err := t.sit(ctx, w)
		if err != nil {
			done()
			return nil, err
		}
		held = append(held, s)
	}
	return done, nil
}

func (t *turns) sit(ctx context.Context, w turn) (*seat, error) {
	t.mu.Lock()
	if t.taken == nil {
		t.taken = map[turn]*seat{}
	}
	s, ok := t.taken[w]
	if !ok {
		s = &seat{free: make(chan struct{}, 1)}
		t.taken[w] = s
	}
	s.users++
	t.mu.Unlock()
	select {
	case s.free <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		t.stand(w, s)
		return nil, ctx.Err()
	}
}

// leave gives back the seats, which are those of the first of the turns.
func (t *turns) leave(wanted []turn, held []*seat) {
	for i, s := range held {
		<-s.free
		t.stand(wanted[i], s)
	}
}

// stand forgets a turn without holder or waiters.
func (t *turns) stand(w turn, s *seat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(t.taken, w)
	}
}

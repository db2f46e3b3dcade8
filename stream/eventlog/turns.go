package eventlog

import (
	"cmp"
	"context"
	"slices"

	"github.com/liveactivity/liveactivity/internal/keylock"
)

// turn is the exclusive right to work on a session of a product, or on a user outside any
// session. It excludes only requests of the same recorder: requests to other servers collide
// as conflicts of documents.
type turn struct {
	product string
	owner
}

// compare orders turns, by product, session and user.
func (t turn) compare(other turn) int {
	return cmp.Or(cmp.Compare(t.product, other.product), cmp.Compare(t.sessionID, other.sessionID),
		cmp.Compare(t.user, other.user))
}

// takeTurns waits for all the wanted turns, which must be distinct. If ctx ends first, it takes
// none. A caller that holds turns must not take more. Call done once to give them back; wanted is
// sorted, and must not be changed before that.
func takeTurns(ctx context.Context, turns *keylock.Locks[turn], wanted []turn) (done func(), err error) {
	slices.SortFunc(wanted, turn.compare) // a common order prevents deadlock
	for i, w := range wanted {
		if err := turns.Lock(ctx, w); err != nil {
			turns.Unlock(wanted[:i]...)
			return nil, err
		}
	}
	return func() { turns.Unlock(wanted...) }, nil
}

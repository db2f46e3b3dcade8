package schedule

import (
	"context"
	"time"
)

// Wake wakes a goroutine that waits for a due time: there may be work before it. It is safe for
// concurrent use, by one waiter at a time. It is a channel, for waits that listen to more.
type Wake chan struct{}

// NewWake returns a Wake without a signal.
func NewWake() Wake { return make(Wake, 1) }

// Signal ends the wait, or else the next one. It never blocks; signals that none has taken are one.
func (w Wake) Signal() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Await waits for a signal, until the time is over or ctx ends.
func (w Wake) Await(ctx context.Context, d time.Duration) {
	select {
	case <-w:
	case <-time.After(d):
	case <-ctx.Done():
	}
}

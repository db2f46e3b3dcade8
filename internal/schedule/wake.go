package schedule

import (
	"context"
	"time"
)

// Wake wakes a goroutine that waits for a due time, because there may be work earlier. It is
// safe for concurrent use, by one waiter at a time. It is a channel, so that a select can
// include it.
type Wake chan struct{}

// NewWake returns a Wake without a signal.
func NewWake() Wake { return make(Wake, 1) }

// Signal ends the current wait, or else the next one. It never blocks; pending signals merge into
// one.
func (w Wake) Signal() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Sleep waits for d, or returns the error of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Await waits for a signal, until d has passed or ctx ends.
func (w Wake) Await(ctx context.Context, d time.Duration) {
	select {
	case <-w:
	case <-time.After(d):
	case <-ctx.Done():
	}
}

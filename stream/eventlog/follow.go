package eventlog

import (
	"context"
	"time"
)

// storageRetry is the delay before a failed read of the log is retried.
const storageRetry = time.Second

// pace states when a follower reads again: after wait or, with orChange, when the
// log has changed, whichever comes first. A zero wait means immediately.
type pace struct {
	wait     time.Duration
	orChange bool
}

// follow is the loop of every follower of a product's log: readers of the stream and consumers in
// this process. It calls step, which reads after its cursor, processes the entries and advances, at
// the pace that step returns. It returns the first error of step, or ctx's error once ctx has
// ended.
func follow(ctx context.Context, log Log, productID string, step func(ctx context.Context) (pace, error)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		changed := log.Changed(productID) // before the log is read, so that no change is missed
		next, err := step(ctx)
		switch {
		case err != nil:
			return err
		case next.wait <= 0:
			continue
		case !next.orChange:
			changed = nil
		}
		timer.Reset(next.wait)
		select {
		case <-changed: // never when nil
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

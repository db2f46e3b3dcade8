package connector

import (
	"context"
	"errors"
	"sync"
	"time"
)

// gate lets the work on one account of a desk pass: side by side while the
// account answers, none while it limits us, and one at a time, to probe, while it
// is away.
type gate struct {
	mu      sync.Mutex
	until   time.Time     // closed until then
	failing time.Time     // since when the account is away; zero while it answers
	backoff time.Duration // before the next probe but one
	inside  int
	changed chan struct{} // closed when the gate may let more pass; nil without waiters
}

// Bounds of a gate.
const (
	maxInside    = 32
	firstBackoff = time.Second
	lastBackoff  = 10 * time.Second
)

// errClosed says that the gate is closed for a while.
var errClosed = errors.New("connector: the desk is away or limits the account")

// enter waits until the gate lets another one pass, who calls leave later. Without
// patience it returns errClosed rather than wait for longer than a moment for the
// account.
func (g *gate) enter(ctx context.Context, patient bool) error {
	for {
		changed, wait, ok := g.try(patient)
		if ok {
			return nil
		}
		if changed == nil {
			return errClosed
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// try is enter without waiting. If it fails it returns when to try again; changed
// is nil when it is not worth it.
func (g *gate) try(patient bool) (changed <-chan struct{}, wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	limit, isAway := maxInside, !g.failing.IsZero()
	if isAway {
		limit = 1
	}
	wait = time.Until(g.until)
	if wait <= 0 && g.inside < limit {
		g.inside++
		return nil, 0, true
	}
	if !patient && (isAway || wait > moment) {
		return nil, 0, false
	}
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	if wait <= 0 {
		wait = time.Minute // until somebody leaves
	}
	return g.changed, wait, false
}

// moment is how long the impatient wait for an account.
const moment = time.Second

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.wake()
}

func (g *gate) wake() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// pause closes the gate for a time.
func (g *gate) pause(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.close(d)
}

func (g *gate) close(d time.Duration) {
	if until := time.Now().Add(d); until.After(g.until) {
		g.until = until
	}
}

// failed records that the account is away, and closes the gate for at least the
// time that it asked for. It reports whether that is news.
func (g *gate) failed(asked time.Duration) (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first = g.failing.IsZero(); first {
		g.failing, g.backoff = time.Now(), firstBackoff
	} else if time.Now().Before(g.until) && asked == 0 {
		return false // one of those that were inside when the first failed
	}
	g.close(max(asked, g.backoff))
	g.backoff = min(2*g.backoff, lastBackoff)
	return first
}

// answered records that the account answers, and returns for how long it was
// away.
func (g *gate) answered() (away time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failing.IsZero() {
		return 0
	}
	away = time.Since(g.failing)
	g.failing = time.Time{}
	g.wake()
	return away
}

// isAway reports whether the account is away.
func (g *gate) isAway() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.failing.IsZero()
}

// isOpen reports whether the account answers and does not limit us.
func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failing.IsZero() && !time.Now().Before(g.until)
}

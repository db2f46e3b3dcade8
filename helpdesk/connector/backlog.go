package connector

import (
	"time"

	"github.com/liveactivity/liveactivity/internal/flow"
)

// Backlog returns how far the notes that this process writes for a product are behind its log.
// It is empty for a product that is not followed. Desks is never nil. Backlog reads memory only,
// in time proportional to the product's conversations.
func (c *Connector) Backlog(productID string) flow.Backlog {
	c.mu.Lock()
	d := c.followed[productID]
	c.mu.Unlock()
	if d == nil {
		return flow.Backlog{Desks: map[string]flow.Desk{}}
	}
	backlog, _ := d.backlog(time.Now())
	return backlog
}

// backlog returns the late work, and since when it is late for each desk that has had work, zero
// if none is late. It returns nothing while another process may hold the lease.
func (d *delivery) backlog(now time.Time) (all flow.Backlog, since map[string]time.Time) {
	all, since = flow.Backlog{Desks: map[string]flow.Desk{}}, map[string]time.Time{}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seeking {
		return all, since
	}
	for desk := range d.accounts {
		since[desk] = time.Time{}
	}
	for _, l := range d.lanes {
		if l.inTurns && l.noteFailures() == 0 && l.account.isOpen() {
			continue // it waits for its turn, and not for the desk
		}
		if l.isOverdue(now) {
			desk := all.Desks[l.account.desk]
			if desk.Parked++; l.noteFailures() > 0 {
				desk.Retrying++
			}
			all.Desks[l.account.desk] = desk
			since[l.account.desk] = sooner(since[l.account.desk], l.since)
		}
		if !l.since.IsZero() && (l.noteFailures() > 0 || !l.working && l.slot.IsSet() && !l.slot.Due().After(now)) {
			all.Lag = max(all.Lag, now.Sub(l.since))
		}
	}
	return all, since
}

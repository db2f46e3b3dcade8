package connector

import (
	"context"
	"errors"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

const (
	maxBatch  = 64              // lanes that are read from the log at once
	deskRetry = 5 * time.Second // before a desk is looked for again that is not configured
)

// serve works on the lanes of a desk as they become due, until ctx ends.
func (p *partition) serve(ctx context.Context, q *queue) error {
	gate := p.gate(p.productID, q.desk)
	for {
		if err := q.await(ctx); err != nil {
			return err
		}
		if err := gate.enter(ctx, true); err != nil {
			return err
		}
		product := p.product()
		desk, ok := product.find(q.desk)
		if ok {
			if err := p.serveDue(ctx, q, gate, desk.Desk, product.Notes); err != nil {
				return err
			}
			continue
		}
		gate.leave()
		p.logger.Warn("notes are late: the desk is not configured", "desk", q.desk)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(deskRetry):
		}
	}
}

// await returns when a lane is due.
func (q *queue) await(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := time.Hour
		if due, ok := q.next(); ok {
			wait = time.Until(due)
		}
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-q.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return ctx.Err()
}

// serveDue starts the work on lanes that are due. The gate was entered for the
// first of them. As long as it stays open the log is read for many at once; what is
// not begun when it closes goes back, so that nothing is held in memory meanwhile.
func (p *partition) serveDue(ctx context.Context, q *queue, gate *gate, desk helpdesk.Desk, notes Notes) error {
	n := maxBatch
	if gate.isAway() {
		n = 1
	}
	jobs, err := p.prepare(ctx, gate, q.pop(n), desk, notes)
	if err != nil || len(jobs) == 0 {
		gate.leave()
		return err
	}
	for i, j := range jobs {
		if i > 0 {
			err := gate.enter(ctx, false)
			if errors.Is(err, errClosed) {
				for _, rest := range jobs[i:] {
					rest.end(time.Unix(0, rest.lane.due))
				}
				return nil
			}
			if err != nil {
				return err
			}
		}
		p.spawn(func(ctx context.Context) error {
			defer gate.leave()
			return j.run(ctx)
		})
	}
	return nil
}

// gate returns the gate of a product's desk.
func (c *Connector) gate(productID, desk string) *gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := productID + "/" + desk
	g, ok := c.gates[key]
	if !ok {
		g = &gate{}
		c.gates[key] = g
	}
	return g
}

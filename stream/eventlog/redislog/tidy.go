package redislog

import (
	"context"
	"time"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Kinds of untidiness that a commit reports.
const (
	tidyNot  = iota
	tidyMuch // there is too much, or the log begins with what is too old
	tidyDue  // some of what was written first may have expired
)

// maxTidySteps is how many steps of tidying a commit waits for. What is left
// is for those after it, and for Run.
const maxTidySteps = 8

// tidyAfterCommit removes what the commits before it made too much.
func (p *product) tidyAfterCommit(ctx context.Context) {
	rank := -1
	if p.excess == tidyDue {
		rank = 0
	}
	p.excess = tidyNot
	for range maxTidySteps {
		more, _, _, err := p.tidyStep(ctx, rank, rank, 1)
		if err != nil || !more {
			return
		}
	}
}

// tidyAll removes everything that has expired or is too much, in steps.
func (p *product) tidyAll(ctx context.Context) error {
	docs, acts := 0, 0
	for more := true; more || docs >= 0 || acts >= 0; {
		var err error
		if more, docs, acts, err = p.tidyStep(ctx, docs, acts, 0); err != nil {
			return err
		}
	}
	return nil
}

// tidyStep removes a bounded part of what there is too much of, and of what has
// expired from these ranks on, only up to the first that has not for first 1. It returns whether there is more of the first,
// and where to go on with the second.
func (p *product) tidyStep(ctx context.Context, docs, acts, first int) (more bool, nextDocs, nextActs int, err error) {
	o := p.log.opts.Retention
	reply, err := p.log.eval(ctx, tidyScript, p.scriptKeys, milliseconds(o.TTL), o.MaxBytes, o.StateMaxBytes/2, docs, acts, first)
	if err == nil && len(reply) != 4 {
		err = errReply
	}
	if err != nil {
		return false, -1, -1, failed("tidy", err)
	}
	trimmedTo, err := parseID(reply[1])
	if err != nil {
		return false, -1, -1, err
	}
	p.dropUpTo(trimmedTo)
	left, _ := reply[0].(int64)
	d, _ := reply[2].(int64)
	a, _ := reply[3].(int64)
	return left > 0, int(d), int(a), nil
}

// Bounds of how often a product is tidied besides: eight times while something is kept, if it is written to.
const (
	minTidyInterval = time.Second
	maxTidyInterval = 10 * time.Minute
)

// tidy tidies the products that need it again and again, until ctx ends.
func (l *Log) tidy(ctx context.Context) {
	ticker := time.NewTicker(min(max(l.opts.Retention.TTL/8, minTidyInterval), maxTidyInterval))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, p := range l.all() {
			began := time.Now()
			if !p.untidy(began) {
				continue
			}
			if err := p.tidyAll(ctx); err != nil && ctx.Err() == nil {
				l.opts.Logger.Warn("cannot remove what has expired", "product_id", p.id, "err", err)
				break // the others cannot either, most likely
			}
			p.tidied(began)
		}
	}
}

// untidy reports whether this process has written to the product since it was tidied, or whether what it wrote last has
// expired since then. What other processes wrote they tidy.
func (p *product) untidy(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	expiry := p.committedAt.Add(p.log.opts.Retention.TTL)
	return p.committedAt.After(p.tidiedAt) || p.tidiedAt.Before(expiry) && now.After(expiry) && !p.committedAt.IsZero()
}

func (p *product) tidied(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tidiedAt = at
}

// Drop implements [eventlog.Log].
func (l *Log) Drop(ctx context.Context, productID string) error {
	if l.closed.Load() {
		return eventlog.ErrClosed
	}
	p := l.product(productID)
	for {
		known := p.seen()
		reply, err := l.eval(ctx, dropScript, p.scriptKeys, channel(l.opts.Prefix), productID, known.Milli, known.Seq)
		if err == nil && len(reply) != 2 {
			err = errReply
		}
		if err != nil {
			return failed("drop", err)
		}
		trimmedTo, err := parseID(reply[1])
		if err != nil {
			return err
		}
		p.hear(trimmedTo)
		p.dropUpTo(trimmedTo)
		if more, _ := reply[0].(int64); more == 0 {
			return nil
		}
	}
}

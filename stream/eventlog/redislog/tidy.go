package redislog

import (
	"context"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// tidyAll removes everything that has expired or exceeds a bound, and then adds up the sizes of
// the rest, in steps between which other calls can run: a step would skip names if others before
// them were removed. It stops at the first error; the next call starts over.
func (p *product) tidyAll(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, _, _, err = p.tidyStep(ctx, tidyNeither, 0, 0); err != nil {
			return err
		}
	}
	for _, order := range []int{tidyDocuments, tidyActivity} {
		for counted, bytes := int64(0), int64(0); counted >= 0; {
			var err error
			if _, counted, bytes, err = p.tidyStep(ctx, order, counted, bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// The data whose sizes a step adds up.
const (
	tidyNeither = iota
	tidyDocuments
	tidyActivity
)

// tidyStep removes a bounded part, and adds up the sizes of some documents or activity after the
// ones counted before. It returns whether there is more to remove, the total counted so far, or
// -1 at the end, and their bytes.
func (p *product) tidyStep(ctx context.Context, order int, counted, bytes int64) (
	more bool, nextCounted, nextBytes int64, err error) {
	reply, err := p.log.eval(ctx, tidyScript, p.scriptKeys, p.arguments(order, counted, bytes)...)
	if err != nil {
		return false, 0, 0, failed("tidy", err)
	}
	trimmedTo, err := parseID(reply[1])
	if err != nil {
		return false, 0, 0, err
	}
	p.learn(eventlog.ID{}, trimmedTo, nil)
	left, _ := reply[0].(int64)
	nextCounted, _ = reply[2].(int64)
	return left > 0, nextCounted, number(reply[3]), nil
}

// Bounds of the interval at which products are tidied, which is 1/16 of the retention's TTL: a product at
// rest must be tidied after its data have expired and before its keys expire, because Redis would remove a
// large key at once, during which it serves no one else.
const (
	minTidyInterval = time.Second
	maxTidyInterval = 10 * time.Minute
)

// tidy tidies the products that need it at each interval, one after another, until ctx
// ends.
func (l *Log) tidy(ctx context.Context) {
	interval := min(max(l.opts.Retention.TTL/16, minTidyInterval), maxTidyInterval)
	for schedule.Sleep(ctx, interval) == nil {
		for _, p := range l.products.All() {
			began := time.Now()
			if !p.untidy(began) {
				continue
			}
			if err := p.tidyAll(ctx); err != nil && ctx.Err() == nil {
				l.opts.Logger.Warn("cannot remove expired data", "product_id", p.id, "err", err)
				break // the others would most likely fail, too
			}
			p.tidied(began)
		}
	}
}

// untidy reports whether this process has written to the product since it was tidied, or whether its last write
// has expired since then. Other processes tidy after their own writes.
func (p *product) untidy(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	expiry := p.committedAt.Add(p.log.opts.Retention.TTL)
	return p.committedAt.After(p.tidiedAt) || p.tidiedAt.Before(expiry) && now.After(expiry) && !p.committedAt.IsZero()
}

// tidied records that the product was tidied by a call that began at that time: later writes
// make it untidy.
func (p *product) tidied(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tidiedAt = at
}

// Drop implements [eventlog.Log]. The first step ends the generations and removes the log;
// further steps, between which other calls can run, remove documents and activity. After an
// error some of them may be left for the next Drop.
func (l *Log) Drop(ctx context.Context, productID string, through document.Version) error {
	if l.closed.Load() {
		return eventlog.ErrClosed
	}
	p := l.product(productID)
	for {
		known, _ := p.memory()
		reply, err := l.eval(ctx, dropScript, p.scriptKeys,
			p.arguments(channel(l.opts.Prefix), productID, known.Milli, known.Seq, uint64(through))...)
		if err != nil {
			return failed("drop", err)
		}
		trimmedTo, err := parseID(reply[1])
		if err != nil {
			return err
		}
		p.learn(trimmedTo, trimmedTo, nil)
		if more, _ := reply[0].(int64); more == 0 {
			return nil
		}
	}
}

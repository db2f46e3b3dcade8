package boltlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

var _ eventlog.Log = (*Log)(nil)

// users is the [recent.Store] of a log. It is in memory, and files an action when its entry is
// published. Run files the entries that the file held when it was opened and, until it has
// caught up, the entries published since: in order, and each once.
//
//	filed is open     Run files entries from the file, publish files none; lookups wait
//	filed is closed   publish files; lookups are answered
//
// Run closes filed with the product's lock held, when it has filed the newest published entry,
// so no entry falls between the two.
type users struct{ log *Log }

// Activity implements [eventlog.Log].
func (l *Log) Activity() recent.Store { return users{l} }

// Recent implements [recent.Store].
func (u users) Recent(
	ctx context.Context, productID string, of recent.Subject, limit int,
) (recent.Snapshot, error) {
	if err := u.await(ctx, productID); err != nil {
		return recent.Snapshot{}, err
	}
	return u.log.users.Recent(ctx, productID, of, limit)
}

// Sessions implements [recent.Store].
func (u users) Sessions(
	ctx context.Context, productID, userID string) (ids []string, outside recent.Records, err error,
) {
	if err := u.await(ctx, productID); err != nil {
		return nil, nil, err
	}
	return u.log.users.Sessions(ctx, productID, userID)
}

// await waits until Run has filed the product's entries from the file, or ctx ends.
func (u users) await(ctx context.Context, productID string) error {
	select {
	case <-u.log.product(productID).filed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("boltlog: the log is being read back: %w", ctx.Err())
	}
}

// file files the actions of committed entries, unless Run has yet to reach them. It first
// applies a drop, because the filings are of entries after the drop. The product is locked.
func (l *Log) file(b *batch) {
	if b.dropped {
		l.users.Drop(b.p.id)
	}
	if b.p.isFiled() {
		l.users.File(b.p.id, b.filings...)
	}
}

// isFiled reports whether everything in the file has been filed. It never turns false again.
func (p *product) isFiled() bool {
	select {
	case <-p.filed:
		return true
	default:
		return false
	}
}

// Now implements [eventlog.Log].
func (l *Log) Now() time.Time { return time.Now() }

// fileRetry is how long Run waits before it retries a failed read of the file.
const fileRetry = time.Second

// Run implements [eventlog.Log]: it files the actions that the file held when it was opened,
// one product after another, and retries for as long as the file cannot be read. It never
// fails. Products created by this process are already filed.
func (l *Log) Run(ctx context.Context, report func(eventlog.Progress)) error {
	if report == nil {
		report = func(eventlog.Progress) {}
	}
	var progress eventlog.Progress
	var behind []*product
	for _, p := range l.all() {
		if !p.isFiled() {
			behind = append(behind, p)
			progress.Entries += int64(p.entries())
		}
	}
	for _, p := range behind {
		if !l.fileAll(ctx, p, &progress, report) {
			return nil
		}
	}
	progress.Done = true
	report(progress)
	<-ctx.Done()
	return nil
}

// entries returns the number of the product's entries in the file.
func (p *product) entries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.state.Entries)
}

// filedAtOnce is the largest number of entries that are filed together.
const filedAtOnce = 512

// fileAll files the entries of a product until none are left. It returns false if ctx ends before.
// It skips entries that are trimmed in the meantime. After an error it continues after the last
// filed entry, every fileRetry.
func (l *Log) fileAll(
	ctx context.Context, p *product, progress *eventlog.Progress, report func(eventlog.Progress),
) bool {
	var cursor eventlog.ID
	into := make([]eventlog.Entry, filedAtOnce)
	for !p.endFiling(cursor) {
		n, err := l.Read(ctx, p.id, cursor, into)
		if err == nil {
			err = l.fileOld(p, into[:n])
		}
		var gap *eventlog.GapError
		switch {
		case ctx.Err() != nil:
			return false
		case errors.As(err, &gap):
			cursor = gap.TrimmedTo
		case err != nil:
			l.logger.Warn("the log cannot be read back; retrying", "product_id", p.id, "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(fileRetry):
			}
		case n > 0:
			cursor = into[n-1].ID
			progress.Read += int64(n)
			report(*progress)
		}
	}
	return true
}

// endFiling reports whether everything up to the newest entry is filed; publish
// files the entries from then on.
func (p *product) endFiling(cursor eventlog.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cursor.Compare(p.tail.Bounds().Newest) < 0 {
		return false
	}
	close(p.filed)
	return true
}

// fileOld files entries that were read back, except those dropped in the meantime. The lock prevents
// a drop between the check and the filing.
func (l *Log) fileOld(p *product, entries []eventlog.Entry) (err error) {
	for i := range entries {
		if entries[i].Batch, err = entries[i].Decode(); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(entries) > 0 && entries[0].ID.Compare(p.trimmedTo) <= 0 {
		entries = entries[1:]
	}
	filings, err := engine.Filings(entries)
	if err != nil {
		return err
	}
	l.users.File(p.id, filings...)
	return nil
}

package boltlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A reader that keeps up is served from the tail. Others read the file, without the product's
// lock: a slow disk then holds up neither appends nor other readers. Both stop at the newest
// entry that was published.

// Read implements [eventlog.Log]. It applies erasures only to dst, without the product's lock.
func (l *Log) Read(_ context.Context, productID string, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	p := l.product(productID)
	n, err := l.read(p, after, dst)
	p.erased.Apply(dst[:n])
	return n, err
}

// read reads entries as they were appended, including entries erased since.
func (l *Log) read(p *product, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := l.expire(p); err != nil {
		return 0, err
	}
	if after == (eventlog.ID{}) && p.trimmedTo == p.state.Born { // nothing was ever dropped
		after = p.trimmedTo
	}
	if after.Compare(p.trimmedTo) < 0 {
		return 0, &eventlog.GapError{TrimmedTo: p.trimmedTo, Oldest: p.oldest}
	}
	newest := p.tail.Bounds().Newest
	if p.tail.Closed() && after.Compare(newest) >= 0 {
		return 0, eventlog.ErrClosed
	}
	if n, ok := p.tail.Read(after, dst); ok {
		return n, nil
	}
	p.mu.Unlock()
	// The file is read unlocked; of the deferred calls, this one runs first.
	defer p.mu.Lock()
	return l.readFile(p, after, newest, dst)
}

// readFile reads entries up to newest. Some may have been dropped since the caller
// checked, which is a gap like any other. p is not locked.
func (l *Log) readFile(p *product, after, newest eventlog.ID, dst []eventlog.Entry) (n int, err error) {
	size := 0
	err = l.view(func(tx *bolt.Tx) error {
		// The bucket exists: a tail begins after trimmedTo only if the file has entries.
		b := tx.Bucket(p.bucket)
		s, err := parseState(b, p.bucket)
		if err != nil {
			return err
		}
		if after.Compare(s.TrimmedTo) < 0 {
			return gapIn(b.Bucket(bucketLog), s.TrimmedTo, newest)
		}
		c := b.Bucket(bucketLog).Cursor()
		for k, v := c.Seek(keyAfter(after)); k != nil && n < len(dst) && size < eventlog.ReadBytes; k, v = c.Next() {
			e, err := parseEntry(k, v)
			if err != nil || e.ID.Compare(newest) > 0 {
				return err
			}
			dst[n] = e
			size += len(dst[n].Data)
			n++
		}
		return nil
	})
	var gap *eventlog.GapError
	switch {
	case errors.As(err, &gap):
		return 0, gap
	case err != nil:
		return 0, fmt.Errorf("boltlog: read: %w", err)
	}
	return n, nil
}

// gapIn returns the error of a reader whose cursor is before the entries that the bucket
// retains up to newest.
func gapIn(log *bolt.Bucket, trimmedTo, newest eventlog.ID) error {
	oldest, err := firstID(log)
	if err != nil {
		return err
	}
	if oldest.Compare(newest) > 0 {
		oldest = eventlog.ID{} // not published yet
	}
	return &eventlog.GapError{TrimmedTo: trimmedTo, Oldest: oldest}
}

// Bounds implements [eventlog.Log]. Lost stays zero: the disk loses nothing that was
// acknowledged.
func (l *Log) Bounds(_ context.Context, productID string) (eventlog.Bounds, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := l.expire(p)
	return eventlog.Bounds{TrimmedTo: p.trimmedTo, Oldest: p.oldest, Newest: p.tail.Bounds().Newest}, err
}

// Changed implements [eventlog.Log]. The channel is closed by publish and by Close.
func (l *Log) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail.Changed()
}

// expire hides entries that are too old now. The file still has them until a transaction
// removes them. It reads the file, with p locked, only if the oldest entry is too old.
func (l *Log) expire(p *product) error {
	old := p.tail.Expired(time.Now(), l.retention.TTL)
	if p.oldest == (eventlog.ID{}) || p.oldest.Compare(old) > 0 {
		return nil
	}
	newest := p.tail.Bounds().Newest
	if old.Compare(newest) >= 0 {
		p.trimTo(newest, eventlog.ID{})
		return nil
	}
	return l.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(p.bucket).Bucket(bucketLog).Cursor()
		next, _ := c.Seek(keyAfter(old))
		last, _ := c.Prev()
		if next == nil || last == nil {
			return nil // a commit to be published has removed them
		}
		oldest, err := parseID(next)
		trimmedTo, err2 := parseID(last)
		if err = errors.Join(err, err2); err == nil {
			p.trimTo(trimmedTo, oldest)
		}
		return err
	})
}

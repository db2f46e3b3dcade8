// Package boltlog is the [stream.Log] of one process that lasts: log and
// documents in one bbolt file.
//
//	entries, err := boltlog.Open("/var/lib/liveactivity", nil)
//	if err != nil {
//		return err
//	}
//	defer entries.Release()
//	recorder := stream.NewRecorder(entries, store, nil)
//
// What Append and Write acknowledge is on the disk (fdatasync): it survives
// kill -9 and a power failure. Calls that come while the disk is busy are
// committed together, in one transaction, so many clients at once cost little
// more than one.
//
// Recent entries are also kept in memory, where readers who keep up find them;
// readers far behind read the file. The event keys of all retained entries are
// in memory, some 40 bytes each. Lookups go to a store in memory that is
// filled by [stream.Replay] when the process starts.
//
// The file holds at most the retention's bytes of each product and, for bbolt's
// own, some quarter more; of a retention of a few megabytes it is up to as much
// again. It does not shrink: what expires makes room for what comes. One process
// at a time can have it open.
//
// Open checks the whole file, and refuses one that is damaged. What is damaged
// later makes calls fail, and the process lives.
package boltlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/groupcommit"
	"github.com/liveactivity/liveactivity/stream"
)

// FileName is the name of the file in its folder.
const FileName = "liveactivity.db"

// Options of a [Log]. Zero fields mean their defaults.
type Options struct {
	Retention stream.Retention // MaxBytes is stream.DefaultLastingMaxBytes
	TailBytes int64            // of a product's recent entries in memory; DefaultTailBytes
}

// DefaultTailBytes is how much of a product's log is also kept in memory.
const DefaultTailBytes = 16 << 20

// Log is a [stream.Log] in a file. Its documents are a [document.Store].
type Log struct {
	retention stream.Retention
	tailBytes int64
	born      stream.ID
	path      string
	db        *bolt.DB
	group     *groupcommit.Group[*operation]
	finish    func(*bolt.Tx) error // commits; tests make it fail
	damage    error                // found by a commit, which was the last one; for who commits

	mu       sync.Mutex
	products map[string]*product
	closed   bool
}

// maxOperations is how many operations are committed together.
const maxOperations = 256

// Open opens the log in a folder, which it makes if there is none; opts may be
// nil. It reads the whole log once. The file is locked until [Log.Release].
func Open(dir string, opts *Options) (*Log, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.TailBytes <= 0 {
		o.TailBytes = DefaultTailBytes
	}
	db, err := openFile(dir)
	if err != nil {
		return nil, err
	}
	l := &Log{retention: o.Retention.WithDefaults(stream.DefaultLastingMaxBytes), tailBytes: o.TailBytes,
		born: stream.ID{}.Next(time.Now()), path: db.Path(), db: db,
		finish: (*bolt.Tx).Commit, products: map[string]*product{}}
	l.group = groupcommit.New(maxOperations, l.commit)
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("boltlog: open %s: %w", l.path, err), db.Close())
	}
	return l, nil
}

// guarded calls do, and returns an error when it comes upon damage of the file.
func (l *Log) guarded(do func() error) (err error) {
	defer recoverDamage(l.path, &err)()
	return do()
}

// view calls read with a transaction that reads.
func (l *Log) view(read func(*bolt.Tx) error) error {
	return l.guarded(func() error { return l.db.View(read) })
}

// Release closes the file. Nothing may be called any more, nor be under way.
func (l *Log) Release() error {
	_ = l.Close() // it never fails
	if err := l.db.Close(); err != nil {
		return fmt.Errorf("boltlog: close the file: %w", err)
	}
	return nil
}

// Close implements [stream.Log].
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.group.Do(&operation{}) // what is under way comes first; what follows finds it closed
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.products {
		p.mu.Lock()
		p.tail.Close()
		p.mu.Unlock()
	}
	return nil
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Append implements [stream.Log].
func (l *Log) Append(_ context.Context, productID string, entries []stream.Entry, changes ...document.Change) error {
	if err := document.Validate(changes); err != nil {
		return err
	}
	o := &operation{product: l.product(productID), entries: entries, changes: changes, appends: true}
	return l.do(o)
}

// do commits the operation, together with others.
func (l *Log) do(o *operation) error {
	o.err = errPanicked
	l.group.Do(o)
	return o.err
}

// errPanicked is the error of operations whose commit did not come to an end.
var errPanicked = errors.New("boltlog: a commit was given up")

// Documents implements [stream.Log].
func (l *Log) Documents() document.Store { return documents{l} }

// expireStep is how many entries and documents Expire looks at in one commit.
const expireStep = 500

// Expire removes expired entries and documents, in small steps between which
// others have their turn. What is committed meanwhile removes a few, too; call
// it now and then for products where nothing happens.
func (l *Log) Expire(ctx context.Context) error {
	for _, p := range l.all() {
		more, err := l.overdue(p)
		for more && err == nil {
			o := &operation{product: p, expire: expireStep}
			if err = ctx.Err(); err == nil {
				err = l.do(o)
			}
			more = o.removed >= expireStep
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// overdue reports whether there is something of the product to remove.
func (l *Log) overdue(p *product) (found bool, err error) {
	p.mu.Lock()
	tooLarge := p.stats.Bytes > l.retention.MaxBytes
	p.mu.Unlock()
	now := time.Now()
	err = l.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(p.bucket)
		if b == nil {
			return nil
		}
		entry, _ := b.Bucket(bucketLog).Cursor().First()
		doc, _ := b.Bucket(bucketExpiry).Cursor().First()
		found = tooLarge || bytes.Compare(entry, appendID(nil, stream.IDAt(now.Add(-l.retention.TTL)))) <= 0 && entry != nil ||
			doc != nil && bytes.Compare(doc, expiryKey(now.UnixMilli()+1, "")) < 0
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("boltlog: expire: %w", err)
	}
	return found, nil
}

// Ping reports whether the log can write.
func (l *Log) Ping(context.Context) error {
	return l.do(&operation{})
}

// Stats returns the figures of every product that has a log.
func (l *Log) Stats() map[string]stream.Stats {
	stats := map[string]stream.Stats{}
	for _, p := range l.all() {
		p.mu.Lock()
		stats[p.id] = p.stats
		p.mu.Unlock()
	}
	return stats
}

func (l *Log) all() []*product {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.products))
}

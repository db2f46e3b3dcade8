// Package boltlog is the durable [eventlog.Log] for one process: log and documents
// are in one bbolt file.
//
//	entries, err := boltlog.Open("/var/lib/liveactivity", nil)
//	if err != nil {
//		return err
//	}
//	defer entries.Release()
//	recorder, err := eventlog.NewRecorder(entries, nil)
//	lookup, err := recent.NewLookup(entries.Activity(), 0)
//
// Acknowledged appends and writes are on the disk (fdatasync): they survive kill -9 and a power
// failure. Calls that arrive while the disk is busy are committed together, in one transaction,
// so many concurrent clients cost little more than one.
//
// Recent entries are also kept in memory, for readers that keep up; readers far behind read the
// file. The keys of all retained entries are in memory, about 40 bytes each.
// Retention.TotalBytes bounds both for all products together; beyond it the product that uses
// most keeps fewer of its recent entries in memory and, if that is not enough, fewer entries in
// the file. The users' actions, in a [recent.Memory], may use three eighths of StateMaxBytes;
// Open files them again from the log.
//
// The file grows to the limits of each product, MaxBytes and StateMaxBytes, plus a third for
// bbolt's own needs; with limits of a few megabytes it may be twice as large. Documents may use
// half of StateMaxBytes, because pages of random names are half full. Beyond that, the
// documents that expire first are evicted: among documents with the same time to live, roughly
// the least recently written. The file does not shrink: the space of expired data is reused.
// Either one process has the file open, or several that only read it.
//
// Open reads the whole file, whose records carry checksums, and refuses a damaged one. Calls
// that find damage later fail, but the process survives. Writes fail while the disk is full, and
// while the file is not in its place, where the next Open would not find them; after a failed
// fdatasync nothing more is written until the process is restarted, see [ErrUncertain].
// [Log.Ping] reports all of this.
//
// Entries and documents written while the clock was ahead expire late. Their time to live
// starts over when the file is opened again.
package boltlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/groupcommit"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// FileName is the name of the file in its folder.
const FileName = "liveactivity.db"

// Options configures a [Log]. Zero fields mean their defaults.
type Options struct {
	Retention eventlog.Retention // MaxBytes is eventlog.DefaultLastingMaxBytes
	TailBytes int64              // of a product's recent entries in memory; DefaultTailBytes
	MaxEvents int                // actions kept per user; recent.DefaultMaxEvents
	Logger    *slog.Logger       // logs storage failures; slog.Default() for nil

	// ReadOnly opens an existing file and changes nothing: calls that would change it fail.
	// Several processes can have it open this way, while no process has it open for
	// writing.
	ReadOnly bool

	// Progress, if not nil, is called after each entry and document while Open reads the file,
	// which may take long. done is the number of bytes read, and total is about how many there
	// are. It must return quickly.
	Progress func(done, total int64)
}

// DefaultTailBytes is how much of a product's log is also kept in memory.
const DefaultTailBytes = 8 << 20

// Log is an [eventlog.Log] in a file. Its documents are a [document.Store].
type Log struct {
	retention eventlog.Retention
	tailBytes int64
	born      eventlog.ID
	path      string
	opened    os.FileInfo // of the file
	db        *bolt.DB
	group     *groupcommit.Group[*operation]
	finish    func(*bolt.Tx) error // commits; tests make it fail
	commits   int                  // the newest transaction; owned, like broken, by the one goroutine that commits
	broken    error                // why no further commit is possible, or nil
	logger    *slog.Logger
	shares    *fair.Shares[*product]
	users     *recent.Memory

	products engine.Products[product]
	closed   atomic.Bool // operations made from now on do not append
}

var _ eventlog.Log = (*Log)(nil)

// Open opens the log in a folder. Unless ReadOnly is set, it creates a missing folder; opts
// may be nil. It reads the whole file once. The file is locked until [Log.Release]. All
// invalid arguments are reported at once, before anything is opened.
func Open(dir string, opts *Options) (*Log, error) {
	o := *cmp.Or(opts, &Options{})
	wrong := options.Mistakes{Package: "boltlog"}
	wrong.Require(dir != "", "dir", "must not be empty")
	o.TailBytes = options.Default(&wrong, "TailBytes", o.TailBytes, DefaultTailBytes)
	o.MaxEvents = options.Default(&wrong, "MaxEvents", o.MaxEvents, recent.DefaultMaxEvents)
	const maxBytes, stateMaxBytes = eventlog.DefaultLastingMaxBytes, eventlog.DefaultLastingStateMaxBytes
	retention, err := engine.WithDefaults(o.Retention, maxBytes, stateMaxBytes)
	wrong.Add(err)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	users, err := recent.NewMemory(&recent.MemoryOptions{
		TTL: retention.TTL, MaxEvents: o.MaxEvents, MaxBytes: engine.UserBytes(retention)})
	if err != nil {
		return nil, err
	}
	db, err := openFile(dir, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	opened, err := os.Stat(db.Path())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("boltlog: open: %w", err), db.Close())
	}
	l := &Log{retention: retention, tailBytes: o.TailBytes, born: engine.NextID(eventlog.ID{}, time.Now()),
		path: db.Path(), opened: opened, db: db, finish: (*bolt.Tx).Commit, logger: cmp.Or(o.Logger, slog.Default()),
		shares: fair.NewShares[*product](retention.TotalBytes), users: users}
	l.group = groupcommit.New(maxOperations, func(ops []*operation) {
		l.commit(ops)
		// At most one further commit, which the callers of this one also wait for: it slows
		// writers down while memory is over its bound.
		if p := l.balance(); p != nil {
			l.commit([]*operation{{make: p.lighten}})
		}
	})
	ahead, err := l.load(&reading{report: o.Progress})
	for id, changes := range ahead {
		if err == nil && !o.ReadOnly {
			err = l.write(context.Background(), id, newAddition(nil, changes))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("boltlog: open %s: %w", l.path, err), db.Close())
	}
	return l, nil
}

// Release closes the log and its file, so that another process can open it. No other call may
// be in flight or follow.
func (l *Log) Release() error {
	_ = l.Close() // it never fails
	if err := l.db.Close(); err != nil {
		return fmt.Errorf("boltlog: close the file: %w", err)
	}
	return nil
}

// Close implements [eventlog.Log]. It returns when the appends in flight are committed or
// refused.
func (l *Log) Close() error {
	l.closed.Store(true)
	// Calls in flight are committed first; later ones find the log closed.
	_ = l.do(context.Background(), func(*transaction) (refusal, err error) { return nil, nil })
	for _, p := range l.products.All() {
		p.mu.Lock()
		p.tail.Close()
		p.mu.Unlock()
	}
	return nil
}

// Append implements [eventlog.Log]. When ctx ends while the disk is busy with the commit, it
// is unknown whether the call had an effect.
func (l *Log) Append(ctx context.Context, productID string, entries []eventlog.Entry,
	changes ...document.Change) error {
	if err := errors.Join(engine.Validate(entries), document.Validate(changes)); err != nil {
		return err
	}
	filings, err := engine.Filings(entries)
	if err != nil {
		return err
	}
	a := newAddition(entries, changes)
	a.appends, a.filings = true, filings
	if err := l.write(ctx, productID, a); err != nil {
		return err
	}
	copy(entries, a.entries)
	return nil
}

// write commits an addition. It takes the generation from ctx once, at the start, and
// refuses the addition if that generation has ended by the time of the commit. An empty
// addition creates nothing.
func (l *Log) write(ctx context.Context, productID string, a *addition) error {
	if len(productID) > maxProductID {
		return errors.New("boltlog: the product ID is too long")
	}
	p := l.product(productID)
	a.of = document.Generation(ctx, productID)
	return l.do(ctx, func(t *transaction) (refusal, err error) {
		if a.appends && l.closed.Load() {
			return eventlog.ErrClosed, nil
		}
		b, err := t.open(p, len(a.entries)+len(a.changes) > 0)
		if b == nil || err != nil {
			return nil, err
		}
		return b.add(a)
	})
}

// probeBytes is as much as an append takes: an entry of the usual size, and the pages that
// bbolt rewrites for it.
const probeBytes = 256 << 10

// Ping implements [eventlog.Log], by writing as much as an append takes, which may fail if the
// file cannot grow. Every call writes. It returns when ctx ends, even if the disk hangs.
func (l *Log) Ping(ctx context.Context) error {
	return l.do(ctx, func(t *transaction) (refusal, err error) {
		t.changed = true
		return nil, t.tx.Bucket(bucketFormat).Put(keyProbe, make([]byte, probeBytes))
	})
}

// Documents implements [eventlog.Log].
func (l *Log) Documents() document.Store { return documents{l} }

// Activity implements [eventlog.Log]: a [recent.Memory].
func (l *Log) Activity() recent.Store { return l.users }

// Now implements [eventlog.Log].
func (l *Log) Now() time.Time { return time.Now() }

// Run implements [eventlog.Log]. There is nothing to do: Open has restored everything.
func (l *Log) Run(ctx context.Context, report func(eventlog.Progress)) error {
	if report != nil {
		report(eventlog.Progress{Done: true})
	}
	<-ctx.Done()
	return nil
}

// Expire implements [eventlog.Log], in small steps, between which other operations can
// run.
func (l *Log) Expire(ctx context.Context) error {
	l.users.Expire()
	if err := l.sweepDropped(ctx); err != nil {
		return err
	}
	for _, p := range l.products.All() {
		for more := true; more; {
			var b *batch
			err := l.do(ctx, func(t *transaction) (refusal, err error) {
				b, err = t.open(p, false)
				return nil, err
			})
			if err != nil {
				return err // b may still be written to
			}
			more = b != nil && b.reviewed >= step
		}
	}
	return nil
}

// Stats implements [eventlog.Log]. Entries that have expired count until an operation on their
// product removes them.
func (l *Log) Stats() map[string]eventlog.Stats {
	stats := map[string]eventlog.Stats{}
	for _, p := range l.products.All() {
		p.mu.Lock()
		s := eventlog.Stats{Entries: int(p.state.Entries), Bytes: int64(p.state.Bytes), Dropped: p.tooMany}
		p.mu.Unlock()
		s.Users = l.users.Users(p.id)
		stats[p.id] = s
	}
	return stats
}

// Storage implements [eventlog.Log]: the file holds entries and documents, memory holds the
// users' actions.
func (l *Log) Storage(_ context.Context, productID string) (eventlog.Storage, error) {
	s := eventlog.Storage{Engine: "bbolt", LogMaxBytes: l.retention.MaxBytes,
		StateBytes: l.users.Bytes(productID), StateMaxBytes: l.retention.StateMaxBytes}
	if p := l.products.Known(productID); p != nil {
		p.mu.Lock()
		s.LogBytes = int64(p.state.Bytes)
		s.StateBytes += int64(p.state.DocumentBytes)
		p.mu.Unlock()
	}
	return s, nil
}

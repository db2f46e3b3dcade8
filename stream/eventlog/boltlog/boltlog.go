// Package boltlog is the [eventlog.Log] of one process that lasts: log and
// documents in one bbolt file.
//
//	entries, err := boltlog.Open("/var/lib/liveactivity", nil)
//	if err != nil {
//		return err
//	}
//	defer entries.Release()
//	go entries.Run(ctx, nil) // reads back the actions of users
//	recorder, err := eventlog.NewRecorder(entries, nil)
//	lookup, err := recent.NewLookup(entries.Activity(), 0)
//
// Acknowledged appends and writes are on the disk (fdatasync): they survive kill -9 and a power
// failure. Calls that come while the disk is busy are committed together, in one transaction,
// so many clients at once cost little more than one.
//
// Recent entries are also kept in memory, for readers that keep up; readers far behind read the
// file. The keys of all retained entries are in memory, some 40 bytes each. Retention.TotalBytes
// bounds both for all products together; beyond it the product that holds most keeps fewer of
// its recent entries in memory, and at last fewer entries in the file. The actions of users, an
// [recent.Memory], have three eighths of StateMaxBytes; [Log.Run] files them anew from the
// log after a restart.
//
// The file grows to the limits of each product, MaxBytes and StateMaxBytes, and for bbolt's own
// needs a third more; with limits of a few megabytes it is up to as much again. Documents have
// half of StateMaxBytes, because pages of random names are half full. Beyond it the documents
// that expire first are evicted: of those that live equally long, roughly the least recently
// written. The file does not shrink: space of expired data is used again. One process at a time
// can have it open, or several that only read it.
//
// Open reads the whole file, whose records carry checksums, and refuses one that is damaged.
// Calls that come upon damage later fail, and the process lives. So they do while the disk is
// full; after a failed fdatasync nothing more is written until the process is restarted, see
// [ErrUncertain]. [Log.Ping] reports both.
//
// A clock that was ahead leaves entries and documents that expire late. Their time begins when
// the file is opened again.
package boltlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
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

// Options of a [Log]. Zero fields mean their defaults.
type Options struct {
	Retention eventlog.Retention // MaxBytes is eventlog.DefaultLastingMaxBytes
	TailBytes int64              // of a product's recent entries in memory; DefaultTailBytes
	MaxEvents int                // actions kept per user; recent.DefaultMaxEvents
	Logger    *slog.Logger       // logs storage failures; slog.Default() for nil

	// ReadOnly opens an existing file and changes nothing: calls that would change it fail.
	// Several processes can have it open like this, and none in the usual way.
	ReadOnly bool

	// Progress, if not nil, is called while Open reads the file, which may take long, after each
	// entry and document: with the number of bytes read, and about how many there are. It must
	// return at once.
	Progress func(done, total int64)
}

// DefaultTailBytes is how much of a product's log is also kept in memory.
const DefaultTailBytes = 8 << 20

// Log is an [eventlog.Log] in a file. Its documents are a [document.Store].
//
// mu guards products, to which a product is added when it is first asked for and from which
// none is removed. mu may be held while a product's lock is taken, never the other way round.
// The groups of operations are committed one at a time, in order; the goroutine that commits
// owns commits and broken, and the other fields that change synchronize themselves.
type Log struct {
	retention eventlog.Retention
	tailBytes int64
	born      eventlog.ID
	path      string
	db        *bolt.DB
	group     *groupcommit.Group[*operation]
	finish    func(*bolt.Tx) error // commits; tests make it fail
	commits   int                  // the newest transaction; owned, as broken is, by the goroutine that commits
	broken    error                // why no commit can follow
	logger    *slog.Logger
	shares    *fair.Shares[*product]
	users     *recent.Memory

	closed   atomic.Bool // no operation that is made from now on appends
	mu       sync.Mutex
	products map[string]*product
}

// Open opens the log in a folder, which it creates if it is missing, unless it is only to be
// read; opts may be nil. It reads the whole file once. The file is locked until [Log.Release].
// All invalid arguments are reported at once, before anything is opened.
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
	if o.Logger == nil {
		o.Logger = slog.Default()
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
	l := &Log{retention: retention, tailBytes: o.TailBytes, born: engine.NextID(eventlog.ID{}, time.Now()),
		path: db.Path(), db: db, finish: (*bolt.Tx).Commit, logger: o.Logger,
		shares: fair.NewShares[*product](retention.TotalBytes), users: users, products: map[string]*product{}}
	l.group = groupcommit.New(maxOperations, func(ops []*operation) {
		l.commit(ops)
		// At most one further commit, for which the callers of this one wait, too: writers slow
		// down while memory is over its bound.
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

// Release closes the log and its file, which another process can open from then on. No call may
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
	// Calls in flight come first; those after find the log closed.
	_ = l.group.Do(context.Background(), &operation{make: nothing})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.products {
		p.mu.Lock()
		p.tail.Close()
		p.mu.Unlock()
	}
	return nil
}

// nothing makes an operation that changes nothing.
func nothing(*transaction) (refusal, err error) { return nil, nil }

// Append implements [eventlog.Log]. When ctx ends while the disk is busy with the commit, it
// is unknown whether the call had an effect.
func (l *Log) Append(
	ctx context.Context, productID string, entries []eventlog.Entry, changes ...document.Change,
) error {
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

// write commits an addition. It is refused where its generation, for which ctx is asked once
// and at once, is over by the time of the commit. Nothing is created for an empty one.
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

// Documents implements [eventlog.Log].
func (l *Log) Documents() document.Store { return documents{l} }

// Expire implements [eventlog.Log], in small steps between which others have their turn.
func (l *Log) Expire(ctx context.Context) error {
	l.users.Expire()
	if err := l.sweepDropped(ctx); err != nil {
		return err
	}
	for _, p := range l.all() {
		for more := true; more; {
			var b *batch
			err := l.do(ctx, func(t *transaction) (refusal, err error) {
				b, err = t.open(p, false)
				return nil, err
			})
			if err != nil {
				return err // b may still be written
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
	for _, p := range l.all() {
		p.mu.Lock()
		s := eventlog.Stats{Entries: int(p.state.Entries), Bytes: int64(p.state.Bytes), Dropped: p.tooMany}
		p.mu.Unlock()
		s.Users = l.users.Users(p.id)
		stats[p.id] = s
	}
	return stats
}

// Storage implements [eventlog.Log]: the file holds entries and documents, memory the actions of
// users.
func (l *Log) Storage(_ context.Context, productID string) (eventlog.Storage, error) {
	s := eventlog.Storage{Engine: "bbolt", LogMaxBytes: l.retention.MaxBytes,
		StateBytes: l.users.Bytes(productID), StateMaxBytes: l.retention.StateMaxBytes}
	l.mu.Lock()
	p := l.products[productID]
	l.mu.Unlock()
	if p != nil {
		p.mu.Lock()
		s.LogBytes = int64(p.state.Bytes)
		s.StateBytes += int64(p.state.DocumentBytes)
		p.mu.Unlock()
	}
	return s, nil
}

// all returns the products known now, in no order. Callers lock each by itself.
func (l *Log) all() []*product {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.products))
}

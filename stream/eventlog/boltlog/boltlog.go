// Package boltlog is the [eventlog.Log] of one process that lasts: log and
// documents in one bbolt file.
//
//	entries, err := boltlog.Open("/var/lib/liveactivity", nil)
//	if err != nil {
//		return err
//	}
//	defer entries.Release()
//	go entries.Run(ctx, nil) // reads back what users did
//	recorder, err := eventlog.NewRecorder(entries, nil)
//	lookup, err := activity.NewLookup(entries.Activity(), 0)
//
// What Append and Write acknowledge is on the disk (fdatasync): it survives
// kill -9 and a power failure. Calls that come while the disk is busy are
// committed together, in one transaction, so many clients at once cost little
// more than one.
//
// Recent entries are also kept in memory, where readers who keep up find them;
// readers far behind read the file. The event keys of all retained entries are
// in memory, some 40 bytes each. Retention.TotalBytes bounds both for all
// products together; beyond it the product that holds most keeps fewer of its
// recent entries in memory, and at last fewer entries in the file. What users did,
// an [activity.Memory], has three eighths of StateMaxBytes; [Log.Run] files it anew
// from the log after a restart.
//
// The file grows to the retention's bytes of each product, MaxBytes and
// StateMaxBytes, and for bbolt's own a third more; with limits of a few megabytes
// it is up to as much again. Documents have half of StateMaxBytes, because pages
// of random names are half full. It does not shrink: what expires makes room for
// what comes. One process at a time can have it open, or several that only read it.
//
// Open checks the whole file, and refuses one that is damaged. What is damaged
// later makes calls fail, and the process lives. A full disk does so until there
// is space again; after a failed fdatasync nothing more is written until the
// process is restarted, see [ErrUncertain]. [Log.Ping] says both.
//
// Entries and documents that a clock has left which was ahead have their time
// from when the file is opened.
package boltlog

import (
	"bytes"
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

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
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
	MaxEvents int                // actions kept per user; activity.DefaultMaxEvents
	Logger    *slog.Logger       // of what ends the writing; slog.Default() for nil

	// ReadOnly opens a file that exists and changes nothing: what would, fails.
	// Several processes can have it open like this, and none in the usual way.
	ReadOnly bool

	// Progress is called while Open reads the file, which may take long, for each
	// page and each entry: with how many bytes are read, and about how many there
	// are to read; the file is read twice. It must return at once; nil for nothing.
	Progress func(done, total int64)
}

// DefaultTailBytes is how much of a product's log is also kept in memory.
const DefaultTailBytes = 8 << 20

// Log is a [eventlog.Log] in a file. Its documents are a [document.Store].
type Log struct {
	retention eventlog.Retention
	tailBytes int64
	born      eventlog.ID
	opened    time.Time
	path      string
	db        *bolt.DB
	group     *groupcommit.Group[*operation]
	finish    func(*bolt.Tx) error // commits; tests make it fail
	broken    error                // why no commit can follow; of the goroutine that commits
	values    []byte               // memory for those of the next transaction; of that goroutine, too
	failed    atomic.Bool          // the last commit, or one since Ping looked
	logger    *slog.Logger
	ping      ping
	shares    *fair.Shares[*product]
	users     *activity.Memory

	mu       sync.Mutex
	products map[string]*product
	closed   bool
}

// maxOperations is how many operations are committed together.
const maxOperations = 256

// Open opens the log in a folder, which it creates if it is missing, unless it is
// to be read only; opts may be nil. It reads the whole log once. The file is locked until [Log.Release]. All
// invalid arguments are reported at once, before anything is opened.
func Open(dir string, opts *Options) (*Log, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	wrong := options.Mistakes{Package: "boltlog"}
	wrong.Require(dir != "", "dir", "must not be empty")
	o.TailBytes = options.Default(&wrong, "TailBytes", o.TailBytes, DefaultTailBytes)
	o.MaxEvents = options.Default(&wrong, "MaxEvents", o.MaxEvents, activity.DefaultMaxEvents)
	retention, err := engine.WithDefaults(o.Retention, eventlog.DefaultLastingMaxBytes, eventlog.DefaultLastingStateMaxBytes)
	wrong.Add(err)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	users, err := activity.NewMemory(&activity.MemoryOptions{TTL: retention.TTL, MaxEvents: o.MaxEvents, MaxBytes: engine.UserBytes(retention)})
	if err != nil {
		return nil, err
	}
	open := openFile
	if o.ReadOnly {
		open = openToRead
	}
	reading := &reading{report: o.Progress}
	db, err := open(dir, reading)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	l := &Log{opened: now, retention: retention, tailBytes: o.TailBytes,
		born: engine.NextID(eventlog.ID{}, now), path: db.Path(), db: db, logger: o.Logger, users: users,
		finish: (*bolt.Tx).Commit, products: map[string]*product{}, ping: ping{turn: make(chan struct{}, 1)}}
	l.shares = fair.NewShares[*product](l.retention.TotalBytes)
	l.group = groupcommit.New(maxOperations, func(ops []*operation) {
		l.commit(ops)
		if p := l.balance(); p != nil {
			l.commit([]*operation{{product: p, trims: expireStep}})
		}
	})
	if err := l.load(reading); err != nil {
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

// Release closes the file. No call may be in flight or follow.
func (l *Log) Release() error {
	_ = l.Close() // it never fails
	if err := l.db.Close(); err != nil {
		return fmt.Errorf("boltlog: close the file: %w", err)
	}
	return nil
}

// Close implements [eventlog.Log].
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	_ = l.group.Do(context.Background(), &operation{}) // what is in flight comes first; what follows finds it closed
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

// Append implements [eventlog.Log]. When ctx ends while the disk is busy with the
// commit, it is unknown whether the call had an effect.
func (l *Log) Append(ctx context.Context, productID string, entries []eventlog.Entry, changes ...document.Change) error {
	if err := errors.Join(engine.Validate(entries), document.Validate(changes)); err != nil {
		return err
	}
	filings, err := engine.Filings(entries)
	if err != nil {
		return err
	}
	o := &operation{product: l.product(productID), entries: cloneEntries(entries), changes: cloneChanges(changes), filings: filings, appends: true}
	if err := l.do(ctx, o); err != nil {
		return err
	}
	copy(entries, o.entries)
	return nil
}

// cloneEntries returns deep copies of the entries: a caller that is
// gone may change its while they are written.
func cloneEntries(entries []eventlog.Entry) []eventlog.Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Own()
	}
	return entries
}

// cloneChanges returns copies of the changes, whose values share one piece of
// memory.
func cloneChanges(changes []document.Change) []document.Change {
	changes = slices.Clone(changes)
	size := 0
	for _, c := range changes {
		size += len(c.Value)
	}
	values := make([]byte, 0, size)
	for i := range changes {
		start := len(values)
		values = append(values, changes[i].Value...)
		changes[i].Value = values[start:]
	}
	return changes
}

// do commits the operation, together with others. It returns when that is over,
// or ctx: the operation then no longer belongs to the caller.
func (l *Log) do(ctx context.Context, o *operation) error {
	o.err = errPanicked
	if err := l.group.Do(ctx, o); err != nil {
		return fmt.Errorf("boltlog: commit: %w", err)
	}
	return o.err
}

// errPanicked is the error of operations whose commit did not come to an end.
var errPanicked = errors.New("boltlog: a commit was given up")

// Documents implements [eventlog.Log].
func (l *Log) Documents() document.Store { return documents{l} }

// expireStep is how many entries and documents Expire looks at in one commit.
const expireStep = 500

// Expire implements [eventlog.Log], in small steps between which others have
// their turn.
func (l *Log) Expire(ctx context.Context) error {
	l.users.Expire()
	if err := l.expireDropped(ctx); err != nil {
		return err
	}
	for _, p := range l.all() {
		more, err := l.overdue(p)
		if err != nil {
			return err
		}
		for more {
			o := &operation{product: p, expire: expireStep}
			if err := l.do(ctx, o); err != nil {
				return err // o may still be in use
			}
			more = o.removed >= expireStep
		}
	}
	return nil
}

// expireDropped frees the room of what a Drop that was cut short has left.
func (l *Log) expireDropped(ctx context.Context) error {
	found := false
	err := l.view(func(tx *bolt.Tx) error {
		if b := tx.Bucket(bucketDropped); b != nil {
			k, _ := b.Cursor().First()
			found = k != nil
		}
		return nil
	})
	if err != nil || !found {
		return err
	}
	return l.sweepDropped(ctx)
}

// overdue reports whether there is something of the product to remove.
func (l *Log) overdue(p *product) (found bool, err error) {
	p.mu.Lock()
	tooLarge := p.stats.Bytes > l.retention.MaxBytes
	now := time.Now()
	old := p.tail.Expired(now, l.retention.TTL)
	p.mu.Unlock()
	err = l.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(p.bucket)
		if b == nil {
			return nil
		}
		oldest, err := firstOf(b.Bucket(bucketLog).Cursor().First())
		if err != nil {
			return err
		}
		doc, _ := b.Bucket(bucketExpiry).Cursor().First()
		state, err := stateOf(b, p.bucket)
		if err != nil {
			return err
		}
		mortal, _ := b.Bucket(bucketPlaces).Cursor().First()
		found = tooLarge || mortal != nil && state.documentBytes > l.documentBytes() || oldest != (eventlog.ID{}) && oldest.Compare(old) <= 0 ||
			doc != nil && bytes.Compare(doc, expiryKey(now.UnixMilli()+1, nil)) < 0
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("boltlog: expire: %w", err)
	}
	return found, nil
}

// Stats implements [eventlog.Log].
func (l *Log) Stats() map[string]eventlog.Stats {
	stats := map[string]eventlog.Stats{}
	for _, p := range l.all() {
		p.mu.Lock()
		s := p.stats
		p.mu.Unlock()
		s.Users = l.users.Users(p.id)
		stats[p.id] = s
	}
	return stats
}

// Storage implements [eventlog.Log]: what the file holds of a product, and memory of
// its users' actions.
func (l *Log) Storage(_ context.Context, productID string) (eventlog.Storage, error) {
	s := eventlog.Storage{Engine: "bbolt", LogMaxBytes: l.retention.MaxBytes, StateMaxBytes: l.retention.StateMaxBytes}
	bucket := []byte(productPrefix + productID)
	err := l.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		if b == nil {
			return nil
		}
		state, err := stateOf(b, bucket)
		s.StateBytes = int64(state.documentBytes)
		return err
	})
	if err != nil {
		return eventlog.Storage{}, fmt.Errorf("boltlog: storage: %w", err)
	}
	s.StateBytes += l.users.Bytes(productID)
	l.mu.Lock()
	p := l.products[productID]
	l.mu.Unlock()
	if p != nil {
		p.mu.Lock()
		s.LogBytes = p.stats.Bytes
		p.mu.Unlock()
	}
	return s, nil
}

func (l *Log) all() []*product {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.products))
}

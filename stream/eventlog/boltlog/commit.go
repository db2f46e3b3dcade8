package boltlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Everything that changes the file is an operation, and goes through these steps:
//
//	do        waits in the group for the commit in flight
//	make      up to maxOperations in order, each sees the changes of earlier ones: one
//	          transaction of bbolt, with a batch for each product that they open
//	complete  each batch once: limits and the product's state
//	finish    bbolt's commit, with its fdatasync
//	publish   each batch, under its product's lock: readers and lookups see it
//	outcome   of each operation, for its caller
//
// All but the first run on one goroutine at a time. Memory is unchanged until finish has
// returned nil, so a failed commit needs no undo. Documents are read from the file, so they are
// visible after finish, before the entries of the same append: a reader of an entry finds
// documents that are at least as new.

// maxOperations is the most operations that are committed together.
const maxOperations = 256

// operation is one call's part of a transaction. The committing goroutine sets its
// outcome before do returns. A call that has stopped waiting must not access it, or
// anything that make refers to.
type operation struct {
	// make changes the transaction. A refusal means that it changed nothing, and concerns
	// only its caller; err ends the whole transaction.
	make    func(*transaction) (refusal, err error)
	refusal error
	err     error // the outcome, for the caller
}

// transaction is a write transaction of bbolt, with the changes to memory that follow once it
// is committed. Each product has one batch in it, however many operations open it. now is the
// time used for everything in it: IDs, expiry and times to live.
type transaction struct {
	log     *Log
	tx      *bolt.Tx
	now     time.Time
	batches map[*product]*batch
	changed bool // there is something to commit
}

// do commits an operation, together with others. It returns after the commit, or when ctx
// ends: then the operation no longer belongs to the caller. An operation that was still
// waiting never happens; the outcome of one that was being committed is unknown.
func (l *Log) do(ctx context.Context, make func(*transaction) (refusal, err error)) error {
	o := &operation{make: make}
	if err := l.group.Do(ctx, o); err != nil {
		return fmt.Errorf("boltlog: commit: %w", err)
	}
	return o.err
}

// commit makes the operations in one transaction. Only one commit runs at a time. Memory
// changes only once the transaction is committed, so a failed commit leaves it as it was.
func (l *Log) commit(ops []*operation) {
	batches, err := l.transact(ops)
	for _, b := range batches {
		l.publish(b)
	}
	for _, o := range ops {
		o.err = o.refusal
		// Even if it was refused: the state it was refused for may not be on the
		// disk.
		if err != nil && !errors.Is(o.refusal, eventlog.ErrClosed) {
			o.err = fmt.Errorf("boltlog: commit: %w", err)
		}
	}
}

// transact makes the operations in one transaction and returns the batches to publish, none
// if nothing changed. An error rolls back all operations, and each one fails with it. Nothing
// more is committed once the file was found damaged, or a failed write may have reached the
// disk: see ErrUncertain.
func (l *Log) transact(ops []*operation) (batches map[*product]*batch, err error) {
	if l.broken != nil {
		return nil, l.broken
	}
	err = l.guarded(func() error {
		tx, err := l.db.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after a commit
		t := &transaction{log: l, tx: tx, now: time.Now(), batches: map[*product]*batch{}}
		if err := t.make(ops); err != nil || !t.changed {
			return err
		}
		if err := l.inPlace(); err != nil {
			return err
		}
		if err := l.finish(tx); err != nil {
			return err
		}
		l.commits++
		batches = t.batches
		return nil
	})
	if err != nil {
		l.giveUp(err)
	}
	if l.broken != nil {
		return nil, l.broken
	}
	return batches, err
}

// inPlace returns an error if the file was moved, removed or replaced: the next start would not
// find anything that is written to it.
func (l *Log) inPlace() error {
	info, err := os.Stat(l.path)
	if err == nil && !os.SameFile(info, l.opened) {
		err = fmt.Errorf("%s is another file than the one opened", l.path)
	}
	return err
}

// make makes the operations, and then enforces the limits of each product once. It stops at the
// first error, after which the transaction must be rolled back.
func (t *transaction) make(ops []*operation) error {
	for _, o := range ops {
		var err error
		if o.refusal, err = o.make(t); err != nil {
			return err
		}
	}
	for _, b := range t.batches {
		if err := b.complete(); err != nil {
			return err
		}
	}
	return nil
}

// giveUp makes a failed commit the last one if a later commit could acknowledge data that
// is not on the disk: after a failed fdatasync, which the kernel reports only once and then
// forgets along with the pages, and if readers can see the failed transaction in the file.
// Damage ends commits as well.
func (l *Log) giveUp(err error) {
	visible := false
	_ = l.view(func(tx *bolt.Tx) error {
		visible = tx.ID() > l.commits
		return nil
	})
	switch {
	case errors.Is(err, ErrDamaged): // memory was read from the file and may be wrong, too
		l.broken = err
	case visible || syncFailed(err):
		l.broken = fmt.Errorf("%w: %s: %w", ErrUncertain, l.path, err)
	default:
		return
	}
	l.logger.Error("storage failed; nothing can be stored until the process is restarted", "err", l.broken)
}

// syncFailed reports whether bbolt's error is an error of fdatasync or fsync. Failed
// writes and truncations have a path, failed resizes a text.
func syncFailed(err error) bool {
	var errno syscall.Errno
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return path.Op == "sync"
	case errors.As(err, &errno):
		return true
	}
	return strings.Contains(err.Error(), "file sync error")
}

// guarded calls do, and returns an error if do finds the file damaged.
func (l *Log) guarded(do func() error) (err error) {
	defer recoverDamage(l.path, &err)()
	return do()
}

// view calls read with a read transaction: a consistent snapshot of the file, committed but
// perhaps not yet published. It does not wait for commits, but a commit that has to map more
// of the file waits for it, so read must be short. Memory that read gets from bbolt is part
// of that map and must not be used after read has returned.
func (l *Log) view(read func(*bolt.Tx) error) error {
	return l.guarded(func() error { return l.db.View(read) })
}

package boltlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Everything that changes the file is an operation, and takes these steps:
//
//	do        waits in the group, behind the commit in flight
//	make      up to maxOperations in order, each sees the changes of those before it: one
//	          transaction of bbolt, with a batch for each product that they open
//	complete  each batch once: limits and the product's state
//	finish    bbolt's commit, with its fdatasync
//	publish   each batch, under its product's lock: readers and lookups see it
//	outcome   of each operation, for its caller
//
// All but the first run on one goroutine at a time. Until finish has returned nil, memory is as
// before, so a failed commit needs no undoing. Documents are read from the file, so they can be
// seen from finish on, before the entries of the same append: a reader of an entry finds
// documents at least as new.

// maxOperations is how many operations are committed together, at most.
const maxOperations = 256

// operation is the part of one call in a transaction. The goroutine that commits sets its
// outcome before do returns. A call that has stopped waiting must not look at it, nor at
// anything that make refers to.
type operation struct {
	// make changes the transaction. A refusal means that it changed nothing, and is for its
	// caller only; err ends the whole transaction.
	make    func(*transaction) (refusal, err error)
	refusal error
	err     error // the outcome, for the caller
}

// transaction is a transaction of bbolt that writes, with the changes of memory that follow
// once it is committed. Each product has one batch in it, however many operations open it. now
// is the time of everything in it: of IDs, of expiry and of times to live.
type transaction struct {
	log     *Log
	tx      *bolt.Tx
	now     time.Time
	batches map[*product]*batch
	changed bool // there is something to commit
}

// do commits an operation, together with others. It returns when that is over, or ctx: the
// operation then no longer belongs to the caller. One that was still waiting never happens; of
// one that was being committed the outcome is unknown.
func (l *Log) do(ctx context.Context, make func(*transaction) (refusal, err error)) error {
	o := &operation{make: make}
	if err := l.group.Do(ctx, o); err != nil {
		return fmt.Errorf("boltlog: commit: %w", err)
	}
	return o.err
}

// commit makes the operations in one transaction. One commit runs at a time. Memory changes
// only when the transaction can be read, so a failed commit leaves it as it was.
func (l *Log) commit(ops []*operation) {
	batches, err := l.transact(ops)
	for _, b := range batches {
		l.publish(b)
	}
	for _, o := range ops {
		o.err = o.refusal
		// Also if it was refused: the reason may not be on the disk.
		if err != nil && !errors.Is(o.refusal, eventlog.ErrClosed) {
			o.err = fmt.Errorf("boltlog: commit: %w", err)
		}
	}
}

// transact makes the operations in one transaction and returns the batches to publish, none
// when nothing changed. An error is every operation's, and rolls all of them back. Nothing is
// committed any more once the file was found damaged, or once a failed write may have reached
// the disk: see ErrUncertain.
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

// giveUp makes a failed commit the last one where a further one could acknowledge data that
// is not on the disk. That is after a failed fdatasync, which the kernel reports once and
// then forgets together with the pages, and when readers find the failed
// transaction in the file.
func (l *Log) giveUp(err error) {
	visible := false
	_ = l.view(func(tx *bolt.Tx) error {
		visible = tx.ID() > l.commits
		return nil
	})
	switch {
	case errors.Is(err, ErrDamaged): // memory, read from the file, may be wrong, too
		l.broken = err
	case visible || syncFailed(err):
		l.broken = fmt.Errorf("%w: %s: %w", ErrUncertain, l.path, err)
	default:
		return
	}
	l.logger.Error("storage failed; nothing can be stored until the process is restarted", "err", l.broken)
}

// syncFailed reports whether bbolt's error is an error of fdatasync or fsync. Writing and
// truncating fail with a path, and resizing with a text.
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

// guarded calls do, and returns an error when it comes upon damage of the file.
func (l *Log) guarded(do func() error) (err error) {
	defer recoverDamage(l.path, &err)()
	return do()
}

// view calls read with a transaction that reads: one consistent state of the file, committed
// but perhaps not published yet. It waits for no commit, but a commit that has to map more of
// the file waits for it, so read must be short. Memory that read gets from bbolt is part of
// that map and must not be used after read has returned.
func (l *Log) view(read func(*bolt.Tx) error) error {
	return l.guarded(func() error { return l.db.View(read) })
}

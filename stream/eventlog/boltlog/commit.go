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

// maxOperations is how many operations are committed together.
const maxOperations = 256

// operation is the part of one call in a transaction.
type operation struct {
	// make changes the transaction. A refusal means that it changed nothing, and is for its
	// caller only; err ends the whole transaction.
	make    func(*transaction) (refusal, err error)
	refusal error
	err     error // the outcome, for the caller
}

// transaction is a transaction of bbolt, with the changes of memory that follow once it is committed.
type transaction struct {
	log     *Log
	tx      *bolt.Tx
	now     time.Time
	batches map[*product]*batch
	changed bool // there is something to commit
}

// errPanicked is the error of operations whose commit did not come to an end.
var errPanicked = errors.New("boltlog: a commit was given up")

// do commits an operation, together with others. It returns when that is over, or ctx: the
// operation then no longer belongs to the caller.
func (l *Log) do(ctx context.Context, make func(*transaction) (refusal, err error)) error {
	o := &operation{make: make, err: errPanicked}
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

// transact makes the operations in one transaction and returns the batches to publish. Nothing is
// committed any more once the file was found damaged, or once a failed write may have
// reached the disk: see ErrUncertain.
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
		l.failed.Store(true)
		l.giveUp(err)
	}
	if l.broken != nil {
		return nil, l.broken
	}
	return batches, err
}

// make makes the operations, and then enforces the limits of each product once.
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

// view calls read with a transaction that reads.
func (l *Log) view(read func(*bolt.Tx) error) error {
	return l.guarded(func() error { return l.db.View(read) })
}

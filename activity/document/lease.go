package document

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// DefaultLeaseTTL lets the work of a holder that died pass on within 10
// seconds.
const DefaultLeaseTTL = 6 * time.Second

// Lease is the right to do some work, which one holder has at a time, among
// all processes on one store. It is a document that its holder renews and that
// expires without it.
//
// A holder can lose its lease without noticing: a paused process wakes up when
// its time is over. So what it writes to the store goes together with
// [Lease.Check], and what it asks others to do carries [Lease.Token] where they
// can tell old holders from new: tokens grow from holder to holder.
//
// Its methods are not safe for concurrent use, except Check and Token.
type Lease struct {
	store     Store
	productID string
	doc       Document
	ttl       time.Duration
	until     time.Time // by the holder's clock, counted from before the store was asked
}

// ErrHeld says that another holder has the lease.
var ErrHeld = errors.New("document: the lease is held by another")

// ErrLost says that a lease is over.
var ErrLost = errors.New("document: the lease is lost")

// Acquire takes the lease of that name for ttl (DefaultLeaseTTL for zero) and
// returns ErrHeld while another has it. It does not wait.
func Acquire(ctx context.Context, store Store, productID, name string, ttl time.Duration) (*Lease, error) {
	if ttl <= 0 {
		ttl = DefaultLeaseTTL
	}
	l := &Lease{store: store, productID: productID, ttl: ttl, until: time.Now().Add(ttl),
		doc: Document{Name: "lease/" + name, Value: []byte(uuid.NewString())}}
	version, err := store.Write(ctx, productID, Put(l.doc, l.doc.Value, ttl))
	var conflict *ConflictError
	if errors.As(err, &conflict) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("document: acquire lease: %w", err)
	}
	l.doc.Version = version
	return l, nil
}

// Token is greater than that of every holder before, and the same until the
// lease is lost.
func (l *Lease) Token() Version { return l.doc.Version }

// Until returns when the lease is over unless it is renewed.
func (l *Lease) Until() time.Time { return l.until }

// Check is a change that holds others to the lease: they happen only while the
// holder still has it.
func (l *Lease) Check() Change { return Check(l.doc) }

// Renew extends the lease by its time to live from now. ErrLost means that it
// is over; after any other error it is as it was, or renewed.
func (l *Lease) Renew(ctx context.Context) error {
	until := time.Now().Add(l.ttl)
	_, err := l.store.Write(ctx, l.productID, Touch(l.doc, l.ttl))
	var conflict *ConflictError
	if errors.As(err, &conflict) {
		return ErrLost
	}
	if err != nil {
		return fmt.Errorf("document: renew lease: %w", err)
	}
	l.until = until
	return nil
}

// Release gives the lease up, so that another need not wait until it is over.
// Releasing a lease that is lost does nothing.
func (l *Lease) Release(ctx context.Context) error {
	_, err := l.store.Write(ctx, l.productID, Delete(l.doc))
	var conflict *ConflictError
	if err != nil && !errors.As(err, &conflict) {
		return fmt.Errorf("document: release lease: %w", err)
	}
	return nil
}

// WithLease does work while it has the lease of that name, again and again,
// until ctx ends: it waits for the lease, calls work and keeps renewing. The
// context given to work ends when the lease is lost, or cannot be renewed in
// time. When work returns the lease is released; an error of work ends
// WithLease, nil and a lost lease make it wait for the lease again. A name that
// is no lease's is an error wrapping [ErrInvalid].
//
// A holder that dies is succeeded within ttl and a third (DefaultLeaseTTL for
// zero ttl). The processes' clocks need not agree.
func WithLease(ctx context.Context, store Store, productID, name string, ttl time.Duration, work func(context.Context, *Lease) error) error {
	if ttl <= 0 {
		ttl = DefaultLeaseTTL
	}
	ticker := time.NewTicker(ttl / 3)
	defer ticker.Stop()
	for ctx.Err() == nil {
		lease, err := Acquire(ctx, store, productID, name, ttl)
		switch {
		case err == nil:
			if err := lease.do(ctx, ticker, work); err != nil {
				return err
			}
		case errors.Is(err, ErrInvalid):
			return err
		}
		// Any other error is somebody else's lease, or storage that is away: both pass.
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// do works until the work is done, and returns what it returned, unless it
// returned for want of the lease or because ctx ended.
func (l *Lease) do(ctx context.Context, ticker *time.Ticker, work func(context.Context, *Lease) error) error {
	working, cancel := context.WithCancelCause(ctx)
	over := time.AfterFunc(time.Until(l.until), func() { cancel(ErrLost) }) // even while a renewal hangs
	done := make(chan error, 1)
	given := *l
	go func() { done <- work(working, &given) }()
	err := l.keep(working, cancel, ticker, over, done)
	over.Stop()
	lost := errors.Is(context.Cause(working), ErrLost) || l.lostBy(err)
	cancel(nil)
	released, cancelRelease := context.WithTimeout(context.WithoutCancel(ctx), l.ttl/3)
	defer cancelRelease()
	_ = l.Release(released) // else it is over by itself
	if lost || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// keep renews the lease until the work is done, and returns what it returned.
// It stops renewing when the work is told to end.
func (l *Lease) keep(working context.Context, cancel context.CancelCauseFunc, ticker *time.Ticker, over *time.Timer, done <-chan error) error {
	for {
		select {
		case err := <-done:
			return err
		case <-working.Done():
			return <-done
		case <-ticker.C:
			renewal, cancelRenewal := context.WithDeadline(working, l.until)
			err := l.Renew(renewal)
			cancelRenewal()
			switch {
			case err == nil:
				over.Reset(time.Until(l.until))
			case errors.Is(err, ErrLost):
				cancel(ErrLost)
			}
		}
	}
}

// lostBy reports whether err says that the lease is lost: work can notice
// before the holder does, by what its changes come to.
func (l *Lease) lostBy(err error) bool {
	var conflict *ConflictError
	return errors.Is(err, ErrLost) || errors.As(err, &conflict) && conflict.Name == l.doc.Name
}

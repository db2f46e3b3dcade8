package document

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

// DefaultLeaseTTL is short enough for another holder to succeed a dead one
// within 10 seconds.
const DefaultLeaseTTL = 6 * time.Second

// Lease is the exclusive right to do some work, held by one holder at a time among all
// processes that share a store. It is a document that its holder renews and that expires
// otherwise.
//
// A holder can lose its lease without noticing: a paused process may wake up after the lease
// has expired. So writes to the store include [Lease.Check], and requests to other systems
// carry [Lease.Token] as a fencing token where those systems can reject an old one: tokens grow
// from holder to holder.
//
// Its methods are safe for concurrent use.
type Lease struct {
	store     Store
	productID string
	doc       Document
	ttl       time.Duration

	mu    sync.Mutex
	until time.Time // by the holder's clock, counted from before the call to the store
}

// leasePrefix begins the name of a lease's document.
const leasePrefix = "lease/"

// ErrHeld reports that another holder has the lease.
var ErrHeld = errors.New("document: the lease is held by another")

// ErrLost reports that a lease has expired or has passed to another holder.
var ErrLost = errors.New("document: the lease is lost")

// Acquire takes the named lease for ttl (DefaultLeaseTTL if zero), or returns
// ErrHeld if another holder has it. It does not wait.
func Acquire(ctx context.Context, store Store, productID, name string, ttl time.Duration) (*Lease, error) {
	if ttl <= 0 {
		ttl = DefaultLeaseTTL
	}
	l := &Lease{store: store, productID: productID, ttl: ttl, until: time.Now().Add(ttl),
		doc: Document{Name: leasePrefix + name, Value: []byte(uuid.NewString())}}
	version, err := store.Write(ctx, productID, Put(l.doc, l.doc.Value, ttl))
	if IsConflict(err) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("document: acquire lease: %w", err)
	}
	l.doc.Version = version
	return l, nil
}

// Token returns the fencing token: greater than every earlier holder's,
// and constant until the lease is lost.
func (l *Lease) Token() Version { return l.doc.Version }

// Until returns when the lease expires unless it is renewed.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Check is a change that makes the other changes of a call conditional on the
// lease: they happen only while the holder still has it.
func (l *Lease) Check() Change { return Check(l.doc) }

// Renew extends the lease by its time to live from now. ErrLost means that the
// lease is lost; after any other error it may or may not have been renewed.
func (l *Lease) Renew(ctx context.Context) error {
	until := time.Now().Add(l.ttl)
	_, err := l.store.Write(ctx, l.productID, Touch(l.doc, l.ttl))
	if IsConflict(err) {
		return ErrLost
	}
	if err != nil {
		return fmt.Errorf("document: renew lease: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if until.After(l.until) {
		l.until = until
	}
	return nil
}

// Release gives the lease up, so that another holder need not wait for it to
// expire. Releasing a lost lease does nothing.
func (l *Lease) Release(ctx context.Context) error {
	_, err := l.store.Write(ctx, l.productID, Delete(l.doc))
	if err != nil && !IsConflict(err) {
		return fmt.Errorf("document: release lease: %w", err)
	}
	return nil
}

// WithLease calls work each time it has acquired the named lease, until ctx
// ends, and renews the lease while work runs. The context passed to work ends
// when the lease is lost or cannot be renewed in time. When work returns, the
// lease is released; an error from work ends WithLease, while nil or a lost
// lease makes it wait for the lease again. An invalid name is an error
// wrapping [ErrInvalid].
//
// A dead holder is succeeded within four thirds of ttl (DefaultLeaseTTL if
// zero). The clocks of the processes need not agree.
func WithLease(ctx context.Context, store Store, productID, name string, ttl time.Duration,
	work func(context.Context, *Lease) error) error {
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
		// Any other error means that another holder has the lease or that
		// storage is unavailable: both are temporary.
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// releaseTime bounds the release of a lease, which otherwise expires.
const releaseTime = 500 * time.Millisecond

// onePause is the pause between two looks of WithOne for a free lease.
const onePause = 200 * time.Millisecond

// WithOne calls work once, with the first of the named leases that is free, and returns its
// error. It waits for one until ctx ends. The context passed to work ends when the lease is
// lost or cannot be renewed in time; otherwise the lease is renewed while work runs, and
// then released.
func WithOne(ctx context.Context, store Store, productID string, names []string,
	work func(context.Context) error) (err error) {
	ticker := time.NewTicker(DefaultLeaseTTL / 3)
	defer ticker.Stop()
	leases := make([]string, len(names)) // the names of their documents
	for i, name := range names {
		leases[i] = leasePrefix + name
	}
	for {
		docs, failed := store.Get(ctx, productID, leases...) // waiting costs no writes
		if failed != nil {
			return failed
		}
		for i, name := range names {
			if docs[i].Exists() {
				continue
			}
			lease, taken := Acquire(ctx, store, productID, name, DefaultLeaseTTL)
			if taken == nil {
				_ = lease.do(ctx, ticker, func(ctx context.Context, _ *Lease) error {
					err = work(ctx)
					return err
				})
				return err
			}
			if !errors.Is(taken, ErrHeld) {
				return taken
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(onePause):
		}
	}
}

// do runs work to its end and returns its error, or nil if work returned
// because the lease was lost or ctx ended.
func (l *Lease) do(ctx context.Context, ticker *time.Ticker, work func(context.Context, *Lease) error) error {
	working, cancel := context.WithCancelCause(ctx)
	over := time.AfterFunc(time.Until(l.Until()), func() { cancel(ErrLost) }) // fires even while a renewal hangs
	done := make(chan error, 1)
	go func() { done <- work(working, l) }()
	err := l.keep(working, cancel, ticker, over, done)
	over.Stop()
	lost := errors.Is(context.Cause(working), ErrLost) || l.lostBy(err)
	cancel(nil)
	released, cancelRelease := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancelRelease()
	_ = l.Release(released) // otherwise it expires
	if lost || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// keep renews the lease until work returns, and returns work's error. It stops
// renewing once work's context has ended.
func (l *Lease) keep(working context.Context, cancel context.CancelCauseFunc, ticker *time.Ticker, over *time.Timer,
	done <-chan error) error {
	for {
		select {
		case err := <-done:
			return err
		case <-working.Done():
			return <-done
		case <-ticker.C:
			renewal, cancelRenewal := context.WithDeadline(working, l.Until())
			err := l.Renew(renewal)
			cancelRenewal()
			switch {
			case err == nil:
				over.Reset(time.Until(l.Until()))
			case errors.Is(err, ErrLost):
				cancel(ErrLost)
			}
		}
	}
}

// lostBy reports whether err means that the lease is lost: work can notice
// before the holder does, by a conflict of its own changes.
func (l *Lease) lostBy(err error) bool {
	conflict, ok := errors.AsType[*ConflictError](err)
	return errors.Is(err, ErrLost) || ok && conflict.Name == l.doc.Name
}

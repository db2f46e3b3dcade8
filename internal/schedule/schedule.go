// Package schedule runs work in order within a key and concurrently across
// keys. It sits between a log and everything that is written elsewhere: a
// consumer's handler, a note, a reply.
//
//	s := schedule.New(write, finished, schedule.Options[Entry]{Debounce: 3 * time.Second, Take: merge,
//		MaxItems: 1024, MinBackoff: time.Second, MaxBackoff: 30 * time.Second, CanGiveUp: always, Failed: log})
//	go s.Run(ctx)
//	err := s.Add(ctx, entry.Session, entry, len(entry.Data)) // waits for room
//
// Every item added is finished exactly once: with nil if its work succeeded, or
// with an error if it is skipped or given up. There is no other way to
// acknowledge it.
//
// The package also has the rules for the time of a next attempt: [Backoff], [Quiet], and [AskedWait] for
// the wait that an HTTP answer asks for.
package schedule

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// maxBytes limits a scheduler's unfinished items, but a single item may have any size.
	maxBytes = 64 << 20
	// leastMaxDelay is the shortest time after which a debounced item is
	// processed even if more keep arriving; see [Options.Debounce].
	leastMaxDelay = 10 * time.Second
)

// Work processes the items of one key: at least one, in the order in which they
// were added. Calls for one key never overlap. After an error the call is
// retried with the same items; see [Permanent] and [RetryAfter]. It must return
// soon after ctx has ended, and must not modify the slice.
type Work[T any] func(ctx context.Context, key string, items []T) error

// Finished is called once for every item, without holding a lock, before the
// key's next work starts. The error is nil for work that succeeded, a
// *[PermanentError] for items that are skipped, and any other error for items
// that are given up.
type Finished[T any] func(key string, items []T, err error)

// Options configures a [Scheduler]. Only Debounce and Take may be zero.
type Options[T any] struct {
	// Debounce is how long a key must be quiet before its items are processed.
	// No item waits longer than max(10 s, 3 × Debounce), and none waits while
	// Add is blocked. Zero disables waiting.
	Debounce time.Duration
	// Take returns how many of a key's waiting items the next call gets, and
	// whether no further item could join them, so that they need not wait for
	// one. retried reports that the previous call had to be retried. If it
	// returns zero, the call gets all of them, but they wait up to 10 s for a
	// further item. A nil Take takes one at a time.
	Take func(waiting []T, retried bool) (n int, full bool)
	// MaxItems limits the unfinished items. Add blocks beyond it, and beyond 64 MiB.
	MaxItems int
	// MinBackoff and MaxBackoff limit the backoff before a retry. It doubles
	// from one to the other, with a jitter of a fifth.
	MinBackoff, MaxBackoff time.Duration
	// GiveUpAfter is how long a key may fail before all its items are given up.
	// They are given up earlier if Add finds no room and half of the unfinished
	// items belong to failing keys.
	GiveUpAfter time.Duration
	// CanGiveUp is called before a key's items are given up, if it has failed for
	// GiveUpAfter or blocks Add; both reports that it does both. While it returns
	// false the key is retried. It must not call the scheduler.
	CanGiveUp func(items []T, both bool) bool
	// Failed is called for each failed call of work, with the backoff before
	// the retry, or zero if the error is permanent.
	Failed func(key string, err error, pause time.Duration)
}

// PermanentError is a failure that retries cannot fix. See [Permanent].
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent marks an error of work as one that retries cannot fix: the items
// are skipped and the key goes on. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{err}
}

// IsPermanent reports whether the error, or one that it wraps, is a
// *[PermanentError].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*PermanentError](err)
	return ok
}

// RetryAfter returns the minimum backoff that the error, or one that it wraps,
// requests through its method RetryAfter.
func RetryAfter(err error) time.Duration {
	var asks interface{ RetryAfter() time.Duration }
	if errors.As(err, &asks) {
		return asks.RetryAfter()
	}
	return 0
}

// Scheduler passes items to work. Its methods are safe for concurrent use; the
// items of one key must be added sequentially.
type Scheduler[T any] struct {
	work     Work[T]
	finished Finished[T]
	opts     Options[T]

	mu      sync.Mutex
	lanes   map[string]*lane[T] // for keys with items
	start   func(*lane[T])      // starts a lane's goroutine; nil while Run is not running
	items   int                 // added and unfinished
	bytes   int64               // size of these items
	stuck   int                 // items of failing keys
	waiting int                 // calls of Add waiting for room
	changed chan struct{}       // closed when items are finished; nil without waiters
}

// lane holds the items of one key. The scheduler's mutex guards it.
type lane[T any] struct {
	key   string
	queue []T
	sizes []int64
	held  int       // items at the front of queue that are being worked on, or retried
	first time.Time // when the oldest item after those was added
	last  time.Time // when the newest item was added
	wake  Wake      // makes its goroutine look again

	finished int // items
	flush    int // while finished is less, items do not wait for further ones

	// The failed calls for the held items, or for the ones held last.
	failures int
	failing  time.Time // when the first of them failed
	again    time.Time // when to retry
}

// isFailing reports whether a key's items are being retried.
func (l *lane[T]) isFailing() bool { return l.held > 0 && l.failures > 0 }

// New returns a scheduler. It does nothing until Run is called.
func New[T any](work Work[T], finished Finished[T], opts Options[T]) *Scheduler[T] {
	if opts.Take == nil {
		opts.Take = func([]T, bool) (int, bool) { return 1, true }
	}
	return &Scheduler[T]{work: work, finished: finished, opts: opts, lanes: map[string]*lane[T]{}}
}

// Add adds an item with a size in bytes, and returns before it is processed. It
// blocks while there is no room. If ctx ends first, Add returns ctx's error and
// has not added the item. It fails for no other reason.
func (s *Scheduler[T]) Add(ctx context.Context, key string, item T, bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.awaitRoom(ctx, int64(bytes)); err != nil {
		return err
	}
	l, ok := s.lanes[key]
	if !ok {
		l = &lane[T]{key: key, wake: NewWake()}
		if s.lanes[key] = l; s.start != nil {
			defer s.start(l)
		}
	}
	now := time.Now()
	if len(l.queue) == l.held {
		l.first = now
	}
	l.last = now
	l.queue, l.sizes = append(l.queue, item), append(l.sizes, int64(bytes))
	s.items++
	s.bytes += int64(bytes)
	if l.isFailing() {
		s.stuck++
	}
	if ok && (l.isFailing() || s.wait(l, now) <= 0) { // a failing key may have to be given up now
		l.wake.Signal()
	}
	return nil
}

// awaitRoom waits until there is room. It releases the lock while it waits.
func (s *Scheduler[T]) awaitRoom(ctx context.Context, bytes int64) error {
	if err := ctx.Err(); err != nil || s.hasRoom(bytes) {
		return err
	}
	if s.waiting++; s.waiting == 1 {
		for _, l := range s.lanes { // debounce waits end now, and failing items may be given up
			l.wake.Signal()
		}
	}
	defer func() { s.waiting-- }()
	for !s.hasRoom(bytes) {
		if err := s.awaitChange(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitChange waits until items are finished or ctx ends, and returns ctx's error. It releases the
// lock while it waits.
func (s *Scheduler[T]) awaitChange(ctx context.Context) error {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Items returns the number of unfinished items.
func (s *Scheduler[T]) Items() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.items)
}

func (s *Scheduler[T]) hasRoom(bytes int64) bool {
	return s.items < s.opts.MaxItems && (s.items == 0 || s.bytes+bytes <= maxBytes)
}

// Flush ends the debounce waits of earlier items, and returns when all of them
// are finished. If ctx ends first, it returns ctx's error. Run must be running.
func (s *Scheduler[T]) Flush(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := map[*lane[T]]int{}
	for _, l := range s.lanes {
		l.flush = l.finished + len(l.queue)
		until[l] = l.flush
		l.wake.Signal()
	}
	for l, items := range until {
		for l.finished < items {
			if err := s.awaitChange(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run processes added items until ctx ends, and returns ctx's error once every
// call of work has returned. The ctx passed to work ends at the same time.
// Unfinished items wait for the next Run, which retries interrupted calls. Runs
// must not overlap.
func (s *Scheduler[T]) Run(ctx context.Context) error {
	var lanes sync.WaitGroup
	s.mu.Lock()
	s.start = func(l *lane[T]) { lanes.Go(func() { s.serve(ctx, l) }) }
	s.stuck = 0
	for _, l := range s.lanes {
		l.held = 0
		s.start(l)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.start = nil
	s.mu.Unlock()
	lanes.Wait()
	return ctx.Err()
}

// serve works on a key until it has no items left, or ctx ends: then the next Run goes on.
func (s *Scheduler[T]) serve(ctx context.Context, l *lane[T]) {
	var err error // of the last call
	for ctx.Err() == nil {
		items, wait, givesUp := s.due(l)
		switch {
		case items == nil && wait == 0:
			return
		case items == nil:
			l.wake.Await(ctx, wait)
			continue
		case !givesUp:
			if err = s.call(ctx, l, items); err != nil && !IsPermanent(err) {
				continue // it is retried
			}
		}
		s.finished(l.key, items, err)
		s.release(l, len(items))
	}
}

// due returns the items to process now, or how long to wait for them. If it gives the key up, it
// returns all of its items. It returns neither for a lane without items, which it removes.
func (s *Scheduler[T]) due(l *lane[T]) (items []T, wait time.Duration, givesUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case len(l.queue) == 0:
		delete(s.lanes, l.key)
		return nil, 0, false
	case l.isFailing() && s.isGivenUp(l):
		return l.queue[:len(l.queue):len(l.queue)], 0, true
	}
	if wait = s.wait(l, now); wait > 0 {
		return nil, wait, false
	}
	if l.held == 0 {
		if l.held, _ = s.opts.Take(l.queue, l.failures > 0); l.held <= 0 || l.held > len(l.queue) {
			l.held = len(l.queue)
		}
		l.first, l.failures = now, 0
	}
	return l.queue[:l.held:l.held], 0, false
}

// wait returns how long a key's items should wait: for their retry, or for further items. It is
// not above zero while items are being worked on.
func (s *Scheduler[T]) wait(l *lane[T], now time.Time) time.Duration {
	switch {
	case l.isFailing():
		return l.again.Sub(now)
	case s.waiting > 0 || l.finished < l.flush || l.held > 0:
		return 0
	}
	n, full := s.opts.Take(l.queue, l.failures > 0)
	switch {
	case n == 0:
		return l.last.Add(leastMaxDelay).Sub(now)
	case full || n < len(l.queue) || s.opts.Debounce <= 0:
		return 0
	}
	return Quiet(l.first, l.last, s.opts.Debounce).Sub(now)
}

// call calls work once and records a failure that can be retried.
func (s *Scheduler[T]) call(ctx context.Context, l *lane[T], items []T) error {
	err := s.work(ctx, l.key, items)
	switch {
	case err == nil:
	case IsPermanent(err):
		s.opts.Failed(l.key, err, 0)
	case ctx.Err() == nil:
		s.opts.Failed(l.key, err, s.fail(l, err))
	}
	return err
}

// fail records a failed call, and returns the pause before the retry.
func (s *Scheduler[T]) fail(l *lane[T], err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if l.failures++; l.failures == 1 {
		l.failing = now
		s.stuck += len(l.queue)
	}
	pause := max(Backoff{s.opts.MinBackoff, s.opts.MaxBackoff}.After(l.failures), RetryAfter(err))
	l.again = now.Add(pause)
	return pause
}

// isGivenUp reports whether to give a failing key up: at the next attempt it will have failed for
// too long, or failing keys block others.
func (s *Scheduler[T]) isGivenUp(l *lane[T]) bool {
	tooLong := l.again.Sub(l.failing) > s.opts.GiveUpAfter
	blocks := s.waiting > 0 && 2*s.stuck >= s.items
	return (tooLong || blocks) && s.opts.CanGiveUp(l.queue, tooLong && blocks)
}

// release removes a key's finished items.
func (s *Scheduler[T]) release(l *lane[T], n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, bytes := range l.sizes[:n] {
		s.bytes -= bytes
	}
	s.items -= n
	if l.isFailing() {
		s.stuck -= len(l.queue)
	}
	clear(l.queue[:n]) // do not keep them alive through the array
	l.queue, l.sizes, l.held = l.queue[n:], l.sizes[n:], 0
	l.finished += n
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Quiet returns when a key is due whose oldest waiting item arrived at first and
// whose newest arrived at last: once it has been quiet for the debounce time, but
// at most max(10 s, 3 × debounce) after first.
func Quiet(first, last time.Time, debounce time.Duration) time.Time {
	return Earlier(last.Add(debounce), first.Add(max(leastMaxDelay, 3*debounce)))
}

// Earlier returns the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Backoff limits the pauses between attempts.
type Backoff struct{ Min, Max time.Duration }

// After returns the pause after at least one failure in a row: the even one, plus up
// to a fifth at random.
func (b Backoff) After(failures int) time.Duration {
	pause := b.Even(failures)
	return pause + rand.N(pause/5+1)
}

// Even returns the pause without jitter: Min, doubled with every failure after the
// first, up to Max.
func (b Backoff) Even(failures int) time.Duration {
	doublings := min(max(0, failures-1), 16)
	if b.Min <= b.Max>>doublings {
		return b.Min << doublings
	}
	return b.Max
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/groupcommit"
	"github.com/liveactivity/liveactivity/internal/ledger"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// run is a call of [Consumer.Run]: a live reader of the source, an occasional pass for the
// sessions that are behind, and the handlers.
//
//	live reader   receive: an entry goes to the handlers, unless its session is behind
//	pass          hand: the entries missed by sessions that are behind, in order, until they have caught up
//	handlers      finish: the entry is acknowledged, or its session falls behind
//	save          the cursor, with a position for each session that is not up to the live reader
//
// The live reader and the pass are one goroutine each, which also call Deliver; the other
// handlers are called by goroutines of the scheduler. A Delivery may be finished after the run
// has ended.
type run struct {
	consumer  *Consumer
	ledger    *ledger.Ledger
	scheduler *schedule.Scheduler[*Delivery] // calls the handlers, except Deliver
	saves     *groupcommit.Group[struct{}]
	openedAt  atomic.Int64            // when the source was first opened, in epoch seconds by its clock
	goal      atomic.Pointer[string]  // the last id retained then; nil while unknown
	reading   atomic.Pointer[passage] // the newest pass; nil before the first
	wakes     sync.Map                // key → func(Message) bool, of the held sessions
	full      sync.Once               // logs that held sessions are skipped
	gaps      sync.Mutex              // held while a gap is reported
}

// maxSavers bounds the acknowledged entries that share a save of the cursor.
const maxSavers = 1 << 10

// newRun returns the state for a call of Run, positioned at the saved cursor. From then on an
// earlier run with open deliveries no longer saves the cursor.
func (c *Consumer) newRun(ctx context.Context) (*run, error) {
	c.cursors.Lock()
	defer c.cursors.Unlock()
	r, text := &run{consumer: c}, ""
	var err error
	if c.opts.Cursor != nil {
		if text, err = c.opts.Cursor.Load(ctx); err != nil {
			return nil, fmt.Errorf("stream: load cursor: %w", err)
		}
	}
	r.ledger, err = ledger.Load(text, ledger.Options{MaxBehind: c.opts.MaxBehind,
		MinBackoff: c.opts.MaxBackoff, MaxBackoff: 10 * c.opts.MaxBackoff})
	if err != nil {
		return nil, fmt.Errorf("stream: load cursor: %w; remove it to start at Since", err)
	}
	finished := func(_ string, deliveries []*Delivery, err error) { r.finish(err, deliveries...) }
	r.scheduler = schedule.New(r.handle, finished, schedule.Options[*Delivery]{
		MaxItems: c.opts.MaxPending, MinBackoff: c.opts.MinBackoff, MaxBackoff: c.opts.MaxBackoff,
		GiveUpAfter: c.opts.ParkAfter, CanGiveUp: canFall, Failed: r.failed,
	})
	r.saves = groupcommit.New(maxSavers, func([]struct{}) { r.saveNow(context.WithoutCancel(ctx)) })
	c.latest = r
	return r, nil
}

// do runs the live reader, the passes and the scheduler until one of them fails, and returns
// when all have ended. If the source ends by itself, the entries received so far are handled
// first.
func (r *run) do(ctx context.Context) error {
	r.consumer.running.Store(r)
	defer r.consumer.running.Store(nil)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.scheduler.Run(ctx) })
	group.Go(func() error { return r.passes(ctx) })
	group.Go(func() error {
		id, since := r.ledger.Position()
		err := r.consumer.source.Follow(ctx, id, r.start(since), r.live(ctx))
		var refused *RefusedError
		if ctx.Err() == nil && !errors.As(err, &refused) { // the source has ended by itself, as a closed log does
			_ = r.scheduler.Flush(ctx) // it fails only with ctx
		}
		return err
	})
	return group.Wait()
}

// start returns where to start without an id: at since, the earlier start in epoch seconds, or
// at the option Since if that is zero.
func (r *run) start(since int64) time.Time {
	if since != 0 {
		return time.Unix(since, 0)
	}
	return r.consumer.opts.Since
}

// live returns the function that receives the live reader's events. The function blocks while
// too much is in flight, which slows the reader down.
func (r *run) live(ctx context.Context) func(feed.Event) error {
	return func(e feed.Event) error {
		switch e.Kind {
		case feed.Entry:
			return r.receive(ctx, e.Message)
		case feed.TooLarge:
			r.ledger.Skip(e.ID)
			r.consumer.stats.add(func(s *ConsumerStats) { s.SkippedTooLarge++ })
			r.consumer.opts.Logger.Error("stream has an event over the limit; skipping it", "id", e.ID,
				"max_bytes", r.consumer.opts.MaxEventBytes)
		case feed.Gap:
			r.gap(e.Requested, e.Oldest)
		case feed.CaughtUp:
			r.retained()
		case feed.Open:
			r.opened(e.Opened.Unix())
		}
		return nil
	}
}

// receive delivers an entry, unless its session is behind: then a pass delivers it.
func (r *run) receive(ctx context.Context, m Message) error {
	entry := r.ledger.Receive(m.ID, keyOf(m))
	if entry == nil {
		r.passOver(m)
		return nil
	}
	return r.hand(ctx, &Delivery{Message: m, run: r, entry: entry})
}

// hand delivers an entry to the scheduler or to Deliver; it returns the error of ctx if that
// ends first. An erasure is split first.
func (r *run) hand(ctx context.Context, d *Delivery) error {
	if d.Type == feed.Erase && d.parts == nil {
		return r.handErasure(ctx, d)
	}
	if r.consumer.handlers.Deliver != nil {
		return r.consumer.handlers.Deliver(ctx, d)
	}
	return r.scheduler.Add(ctx, d.SessionID, d, len(d.Data))
}

// opened records when the source was first opened. That time is also the start if
// there is no other.
func (r *run) opened(at int64) {
	r.openedAt.CompareAndSwap(0, at+2) // the time was rounded down; the rest is a margin
	if id, begun := r.ledger.Position(); id != "" || begun != 0 || !r.consumer.opts.Since.IsZero() {
		return
	}
	r.ledger.Begin(at)
	r.save()
}

// compare concludes that everything retained at the opening has been received if
// the batch was forwarded later.
func (r *run) compare(b activity.Batch) {
	if at := r.openedAt.Load(); at != 0 && b.ForwardedAt > float64(at) {
		r.retained()
	}
}

// retained records that everything retained at the opening has been received. The
// consumer has caught up once all of it is acknowledged.
func (r *run) retained() {
	if r.consumer.caughtUp.Load() {
		return
	}
	id, _ := r.ledger.Position()
	r.goal.CompareAndSwap(nil, &id)
	r.lookIfCaughtUp()
}

// lookIfCaughtUp marks the consumer as caught up once everything up to the goal is
// acknowledged.
func (r *run) lookIfCaughtUp() {
	if goal := r.goal.Load(); goal != nil && !r.consumer.caughtUp.Load() && r.ledger.FinishedTo(*goal) {
		r.consumer.caughtUp.Store(true)
	}
}

// gap reports that entries are lost: to the live reader or, of sessions that are behind, to a
// pass.
func (r *run) gap(requested, oldest string) {
	r.gaps.Lock()
	defer r.gaps.Unlock()
	r.consumer.stats.add(func(s *ConsumerStats) { s.Gaps++ })
	r.consumer.opts.Logger.Warn("stream has a gap: entries are no longer retained", "requested", requested,
		"oldest", oldest)
	if r.consumer.handlers.Gap != nil {
		r.consumer.handlers.Gap(requested, oldest)
	}
}

// passes reads the log again for sessions that are behind, whenever some are due, one pass at a
// time. A pass that fails is repeated after a back-off.
func (r *run) passes(ctx context.Context) error {
	pauses := schedule.Backoff{Min: r.consumer.opts.MinBackoff, Max: r.consumer.opts.MaxBackoff}
	for failures := 1; ; failures++ {
		if err := r.awaitPass(ctx); err != nil {
			return err
		}
		ended, err := r.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case ended:
			failures = 0
			continue
		}
		var refused *RefusedError
		if errors.As(err, &refused) {
			return err
		}
		if err := schedule.Sleep(ctx, pauses.After(failures)); err != nil {
			return err
		}
	}
}

// awaitPass returns when a pass is due.
func (r *run) awaitPass(ctx context.Context) error {
	for ctx.Err() == nil {
		due, ok := r.ledger.NextPass()
		wait := time.Until(due)
		switch {
		case !ok:
			wait = time.Hour // or until woken
		case wait <= 0:
			return nil
		}
		r.ledger.Wake().Await(ctx, wait)
	}
	return ctx.Err()
}

// pass makes one pass, which reads from the oldest position of the sessions that are due. It
// reports whether the pass ended without a failure: because nothing was left to read, or because
// it was interrupted.
func (r *run) pass(ctx context.Context) (ended bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &passage{stop: func() { cancel(errPassed) }, ended: make(chan struct{})}
	defer close(p.ended)
	r.reading.Store(p)
	from, ok := r.ledger.BeginPass(time.Now(), p.stop)
	if !ok {
		return true, nil
	}
	defer r.ledger.EndPass()
	_, since := r.ledger.Position()
	err = r.consumer.source.Follow(ctx, from, r.start(since), func(e feed.Event) error {
		switch e.Kind {
		case feed.Gap:
			if r.ledger.Lost(e.Oldest) {
				r.gap(e.Requested, e.Oldest)
			}
		case feed.Entry:
			if err := r.awaitLive(ctx, e.ID); err != nil {
				return err
			}
			if entry := r.ledger.Catch(e.ID, keyOf(e.Message)); entry == nil {
				r.passOver(e.Message)
			} else if err := r.hand(ctx, &Delivery{Message: e.Message, More: entry.More, run: r, entry: entry,
				again: true}); err != nil {
				r.ledger.Drop(entry)
				return err
			}
			if r.ledger.Passed(e.ID) {
				r.save()
			}
		}
		return nil
	})
	return errors.Is(context.Cause(ctx), errPassed), err
}

// awaitLive returns when the live reader has received the entry: a pass does not overtake an
// erasure that the live reader is about to hand over.
func (r *run) awaitLive(ctx context.Context, id string) error {
	for !r.ledger.Received(id) {
		if err := schedule.Sleep(ctx, livePoll); err != nil {
			return err
		}
	}
	return nil
}

// livePoll is how often a pass that is at the end of the log looks for the live reader.
const livePoll = 100 * time.Millisecond

// errPassed ends a pass that has nothing left to read, or that must start over.
var errPassed = errors.New("stream: the pass is over")

// passage is a pass in progress.
type passage struct {
	stop  func()        // asks it to end
	ended chan struct{} // closed once it delivers nothing more
}

// interruptPass ends the pass in progress, if there is one, and waits for its end. Its sessions
// are due again once nothing of them is in flight, and the next pass reads the log as it is then.
func (r *run) interruptPass(ctx context.Context) error {
	p := r.reading.Load()
	if p == nil {
		return nil
	}
	p.stop()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handle calls the handlers of an entry. It tries an entry of a pass only
// once: the next pass tries again.
func (r *run) handle(ctx context.Context, _ string, one []*Delivery) error {
	d := one[0]
	if d.dropped() {
		return nil
	}
	err := r.call(ctx, d)
	if giveBack(ctx, err, d) {
		r.consumer.stats.add(func(s *ConsumerStats) { s.HandlerFailures++ })
		return nil
	}
	return err
}

// giveBack lets the session of a pass's deliveries fall behind again if a
// retry may fix err, and reports whether it did.
func giveBack(ctx context.Context, err error, deliveries ...*Delivery) bool {
	if err == nil || ctx.Err() != nil || !deliveries[0].again || schedule.IsPermanent(err) {
		return false
	}
	acknowledge(err, deliveries...)
	return true
}

// call calls the handlers of an entry. Raw is called until it has returned nil once; an entry
// that cannot be decoded is a permanent error.
func (r *run) call(ctx context.Context, d *Delivery) error {
	if r.consumer.handlers.Raw != nil && !d.rawDone {
		if err := r.consumer.handlers.Raw(ctx, d.Message); err != nil {
			return err
		}
		d.rawDone = true
	}
	switch {
	case d.Type == activity.BatchType && r.consumer.handlers.Actions != nil:
		b, err := d.Batch()
		if err != nil {
			return Permanent(&malformedError{err})
		}
		return r.consumer.handlers.Actions(ctx, b)
	case d.Type == feed.Erase && r.consumer.handlers.Erase != nil:
		e, err := d.Erasure()
		if err != nil {
			return Permanent(&malformedError{err})
		}
		return r.consumer.handlers.Erase(ctx, e)
	case d.Type == SummaryType && r.consumer.handlers.Summary != nil:
		var s Summary
		if err := d.Decode(&s); err != nil {
			return Permanent(&malformedError{err})
		}
		return r.consumer.handlers.Summary(ctx, s)
	case d.Type == "":
		return Permanent(errNoType)
	}
	return nil
}

// malformedError is the error for an entry that cannot be decoded. Such entries are counted
// separately.
type malformedError struct{ error }

var errNoType = &malformedError{errors.New("no JSON object with a type")}

// failed is called by the scheduler for every failure of a handler.
func (r *run) failed(key string, err error, pause time.Duration) {
	if schedule.IsPermanent(err) {
		return // the entry is skipped
	}
	r.consumer.stats.add(func(s *ConsumerStats) { s.HandlerFailures++ })
	r.consumer.opts.Logger.Warn("stream handler failed", "session_id", short(key), "err", err, "again_in",
		pause.Round(time.Millisecond))
}

// save saves the acknowledged position, if there is a cursor store, and returns when that is
// done. Calls that come during a save share the next one. A failure is logged; the next save
// includes the position.
func (r *run) save() {
	if r.consumer.opts.Cursor != nil {
		_ = r.saves.Do(context.Background(), struct{}{}) // its context never ends
	}
}

// saveNow saves the cursor, unless another run has started since: that run relies
// on the last save before it.
func (r *run) saveNow(ctx context.Context) {
	r.consumer.cursors.Lock()
	defer r.consumer.cursors.Unlock()
	if r.consumer.latest != r {
		return
	}
	if err := r.consumer.opts.Cursor.Save(ctx, r.ledger.String()); err != nil {
		r.consumer.opts.Logger.Error("stream cursor save failed", "err", err)
	}
}

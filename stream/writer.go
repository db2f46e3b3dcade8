package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/keylock"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// maxMerged bounds the actions of a session that are merged.
const maxMerged = 500

// WriterOptions configures a [Writer]. A zero field means its default.
type WriterOptions struct {
	// Debounce is how long a session must be quiet before its pending batches
	// are written as one. Zero writes each batch immediately and unmerged.
	Debounce time.Duration
	// Summarizer, if not nil, summarizes the written batches.
	Summarizer *Summarizer
	// AwaitLink defers the writes of a session until its conversation is
	// known, for up to [ConsumerOptions].MaxBehind sessions; see [Delivery.Hold].
	AwaitLink bool
	// ParkAfter is how long a session's writes may fail before it falls
	// behind, see [Delivery.Done]; DefaultParkAfter.
	ParkAfter time.Duration
	// MinBackoff and MaxBackoff bound the back-off before a write is retried:
	// it doubles from one to the other, with a jitter of a fifth;
	// DefaultMinBackoff and DefaultMaxBackoff.
	MinBackoff, MaxBackoff time.Duration
	// MaxPending bounds the pending batches of all sessions together, waiting
	// or being written; half of DefaultMaxPending, so less than a [Consumer] has in
	// flight. At the bound batches are written without waiting for a pause, and Deliver
	// blocks.
	MaxPending int
	// MaxBytes bounds the memory of the sessions that have a link or wait for
	// one; the least recently used are evicted first; DefaultMaxBytes.
	MaxBytes int64
	// Erase handles the erasure of a person, as [Handlers].Erase does. It is called after the
	// session's last write and before the next one. By then the person's actions have been
	// removed from the pending batches, and the Summarizer has forgotten the session. Nil means
	// there is nothing else to do.
	Erase func(ctx context.Context, e Erasure) error
	// Logger logs failed writes; nil for slog.Default().
	Logger *slog.Logger
}

// Writer passes batches to a write function, such as one that appends to a
// store or posts a note. Deliver is the handler for a [Consumer], and Run writes. A
// [Consumer] reads batches from elsewhere through a [Source].
//
// # When
//
// A session's batches wait until none has come for Debounce, until they hold
// 500 actions, or until the first has waited for max(10 s, 3 × Debounce); then
// they are merged by [activity.Merge] and written as one. The times at which they
// were forwarded count as well, however fast they arrive: a replayed stream is
// written just as the live one was. Batches that waited for a link, or gathered
// while a write was retried, are merged up to 500 actions.
//
// # In which order
//
// The writes of one session never overlap and follow the order of its batches.
// Sessions do not wait for each other. Batches outside any session are merged
// by user, and not at all if the user is unknown.
//
// # When it fails
//
// A failed write is retried with the same batch after 1 s, 2 s, 4 s and so on
// up to 30 s, with a jitter of a fifth, until it succeeds, the error is marked
// by [Permanent], or Run ends; so the function may see a batch again after it
// failed. When a session has failed for ParkAfter, its deliveries are returned
// to their consumer and redelivered later: see [Delivery.Done]. A delivery is
// acknowledged once it is written.
//
// # Summaries
//
// Written batches are passed to the Summarizer. The built-in summary is made
// before the session's next write, so it covers the same batches each time a
// stream is replayed. A running model does not delay writes, and its summary
// replaces only notes written before the request. The Summarizer's
// overwrite never overlaps a write of the same session. The Summarizer must
// not be given batches by anything else.
//
// # Links
//
// A session is linked to a conversation by [Writer.SessionLinked], or by the
// first batch with a ConversationID. The first link is permanent: from then on
// each batch of the session, and each action in it, is written with that
// ConversationID. Only an erasure of the session ends the link. With AwaitLink,
// nothing is written for a session before it is linked. Deliveries wait in the
// stream: they are held and redelivered after the link, even after a restart if the
// consumer stores a cursor. Batches outside any session cannot be linked: with
// AwaitLink they are dropped unless they carry a ConversationID.
type Writer struct {
	write     func(ctx context.Context, b activity.Batch) error
	opts      WriterOptions
	stats     counts[WriterStats]
	scheduler *schedule.Scheduler[piece]
	summaries sync.WaitGroup
	locks     keylock.Locks // held during each write, erasure and overwrite of a key

	mu    sync.Mutex
	links *fair.Cache[string, *link] // of sessions; the least recently used are evicted first
}

// piece is a delivery that waits to be written.
type piece struct {
	delivery *Delivery
	batch    activity.Batch
	erasure  *Erasure // instead of a batch
}

// NewWriter returns a writer; opts may be nil. write should return soon after
// its ctx has ended, and must not modify its batch. Nothing is written before
// Run. NewWriter reports all invalid arguments at once.
func NewWriter(write func(ctx context.Context, b activity.Batch) error, opts *WriterOptions) (*Writer, error) {
	o := *cmp.Or(opts, &WriterOptions{})
	wrong := options.Mistakes{Package: "stream"}
	wrong.Require(write != nil, "write", "must not be nil")
	o.Debounce = options.Default(&wrong, "Debounce", o.Debounce, 0)
	o.MaxPending = options.Default(&wrong, "MaxPending", o.MaxPending, DefaultMaxPending/2)
	o.MaxBytes = options.Default(&wrong, "MaxBytes", o.MaxBytes, DefaultMaxBytes)
	o.ParkAfter = options.Default(&wrong, "ParkAfter", o.ParkAfter, DefaultParkAfter)
	o.MinBackoff, o.MaxBackoff = checkBackoff(&wrong, o.MinBackoff, o.MaxBackoff)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	w := &Writer{write: write, opts: o, links: fair.New[string, *link](&fair.Options{TotalBytes: o.MaxBytes}, nil)}
	finished := func(_ string, pieces []piece, err error) { acknowledge(err, deliveriesOf(pieces)...) }
	w.scheduler = schedule.New(w.work, finished, schedule.Options[piece]{
		Debounce: o.Debounce, Take: w.merge, MaxItems: o.MaxPending, MinBackoff: o.MinBackoff, MaxBackoff: o.MaxBackoff,
		GiveUpAfter: o.ParkAfter, Failed: w.failed,
		CanGiveUp: func(pieces []piece, blocking bool) bool { return canFall(deliveriesOf(pieces), blocking) },
	})
	return w, nil
}

// Deliver accepts a delivery of any type, and returns before it is written. It
// is for [Handlers.Deliver]. It blocks while MaxPending batches are pending,
// and fails only when ctx ends; the delivery is then redelivered.
func (w *Writer) Deliver(ctx context.Context, d *Delivery) error {
	switch d.Type {
	case activity.BatchType:
	case feed.Erase:
		return w.deliverErasure(ctx, d)
	case "":
		d.Done(Permanent(errNoType))
		return ctx.Err()
	default: // not for a writer
		d.Done(nil)
		return ctx.Err()
	}
	b, err := d.Batch()
	if err != nil {
		d.Done(Permanent(&malformedError{err}))
		return ctx.Err()
	}
	conversationID := w.link(b.SessionID, b.ConversationID)
	if conversationID == "" && w.opts.AwaitLink {
		w.hold(d)
		return ctx.Err()
	}
	return w.queue(ctx, piece{delivery: d, batch: linked(b, conversationID)})
}

// deliverErasure accepts the erasure of a session, or of a user outside any.
func (w *Writer) deliverErasure(ctx context.Context, d *Delivery) error {
	e, err := d.Erasure()
	if err != nil {
		d.Done(Permanent(&malformedError{err}))
		return ctx.Err()
	}
	of := activity.Batch{ProductID: e.ProductID, SessionID: d.SessionID, UserID: e.UserID}
	w.unlink(d.SessionID)
	return w.queue(ctx, piece{delivery: d, batch: of, erasure: &e})
}

func (w *Writer) queue(ctx context.Context, p piece) error {
	return w.scheduler.Add(ctx, p.key(), p, len(p.delivery.Data))
}

// hold leaves a delivery in the stream until its session is linked.
func (w *Writer) hold(d *Delivery) {
	sessionID := d.SessionID
	if sessionID == "" {
		d.Done(nil)
		return
	}
	resume := d.Hold(func(m Message) bool {
		b, err := m.Batch()
		if err != nil {
			return false
		}
		return w.link(b.SessionID, b.ConversationID) != ""
	})
	w.mu.Lock()
	l := w.linkOf(sessionID)
	l.resume = resume
	w.keepLink(sessionID, l)
	isLinked := l.conversationID != ""
	w.mu.Unlock()
	if isLinked { // in the meantime
		resume()
	}
}

// linked returns the batch with the conversation set in it and in each action.
func linked(b activity.Batch, conversationID string) activity.Batch {
	if conversationID == "" {
		return b
	}
	b.ConversationID = conversationID
	b.Actions = slices.Clone(b.Actions)
	for i := range b.Actions {
		b.Actions[i].ConversationID = conversationID
	}
	return b
}

// key returns the key under which a piece waits: its session's, or its user's outside any session.
// A piece with neither has a key of its own.
func (p piece) key() string {
	switch b := p.batch; {
	case b.SessionID != "":
		return b.ProductID + "\x00session\x00" + b.SessionID
	case b.UserID != "":
		return b.ProductID + "\x00user\x00" + b.UserID
	}
	return p.batch.ProductID + "\x00nobody\x00" + p.delivery.ID
}

// forwarded returns when the batch was forwarded, to the microsecond.
func (p piece) forwarded() time.Time {
	return time.UnixMicro(int64(math.Round(p.batch.ForwardedAt * 1e6)))
}

// merge returns how many of the waiting pieces to write as one, and whether no further piece
// could join them, so that they need not wait. Zero means that the next piece is about to
// arrive. An erasure ends its group, which includes every piece before it. After a failed
// call, pieces are merged however far apart they were forwarded.
func (w *Writer) merge(waiting []piece, retried bool) (n int, full bool) {
	if n := 1 + slices.IndexFunc(waiting, func(p piece) bool { return p.erasure != nil }); n > 0 {
		return n, true
	}
	actions := len(waiting[0].batch.Actions)
	first := waiting[0].forwarded()
	newest := first
	for n = 1; n < len(waiting); n++ {
		at := waiting[n].forwarded()
		near := w.opts.Debounce > 0 && !at.After(schedule.Quiet(first, newest, w.opts.Debounce))
		if actions >= maxMerged || !near && !retried && !waiting[n-1].delivery.More {
			return n, true
		}
		actions += len(waiting[n].batch.Actions)
		newest = schedule.Later(newest, at)
	}
	last := waiting[n-1].delivery
	if last.More && actions < maxMerged {
		return 0, false // the next one is about to arrive
	}
	return n, last.again && !last.More || actions >= maxMerged
}

// SessionLinked links a session to a conversation, before or after its first
// action, and returns before anything is written. Repeating a link returns
// nil; if the session is linked to another conversation, SessionLinked changes
// nothing and returns a *LinkError. It also fails if an ID is empty or ctx has ended.
func (w *Writer) SessionLinked(ctx context.Context, sessionID, conversationID string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if sessionID == "" || conversationID == "" {
		return errors.New("stream: a link needs a session ID and a conversation ID")
	}
	if linked := w.link(sessionID, conversationID); linked != conversationID {
		return &LinkError{SessionID: sessionID, ConversationID: linked}
	}
	return nil
}

// LinkError reports that a session is linked to another conversation.
type LinkError struct {
	SessionID      string
	ConversationID string // the existing link
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("stream: session %q is linked to conversation %q", e.SessionID, e.ConversationID)
}

// Flush ends all current debounce waits, and returns when those batches and
// the writes in flight are done, or when ctx ends. Run must be running; Flush also waits for a
// write that is being retried.
func (w *Writer) Flush(ctx context.Context) error { return w.scheduler.Flush(ctx) }

// Run writes until ctx ends, and returns the error of ctx after every call in
// flight has returned. The ctx of those calls ends with it; no further call
// starts. Calls of Run must not overlap; the next one, if any, writes the rest.
func (w *Writer) Run(ctx context.Context) error {
	defer w.summaries.Wait()
	return w.scheduler.Run(ctx)
}

// work writes pieces as one batch. It leaves out deliveries that will be
// redelivered.
func (w *Writer) work(ctx context.Context, key string, pieces []piece) error {
	last := pieces[len(pieces)-1]
	batches := batchesOf(pieces, last.erasure)
	var err error
	if last.erasure != nil && !last.delivery.dropped() && !last.delivery.finished.Load() {
		err = w.applyErasure(ctx, key, *last.erasure)
	}
	if len(batches) > 0 && schedule.IsPermanent(err) { // a refused erasure refuses no batch
		w.failed(key, err, 0)
		last.delivery.Done(err)
		err = nil
	}
	if len(batches) > 0 && err == nil {
		err = w.writeOne(ctx, key, activity.Merge(batches...))
	}
	if err != nil && canFall(deliveriesOf(pieces), false) && giveBack(ctx, err, deliveriesOf(pieces)...) {
		w.stats.add(func(s *WriterStats) { s.Failures++ })
		return nil
	}
	return err
}

// batchesOf returns the batches to write, without the actions that the erasure, if not nil,
// removes.
func batchesOf(pieces []piece, erasure *feed.Erasure) []activity.Batch {
	batches := make([]activity.Batch, 0, len(pieces))
	for _, p := range pieces {
		b := &p.batch
		if erasure != nil {
			b = feed.LeftOf(b, erasure)
		}
		if p.erasure == nil && b != nil && !p.delivery.dropped() {
			batches = append(batches, *b)
		}
	}
	return batches
}

// writeOne writes a batch and passes it to the summarizer.
func (w *Writer) writeOne(ctx context.Context, key string, b activity.Batch) error {
	if err := w.exclusively(ctx, key, func() error { return w.write(ctx, b) }); err != nil {
		return err
	}
	w.stats.add(func(s *WriterStats) { s.Written++ })
	if w.opts.Summarizer != nil {
		w.sumUp(ctx, key, b)
	}
	return nil
}

// applyErasure makes the summarizer forget a person, then calls the Erase function,
// if any.
func (w *Writer) applyErasure(ctx context.Context, key string, e Erasure) error {
	if w.opts.Summarizer != nil {
		w.opts.Summarizer.Erase(e)
	}
	if w.opts.Erase == nil {
		return nil
	}
	return w.exclusively(ctx, key, func() error { return w.opts.Erase(ctx, e) })
}

// exclusively calls do while no other call is running for the key, or returns the error
// of ctx.
func (w *Writer) exclusively(ctx context.Context, key string, do func() error) error {
	if err := w.locks.Lock(ctx, key); err != nil {
		return err
	}
	defer w.locks.Unlock(key)
	return do()
}

// sumUp passes a written batch to the summarizer. A due summary is made before the
// next write or, with a model, concurrently with further ones.
func (w *Writer) sumUp(ctx context.Context, key string, b activity.Batch) {
	h := w.opts.Summarizer.note(b)
	if h == nil {
		return
	}
	work := func() {
		w.opts.Summarizer.work(ctx, h, func(do func() error) error { return w.exclusively(ctx, key, do) })
	}
	if w.opts.Summarizer.opts.Model == nil {
		work()
		return
	}
	w.summaries.Go(work)
}

// deliveriesOf returns the deliveries of pieces, in order.
func deliveriesOf(pieces []piece) []*Delivery {
	deliveries := make([]*Delivery, len(pieces))
	for i, p := range pieces {
		deliveries[i] = p.delivery
	}
	return deliveries
}

// failed logs a failed write.
func (w *Writer) failed(key string, err error, pause time.Duration) {
	product, session, _ := strings.Cut(key, "\x00session\x00")
	if schedule.IsPermanent(err) {
		w.stats.add(func(s *WriterStats) { s.Refused++ })
		w.opts.Logger.Error("write was refused; the batch is passed over", "product_id", product,
			"session_id", short(session), "err", err)
		return
	}
	w.stats.add(func(s *WriterStats) { s.Failures++ })
	w.opts.Logger.Warn("write failed", "product_id", product, "session_id", short(session), "again_in",
		pause.Round(time.Millisecond), "err", err)
}

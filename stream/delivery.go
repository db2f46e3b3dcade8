package stream

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/ledger"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// Permanent marks an error of a handler, or of a write function, as one that
// retries cannot fix: the entry or batch is skipped, counted and logged, and
// the session goes on. Permanent(nil) is nil.
func Permanent(err error) error { return schedule.Permanent(err) }

// Delivery is an entry that must be acknowledged explicitly: the [Consumer]'s
// cursor does not pass it before Done is called. Its methods are safe for
// concurrent use. Only a Consumer makes deliveries: the zero value panics, so test with
// package streamtest.
type Delivery struct {
	Message
	// More reports that further entries of the session follow from the log:
	// the session is behind and catching up.
	More bool

	run      *run
	entry    *ledger.Entry
	again    bool          // redelivered by a pass: a failure makes the session fall behind immediately
	rawDone  bool          // the Raw handler has returned nil
	parts    *atomic.Int64 // of an erasure, those that are not acknowledged; nil for any other entry
	finished atomic.Bool

	decode sync.Once
	batch  activity.Batch
	err    error
}

// Batch returns the delivery's batch of actions, which must not be modified,
// or an error if the entry has none. Only the first call decodes it.
func (d *Delivery) Batch() (activity.Batch, error) {
	d.decode.Do(func() {
		var b *activity.Batch
		if b, d.err = d.Message.Batch(); d.err == nil {
			d.batch = *b
			d.run.compare(d.batch)
		}
	})
	return d.batch, d.err
}

// Done acknowledges the delivery if err is nil or marked by [Permanent]. After
// any other error the session falls behind: none of its entries stay in memory, and
// after a back-off this delivery and later ones without an acknowledgement are
// redelivered in order. Only the first call has an effect.
func (d *Delivery) Done(err error) { d.run.finish(err, d) }

// Hold lets the session fall behind until resume is called, or until wake
// returns true for a later entry of the session; then this delivery and later
// ones are redelivered in order. Until then none of the session's entries stay in
// memory. wake may call resume, but nothing else of the consumer, and may be nil.
//
// [ConsumerOptions.MaxBehind] bounds the sessions that are held or behind:
// beyond it the session held for longest is released as if all its entries had been
// acknowledged.
func (d *Delivery) Hold(wake func(m Message) bool) (resume func()) {
	r, key := d.run, d.entry.Key
	if wake != nil {
		r.wakes.Store(key, wake)
	}
	if other, ok := r.ledger.Hold(d.entry); ok {
		r.wakes.Delete(other)
		r.consumer.stats.add(func(s *ConsumerStats) { s.SkippedHeldTooLong++ })
		r.full.Do(func() {
			r.consumer.opts.Logger.Warn("stream has too many sessions to hold; skipping those held for longest",
				"max_behind", r.consumer.opts.MaxBehind)
		})
	}
	r.save()
	return func() { r.resume(key) }
}

// dropped reports whether the delivery will be redelivered, so that this copy needs
// no work.
func (d *Delivery) dropped() bool { return d.run.ledger.Dropped(d.entry) }

// acknowledge acknowledges deliveries together, so that they share a save of
// the cursor.
func acknowledge(err error, deliveries ...*Delivery) {
	for len(deliveries) > 0 {
		r, n := deliveries[0].run, 1
		for n < len(deliveries) && deliveries[n].run == r {
			n++
		}
		r.finish(err, deliveries[:n]...)
		deliveries = deliveries[n:]
	}
}

// finish acknowledges deliveries or, after an error that is not permanent, lets
// their sessions fall behind.
func (r *run) finish(err error, deliveries ...*Delivery) {
	done := err == nil || schedule.IsPermanent(err)
	for _, d := range deliveries {
		switch {
		case d.finished.Swap(true):
		case d.parts != nil && d.parts.Add(-1) > 0 && done: // the entry is finished by its last part
			if err != nil {
				r.count(d, err, done)
			}
		case r.ledger.Finish(d.entry, done):
			r.count(d, err, done)
		}
	}
	r.lookIfCaughtUp()
	r.save()
}

// count counts a delivery that was acknowledged, or whose session fell behind.
func (r *run) count(d *Delivery, err error, done bool) {
	var malformed *malformedError
	switch {
	case err == nil:
		r.consumer.stats.add(func(s *ConsumerStats) { s.acknowledged(d.Type) })
	case errors.As(err, &malformed):
		r.consumer.stats.add(func(s *ConsumerStats) { s.SkippedMalformed++ })
		r.consumer.opts.Logger.Error("stream has a malformed entry; skipping it",
			"session_id", short(d.SessionID), "id", d.ID, "err", err)
	case done:
		r.consumer.stats.add(func(s *ConsumerStats) { s.SkippedRefused++ })
		r.consumer.opts.Logger.Error("stream handler rejected an entry; skipping it",
			"session_id", short(d.SessionID), "id", d.ID, "err", err)
	default:
		r.consumer.stats.add(func(s *ConsumerStats) { s.Parked++ })
		r.consumer.opts.Logger.Warn("session falls behind: its handler keeps failing",
			"session_id", short(d.SessionID), "id", d.ID, "err", err)
	}
}

// short truncates an id for a log.
func short(id string) string {
	const enough = 128
	if len(id) <= enough {
		return id
	}
	return id[:enough] + "…"
}

func (r *run) resume(key string) {
	r.wakes.Delete(key)
	r.ledger.Resume(key)
}

// passOver shows an entry that is not delivered now to its session's wake function,
// which may resume the session.
func (r *run) passOver(m Message) {
	wake, ok := r.wakes.Load(m.SessionID)
	if ok && wake.(func(Message) bool)(m) {
		r.resume(m.SessionID)
	}
}

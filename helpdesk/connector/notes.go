package connector

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk"
)

// settleNote records a note that exists or need not be written. A refusal empties the outbox,
// unless an earlier attempt is still in doubt.
//
//	written, found or needless     the outbox is emptied and the cursor moves
//	refused for good               the same, without a note: the actions are left out and counted
//	not found, of somebody erased  the outbox is emptied
//	not made, or refused for now,  the outbox is emptied and the error returned: the next attempt
//	  and not in doubt before      is a new note, which may hold newer actions
//	anything else                  the outbox stays: the note is in doubt, and looked for next
//
// A summary that is left out counts as made, so that it is not made again immediately. The
// counters and the lane are updated after the document is stored: a server that dies in between
// counts too little.
func (j *job) settleNote(ctx context.Context, s *step, o outcome) error {
	var failed *helpdesk.APIError
	switch {
	case o.err == nil:
	case j.isRefused(s, o.err) && !helpdesk.IsGone(o.err):
		j.logger().Error("a note is given up, since the desk refuses it", "err", o.err)
		j.lost("refused", s.writing.Count)
	case !s.doubt && (errors.As(o.err, &failed) && !failed.Ambiguous || isPaused(o.err)) && ctx.Err() == nil:
		return cmp.Or(j.update(ctx, func(c *conversation) error { c.Writing = nil; return nil }), o.err)
	default:
		return o.err
	}
	w, at := s.writing, time.Time{}
	if o.err == nil && w.Text != "" {
		at = j.d.store.now()
	}
	err := j.update(ctx, func(c *conversation) error {
		if c.written(o.id, at); w.Erased {
			c.Writing = nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	j.lost("trimmed", w.Trimmed)
	if s.want != nil {
		s.want.found, s.want.trimmed = s.want.found[s.covered:], 0
		if j.unfinished = ""; len(keptOf(s.want.found)) > 0 {
			j.unfinished = w.Session
		}
	}
	isLast := !j.isHeld() && !slices.ContainsFunc(j.wants, func(w *want) bool { return w.more })
	j.locked(func() { j.lane.noted(w, j.calm(), isLast) })
	if !at.IsZero() && !w.Erased {
		j.count(w)
	}
	return nil
}

// isPaused reports whether a request was not made because it has to wait.
func isPaused(err error) bool {
	_, ok := errors.AsType[*pausedError](err)
	return ok
}

// count counts a note, and for a note of actions the time since its first entry was appended.
func (j *job) count(w *writing) {
	kind, flow := "summary", tracing.Flow{Summaries: 1}
	if w.Summary == nil {
		kind, flow = "actions", tracing.Flow{Notes: 1}
		late := max(0, j.d.store.now().Sub(w.First.Time())) // IDs may be ahead of the clock
		j.d.metrics.delay.WithLabelValues(j.d.productID, j.lane.account.desk).Observe(late.Seconds())
	}
	j.d.opts.Meter.Count(j.d.productID, flow)
	j.d.metrics.notes.WithLabelValues(j.d.productID, j.lane.account.desk, kind).Inc()
}

// settleRedaction records that a note is redacted, or that the desk refuses to redact it.
func (j *job) settleRedaction(ctx context.Context, s *step, o outcome) error {
	if o.err != nil && (!isFinal(o.err) || helpdesk.IsGone(o.err)) {
		return o.err
	}
	if o.err != nil {
		j.logger().Warn("the desk refuses to redact a note", "err", o.err)
	}
	return j.update(ctx, func(c *conversation) error { c.Redact = without(c.Redact, s.redact); return nil })
}

// lost counts and logs actions that are in no note; it ignores a count of zero or less.
func (j *job) lost(reason string, actions int) {
	if actions > 0 {
		j.d.metrics.lost.WithLabelValues(j.d.productID, j.lane.account.desk, reason).Add(float64(actions))
		j.logger().Warn("actions are in no note", "reason", reason, "actions", actions)
	}
}

// countTrimmed counts the lost actions of sessions whose unread entries were all trimmed, as far
// as their number is known. The log no longer has it, so it comes from the directory's count of
// the session's actions. The cursor adopts that count, so that the actions are counted once.
// Gaps before an action that is still in the log are counted by the scan.
func (j *job) countTrimmed(ctx context.Context) error {
	for _, w := range j.wants {
		if !w.gap || len(w.found) > 0 || w.more {
			continue
		}
		known, ok, err := j.d.store.dir.Session(ctx, j.d.productID, w.ID)
		if err != nil {
			return err
		}
		if !ok || w.at.Next == 0 || known.Actions <= w.at.Next {
			continue
		}
		j.lost("trimmed", known.Actions-w.at.Next)
		err = j.update(ctx, func(c *conversation) error {
			if s := c.session(w.ID); s != nil {
				c.unread(s).Next = known.Actions
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

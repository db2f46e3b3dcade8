package connector

import (
	"context"
	"errors"
	"time"

	"github.com/liveactivity/liveactivity/internal/summary"
)

// Models are asked beside the conversation, in a goroutine of the lease, so no note waits for
// one. The call is a step without an outbox: it changes nothing at the desk, and its result
// stays in memory until a later step stores it. If a server dies, the next owner asks again.
//
//	next: kindDraft   ──▶ draft    a summary ──▶ next: kindNote, stored and written
//	next: kindCompose ──▶ compose  a reply   ──▶ next: kindReply, or kindDrop without a text

// draft has a model write a summary, or makes it from the actions if no model may see
// them. The result makes the conversation due. After a failure the next note brings the
// next attempt. The session is the caller's copy, and is only read.
func (j *job) draft(s *step, of session) {
	d, l := j.d, j.lane
	j.think(func(ctx context.Context) func(*memo) {
		done := sessionSummary{Upto: s.upto}
		vouched, err := d.store.isVouched(ctx, d.productID, l.link(), of, j.product.TakesClaims)
		switch {
		case err != nil:
		case vouched:
			done.Text, err = d.askModel(ctx, l.link(), func(ctx context.Context) (string, error) {
				prompt := of.Prompt(summary.DefaultInstructions, of.lastSummary())
				return summary.Ask(ctx, d.opts.Model, summary.Timeout, prompt)
			})
		default:
			done.Text, done.Extracted = of.Extract(), true
		}
		if err != nil && ctx.Err() == nil {
			d.logger.Warn("a session was not summarized; retrying at its next note", "session_id", of.ID, "err", err)
		}
		return func(m *memo) { m.draft = &writing{Session: of.ID, UserID: of.UserID, Summary: &done} }
	})
}

// compose has the reply to messages composed. The result, the step to take, makes the conversation
// due. If the reply must not be sent, or the program declines, that step drops the messages. A
// failure is retried with the back-off of answers.
func (j *job) compose(s *step, q Question, sessions []session) {
	d, product := j.d, j.product
	j.think(func(ctx context.Context) func(*memo) {
		text, err := d.reply(ctx, q, askers(s.batch), sessions, product.TakesClaims)
		problem := ""
		if err == nil {
			problem = unfit(text, product.LinkHosts)
		}
		return func(m *memo) {
			switch {
			case errors.Is(err, ErrNoReply):
				m.answer = &step{kind: kindDrop, message: s.message, outcome: "left"}
			case problem != "":
				d.logger.Warn("a reply is withheld: "+problem, "desk", q.Desk, "conversation_id", q.ConversationID)
				m.answer = &step{kind: kindDrop, message: s.message, outcome: "withheld"}
			case err == nil:
				to := s.message
				to.Reply = text
				m.answer, m.failures[answers] = &step{kind: kindReply, message: to}, 0
			case ctx.Err() == nil:
				d.metrics.replies.WithLabelValues(d.productID, q.Desk, "retried").Inc()
				if first, _ := m.fail(answers, 0, replyTTL); first {
					d.logger.Warn("no reply was composed; retrying", "desk", q.Desk, "conversation_id", q.ConversationID, "err", err)
				}
			}
		}
	})
}

// think runs a model's work beside the conversation and records its start and its result in the
// lane. It calls work in a goroutine of the lease without mu, and the function that work returns
// under mu, even after the lease has ended. The caller holds the lease, but not mu.
//
// If the lane was forgotten in the meantime, the result is lost along with it: the conversation
// may have a new lane by now, and must not get a second one. After an erasure in the
// conversation the result is dropped as well, because the activity behind it may be erased.
func (j *job) think(work func(ctx context.Context) func(*memo)) {
	d, l, erasures := j.d, j.lane, j.erasures
	d.mu.Lock()
	defer d.mu.Unlock()
	l.ensureMemo().modelRuns = true
	d.spawn(func(ctx context.Context) error {
		done := work(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		l.memo.modelRuns = false
		if done(l.memo); l.erasures != erasures {
			l.memo.draft, l.memo.answer = nil, nil
		}
		if d.lanes[l.key] == l {
			d.lookAt(l, time.Now(), true)
		}
		return ctx.Err()
	})
}

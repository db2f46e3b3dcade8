package connector

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// because says in words why notes are late.
func because(err error) string {
	var e *helpdesk.APIError
	switch {
	case !errors.As(err, &e):
		return "the desk cannot be asked"
	case e.Status == 0:
		return "the desk does not answer"
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "the desk refuses the credentials"
	case e.Status == http.StatusPaymentRequired:
		return "the account of the desk has ended"
	case e.Status == http.StatusTooManyRequests && e.OneConversation:
		return "the desk limits the conversation"
	case e.Status == http.StatusTooManyRequests:
		return "the desk limits the account"
	case e.Status == http.StatusConflict:
		return "another change to the conversation is in progress"
	}
	return "the desk fails"
}

// backOff returns how long the conversation waits after a failure.
func (j *job) backOff(err error) time.Duration {
	status, wait := 0, time.Duration(0)
	var failed *helpdesk.APIError
	if errors.As(err, &failed) {
		status = failed.Status
		if !failed.AccountWide() {
			wait = failed.Wait
		}
	}
	j.metrics.retries.WithLabelValues(j.productID, j.lane.queue.desk, strconv.Itoa(status)).Inc()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lane.failures == 0 && failed != nil && !failed.AccountWide() {
		j.logger.Warn("notes of a conversation are late: "+because(err), "desk", j.lane.queue.desk, "conversation_id", j.conversationID(), "err", err)
	}
	pause := firstRetry << min(j.lane.failures, 5)
	if j.lane.failures < 255 {
		j.lane.failures++
	}
	pause = min(pause, lastRetry)
	pause += time.Duration(rand.Int64N(int64(pause / 5)))
	if helpdesk.IsAmbiguous(err) {
		wait = max(wait, settleTime)
	}
	return max(pause, wait)
}

// end ends the job unfinished: the lane is due again at that time.
func (j *job) end(due time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.from != (eventlog.ID{}) {
		j.lane.readFrom(j.from)
	}
	j.requeue(j.lane, due)
}

// requeue puts a lane that was worked on back into its queue. The mutex is held.
func (p *partition) requeue(l *lane, due time.Time) {
	l.index = idle
	l.queue.put(l, due)
}

// done ends the job: everything that was found is written. The lane is due again
// when there is more.
func (j *job) done() {
	j.mu.Lock()
	defer j.mu.Unlock()
	l, now := j.lane, time.Now()
	l.failures, l.used = 0, now.Unix()
	more := j.drafts[l] != nil || j.resumes && len(j.conv.Redact) > 0
	if j.resumes && j.from != (eventlog.ID{}) {
		l.readFrom(j.from)
		more = true
	}
	for _, w := range j.wants {
		if w.more {
			l.readFrom(w.reached)
			more = true
		}
	}
	switch {
	case more:
		j.requeue(l, now)
	case l.from != (eventlog.ID{}):
		l.since = now.UnixNano()
		if !j.closing {
			now = now.Add(j.notes.Debounce)
		}
		j.requeue(l, now)
	default:
		l.index, l.since = idle, 0
	}
}

// drop forgets a lane that was worked on, and whose conversation is not there any
// more. A session may have joined it anew meanwhile.
func (p *partition) drop(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.from != (eventlog.ID{}) {
		p.requeue(l, time.Now())
		return
	}
	l.index = idle
	p.forget(l)
}

// gone ends the links of a conversation that is gone, and drops its notes.
func (j *job) gone(ctx context.Context, cause error) error {
	for _, s := range j.conv.Sessions {
		if err := j.unlink(ctx, j.productID, j.lane.key, s.ID); err != nil {
			j.end(time.Now().Add(storageRetry))
			return j.storageFailed(ctx, err)
		}
	}
	_, err := j.docs.Write(ctx, j.productID, document.Delete(j.doc), j.lease.Check())
	var conflict *document.ConflictError
	switch {
	case errors.As(err, &conflict) && conflict.Name != j.doc.Name:
		return err
	case err != nil:
		j.end(time.Now().Add(storageRetry)) // a session joined, or storage is away
		return nil
	}
	j.logger.Info("a conversation is gone; its sessions can be linked again", "desk", j.lane.queue.desk, "conversation_id", j.conversationID(), "err", cause)
	j.metrics.links.WithLabelValues(j.productID, j.lane.queue.desk, "ended").Inc()
	for _, w := range j.wants {
		j.lost("gone", len(keptOf(w.found)))
	}
	j.drop(j.lane)
	return nil
}

// lost counts actions that are in no note.
func (j *job) lost(reason string, actions int) {
	if actions > 0 {
		j.metrics.lost.WithLabelValues(j.productID, j.lane.queue.desk, reason).Add(float64(actions))
		j.logger.Warn("actions are in no note", "reason", reason, "actions", actions, "desk", j.lane.queue.desk, "conversation_id", j.conversationID())
	}
}

// countTrimmed counts the actions of a session that were trimmed, all that were to
// be written, as far as it is known how many there were.
func (j *job) countTrimmed(ctx context.Context, w *want) error {
	known, ok, err := j.dir.Session(ctx, j.productID, w.session)
	if err != nil {
		return err
	}
	if !ok || w.at.Next == 0 || known.Actions <= w.at.Next {
		return nil
	}
	j.lost("trimmed", known.Actions-w.at.Next)
	return j.update(ctx, func(c *conversation) {
		if s := c.session(w.session); s != nil {
			s.Cursor.Next = known.Actions
		}
	})
}

// errDropped says that a conversation's document is not there any more.
var errDropped = errors.New("connector: the conversation is not known any more")

// update changes the conversation's document while this process holds the lease,
// whatever it takes. The change is made again when somebody else changes the
// document, or when it is not known whether a write had its effect.
func (j *job) update(ctx context.Context, change func(*conversation)) error {
	change(&j.conv)
	for {
		put, err := j.put(j.doc, &j.conv)
		if err != nil {
			return err
		}
		version, err := j.docs.Write(ctx, j.productID, put, j.lease.Check())
		var conflict *document.ConflictError
		switch {
		case err == nil:
			j.doc.Version = version
			return nil
		case errors.As(err, &conflict) && conflict.Name == j.doc.Name:
			err = j.reload(ctx)
			if err == nil {
				change(&j.conv)
				continue
			}
		case errors.As(err, &conflict):
			return err
		}
		if errors.Is(err, errDropped) {
			return err
		}
		if err := j.storageFailed(ctx, err); err != nil {
			return err
		}
	}
}

// reload reads the conversation's document again.
func (j *job) reload(ctx context.Context) error {
	docs, err := j.docs.Get(ctx, j.productID, j.doc.Name)
	if err != nil {
		return err
	}
	conv, err := decodeConversation(docs[0])
	if err != nil || !docs[0].Exists() {
		return errDropped
	}
	j.doc, j.conv = docs[0], conv
	return nil
}

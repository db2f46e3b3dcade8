package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// One pipeline delivers everything that a desk is given:
//
//	log ──▶ see ──▶ lane is due ──▶ dispatch ──▶ scan ──▶ next ──▶ store ──▶ perform ──▶ settle
//	                     ▲                                 ▲                                │
//	                     │                                 └──── until nothing is left ─────┤
//	                     └───────────────────────── back or done ───────────────────────────┘
//
// Every server follows the log, and see wakes the lanes that an entry concerns. Only the holder
// of the lease runs the rest: dispatch and scan in one goroutine, next to settle in one
// goroutine for each job.
//
// The terms, each defined in the file of its name or next to it:
//
//	lease    makes one server at a time work on the conversations of a product. Each write of a
//	         job is conditional on it; a request to a desk cannot be.
//	lane     a conversation in memory: its sessions, when it is due, how often it failed.
//	job      the work on one due conversation. A lane has one job at a time.
//	want     a range of one session's entries in the log, which scan fills with actions.
//	step     one piece of work. The pure function next chooses it from the document, the wants
//	         and the time.
//	outbox   the step in the document, stored before the desk is asked: writing for a note or a
//	         summary, the first message for a reply, the claim of the machine for an offer.
//	writing  a note or a summary in the outbox, with its text.
//
// A step in the outbox outlives its server. Depending on when a server stopped, the next owner
// finds one of three states:
//
//	stopped before store      nothing is stored; next chooses again
//	between store and settle  the outbox is in doubt; the kind of step decides, see kind
//	after settle              the outcome is stored, and the cursor is past the note
//
// A lane exists in memory only and is rebuilt from its document and the log. Losing it costs the
// back-offs, a model's answer that was not stored yet, and a match of a trigger, whose moment
// passes anyway.

// job is the work on one conversation, from when it is due until nothing is left to do
// for now. It takes the steps that next chooses one after the other: it stores a step
// that could be in doubt in the outbox, performs it, and settles the outcome. Its fields
// belong to its goroutine; the lane and the account are shared and guarded by the
// delivery's mutex. The configuration and the desk stay as they were when the job began.
type job struct {
	d       *delivery
	lane    *lane
	product Product
	desk    helpdesk.Desk
	can     helpdesk.Capabilities
	lease   *document.Lease
	owned   time.Time // since when the lease is held

	// r is the document as it was last read or written; update keeps it current.
	r    record
	from eventlog.ID // the lane's, when the job began
	// erasures is the lane's count from before the document was read.
	erasures   int
	wants      []*want   // settled notes take their actions out
	settles    time.Time // the lane's, when the job began
	unfinished string    // see view
}

const (
	requestTime = 30 * time.Second // that a desk has at most; most have less by themselves
	offerTime   = 4 * time.Second  // that an offer, or the deletion after it, may take
	// leastOfferTime is the least that must be left of an offer's time to begin it.
	leastOfferTime = 500 * time.Millisecond
	settleTime     = 5 * time.Second // before a write whose answer was lost is looked for: it may still take effect
	clockMargin    = time.Minute     // by how much a desk's clock may be behind ours
	refusedRetry   = time.Hour       // before a desk that refused a deletion for good is asked again
)

// backoffs are the pauses after failures of one conversation. A failure of the whole account
// pauses the account instead; see account.
var backoffs = [classes]schedule.Backoff{
	notes:      {Min: time.Second, Max: 30 * time.Second},
	redactions: {Min: time.Second, Max: 30 * time.Second},
	answers:    {Min: time.Second, Max: 10 * time.Second}, // somebody is waiting
	contacts:   {Min: time.Second, Max: 10 * time.Second},
	offers:     {Min: time.Second, Max: 30 * time.Second},
}

// Outcomes of a job that are not failures of the desk.
var (
	errNoDocument = errors.New("connector: the conversation is not known any more")
	errMoot       = errors.New("connector: the step is not to be taken any more")
)

// pausedError reports that a request was not made because it has to wait. It is not a failure:
// it does not increase the back-off and leaves nothing in doubt.
type pausedError struct {
	// wait is the pause of this conversation; zero if the account's own time decides.
	wait    time.Duration
	account bool // all requests to the account have to wait
}

func (e *pausedError) Error() string { return fmt.Sprintf("connector: wait %s", e.wait) }

// plan determines the ranges of the log to read for the job. Each session's range starts at the
// position up to which its actions are in notes or in the outbox, but not before from, up to
// which the log holds nothing to write. If from is zero, there are no ranges.
//
// It also updates the lane from the document: the machine, and sessions that joined without a
// notice seen here. The caller holds the delivery's mutex.
func (j *job) plan() {
	c := &j.r.conversation
	if c.Machine != nil || j.lane.memo != nil {
		j.lane.ensureMemo().machine = c.Machine
	}
	for i := range c.Sessions { // one may have joined without a notice seen here
		s := &c.Sessions[i]
		if d, at := j.d, s.Cursor.After; d.join(j.lane, s.ID, s.LinkedAt, at, s.by() == byStranger) {
			j.from = eventlog.Earlier(cmp.Or(j.from, at), at)
		}
	}
	for i := 0; i < len(c.Sessions) && j.from != (eventlog.ID{}); i++ {
		w := &want{session: c.Sessions[i], conversationID: j.lane.link().ConversationID, at: *c.unread(&c.Sessions[i]),
			room: maxText}
		w.from = eventlog.Later(w.at.After, j.from)
		j.wants = append(j.wants, w)
	}
}

// calm returns until when the conversation gets no further note of actions, by this host's clock.
func (j *job) calm() time.Time {
	return j.d.store.hostTime(calm(j.r.NotedAt, j.d.store.now(), j.product.Notes.Interval))
}

// calm returns until when a conversation gets no note of actions after one at that time, by the log's
// clock. It is over if that time is far ahead, of a clock that was set back since.
func calm(noted, now time.Time, interval time.Duration) time.Time {
	if until := after(noted, interval); !until.After(now.Add(2 * interval)) {
		return until
	}
	return now
}

// after returns t + d, and zero for a zero t.
func after(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}

// run works on the job to its end, and releases the lane by exactly one of back, done and drop.
// The outcomes are
//
//	nothing to do now, as     done: due when next says so
//	  after a step's failure
//	lease lost, log closed,   back: due immediately, for the next owner; the error ends the
//	  or ctx ended            lease
//	document gone             drop
//	conversation gone         the sessions are freed, the document is deleted, drop
//	account paused            back: due after the pause
//	any other failure         back: due after the back-off
//
// run fails only in the second case.
func (j *job) run(ctx context.Context) error {
	err := j.countTrimmed(ctx)
	for err == nil {
		s, due, own := j.r.next(j.view())
		if s == nil || !j.admit(s) {
			j.done(j.d.store.hostTime(due), j.d.store.hostTime(own), s != nil)
			return nil
		}
		err = j.absorb(s, j.carryOut(ctx, s))
	}
	var paused *pausedError
	switch {
	case document.IsConflict(err), errors.Is(err, eventlog.ErrClosed), ctx.Err() != nil:
		j.back(time.Now())
		return errors.Join(err, ctx.Err())
	case errors.Is(err, errNoDocument):
		j.d.drop(j.lane)
	case errors.Is(err, errRemoved):
		return j.gone(ctx, err)
	case helpdesk.IsGone(err):
		if j.r.Removing { // by our own request, whose answer was lost
			err = j.removed()
		}
		return j.gone(ctx, err)
	case errors.As(err, &paused):
		j.backIn(paused.wait)
	default:
		j.backIn(j.delay(notes, err))
	}
	return nil
}

// carryOut carries out a step: it stores the step if needed, performs it and settles the
// outcome. If storing fails, the desk was not asked. A failed perform is settled as well,
// because only the settlement knows whether the failure leaves a doubt.
func (j *job) carryOut(ctx context.Context, s *step) error {
	if err := j.store(ctx, s); err != nil {
		if errors.Is(err, errMoot) {
			return nil
		}
		return err
	}
	began := time.Now()
	o := j.perform(ctx, s)
	if j.d.opts.Tracer != nil {
		j.trace(s, began, o.err)
	}
	return j.settle(ctx, s, o)
}

// trace reports a step in which the desk received or refused a note, a summary or an offer. It
// calls the tracer without the mutex in the job's goroutine, so a slow tracer delays the
// conversation.
func (j *job) trace(s *step, began time.Time, err error) {
	traced := tracing.Step{ProductID: j.d.productID, Via: j.lane.account.desk, Began: began, Ended: time.Now(), Err: err}
	switch {
	case s.kind == kindOffer:
		traced.Name, traced.Actions = tracing.Offer, []tracing.Action{s.match.newest}
	case s.kind != kindNote, s.writing.Text == "":
		return
	case s.writing.Summary != nil:
		traced.Name = tracing.Summary
	default:
		traced.Name = tracing.Note
		for i := range s.actions {
			traced.Actions = append(traced.Actions, tracing.ActionOf(s.writing.Session, &s.actions[i]))
		}
	}
	j.d.opts.Tracer(traced)
}

// absorb returns the error of a step if it ends the job: because the account is away, the
// conversation is gone, or storage failed. Any other failure is the step's own, as for a contact
// that is gone: absorb records when to repeat the step, and the job goes on with the steps of
// other classes. An account-wide failure delays the steps of its class as well, because a desk may
// fail in one kind of request only. A success ends the failures in a row of its class, except that
// notes are forgiven at the end of the job, and answers when a reply is composed.
func (j *job) absorb(s *step, err error) error {
	var failed *helpdesk.APIError
	var paused *pausedError
	switch class := s.kind.class(); {
	case err == nil && class != notes && class != answers:
		j.locked(func() {
			if m := j.lane.memo; m != nil {
				m.failures[class] = 0
			}
		})
	case err == nil:
	case helpdesk.IsGone(err) && s.kind != kindContact:
		return err
	case errors.As(err, &failed) && !failed.AccountWide():
		j.delay(class, err)
	case failed != nil && class != notes:
		j.delay(class, err)
		return &pausedError{account: true}
	case errors.As(err, &paused) && !paused.account:
		j.locked(func() { j.lane.ensureMemo().again[class] = time.Now().Add(paused.wait) })
	default:
		return err
	}
	return nil
}

// view returns the current inputs of the next step. It copies them under the mutex, so that next
// can run without it: only the lane's job changes the wants and lists in it.
func (j *job) view() *view {
	d := j.d
	d.mu.Lock()
	defer d.mu.Unlock()
	now, interval := d.store.now(), j.product.Notes.Interval
	v := &view{now: now, settled: d.store.logTime(j.owned.Add(settleTime)),
		calm:       schedule.Later(calm(j.r.NotedAt, now, interval), d.store.logTime(j.settles)),
		strange:    calm(j.r.StrangeAt, now, interval),
		unfinished: j.unfinished, desk: j.desk, can: j.can, notes: j.product.Notes, wants: j.wants,
		models: d.opts.Model != nil, replies: d.opts.Reply != nil}
	if m := j.lane.memo; m != nil {
		v.memo = *m
		for i, again := range m.again {
			v.again[i] = d.store.logTime(again)
		}
	}
	if v.rules = j.product.rules(j.lane.account.desk); v.rules == nil {
		v.match = nil
	}
	return v
}

// store stores a step in the outbox if its kind could be in doubt later. A step in doubt
// is there already. The error is errMoot if there turns out to be nothing to do: a
// message was answered, a session was erased, or an offer is not to be made.
func (j *job) store(ctx context.Context, s *step) error {
	switch {
	case s.doubt:
		return nil
	case s.kind == kindNote:
		if err := j.markClaimed(ctx, s.writing); err != nil {
			return err
		}
		return j.update(ctx, func(c *conversation) error {
			of := c.sessionOf(s.writing.Session, s.writing.UserID)
			if of == nil || of.linkID() != s.link {
				return errMoot
			}
			if c.Writing = s.writing; s.writing.Summary == nil {
				s.writing.History = of.historyWith(s.actions, j.d.opts.Model != nil)
			}
			return nil
		})
	case s.kind == kindReply:
		return j.update(ctx, func(c *conversation) error {
			if len(c.Messages) == 0 || c.Messages[0].ID != s.message.ID {
				return errMoot
			}
			c.Messages = slices.Clone(c.Messages) // earlier steps share the slice
			now := j.d.store.now()
			c.Messages[0].Reply, c.Messages[0].With, c.Messages[0].Begun = s.message.Reply, s.message.With, now
			if j.can.Chats {
				c.say(s.message.Reply, now)
			}
			return nil
		})
	case s.kind == kindOffer:
		return j.claimOffer(ctx, s)
	}
	return nil
}

// markClaimed determines whether a summary was made from claimed activity, which anyone can
// forge. That is stored with the summary, which then replaces no notes. It does nothing
// for a note of actions, or if the product takes claims.
func (j *job) markClaimed(ctx context.Context, w *writing) error {
	s := j.r.session(w.Session)
	if s == nil || w.Summary == nil || j.product.TakesClaims {
		return nil
	}
	vouched, err := j.d.store.isVouched(ctx, j.d.productID, j.lane.link(), *s, false)
	w.Claimed = !vouched
	return err
}

// outcome is the result of performing a step.
type outcome struct {
	err error
	id  string // of the note or offer; empty if the desk returns none, or none was written
	// yes is the desk's answer to a question: the write in doubt was found, the message is the
	// requester's, or the conversation was removed.
	yes     bool
	contact helpdesk.Contact
}

// perform asks the desk, or has a model asked, for a step. Nothing else calls a desk. A reply or an
// offer in doubt is only looked for.
//
// A model is asked beside the job: perform starts the call and returns. The result makes the
// conversation due again.
func (j *job) perform(ctx context.Context, s *step) (o outcome) {
	id := j.lane.link().ConversationID
	ask := func(do func(ctx context.Context) error) { o.err = j.request(ctx, s.kind.class(), do) }
	switch s.kind {
	case kindNote:
		return j.note(ctx, id, s)
	case kindRedaction:
		if j.can.Redactor != nil {
			ask(func(ctx context.Context) error { return j.can.Redactor.Redact(ctx, id, s.redact[0]) })
		}
	case kindDraft:
		j.draft(s, *j.r.session(s.session))
	case kindCompose:
		j.compose(s, question(j.d.productID, j.lane.link(), s.batch), j.sessionsFor(s.batch))
	case kindContact:
		if j.can.Contacts != nil && j.d.store.now().Sub(s.contact.At) <= MaxWait {
			ask(func(ctx context.Context) (err error) {
				o.contact, err = j.can.Contacts.Contact(ctx, s.contact.ContactID)
				return err
			})
		}
	case kindWhose:
		ask(func(ctx context.Context) (err error) {
			o.yes, err = j.can.Replier.IsRequesters(ctx, id, s.message.Text)
			return err
		})
	case kindReply:
		ask(func(ctx context.Context) (err error) {
			if s.doubt {
				o.yes, err = j.can.Replier.FindReply(ctx, id, s.message.Reply, s.message.Begun.Add(-clockMargin))
			} else {
				_, err = j.can.Replier.Reply(ctx, id, s.message.Reply)
			}
			return err
		})
	case kindOffer:
		return j.offer(ctx, id, s)
	case kindFind:
		// An equal offer from before is a different one; a desk's times may be whole seconds.
		since := schedule.Later(s.find.Since.Add(-clockMargin), s.find.After.Add(time.Second))
		ask(func(ctx context.Context) (err error) {
			o.id, o.yes, err = j.can.Offerer.FindOffer(ctx, id, s.find.Offer, since)
			return err
		})
	case kindRemove:
		return j.remove(ctx, id, s)
	}
	return o
}

// note writes a note, unless it has no text. A note in doubt is looked for first, and written again
// only if it is not found, or if the desk cannot look or refuses to. The note of an erased person is
// only looked for.
func (j *job) note(ctx context.Context, id string, s *step) (o outcome) {
	w := s.writing
	if s.doubt && w.Text != "" && j.can.Finder != nil {
		o.err = j.request(ctx, notes, func(ctx context.Context) (err error) {
			o.id, o.yes, err = j.can.Finder.FindNote(ctx, id, w.Text, j.r.LastNote, w.Begun.Add(-clockMargin))
			return err
		})
		if isFinal(o.err) && !helpdesk.IsGone(o.err) && !helpdesk.IsAmbiguous(o.err) {
			j.logger().Warn("a note in doubt is not looked for, since the desk refuses", "err", o.err)
			o.err = nil
		}
	}
	if w.Text == "" || o.err != nil || o.yes || s.doubt && w.Erased {
		return o
	}
	o.err = j.request(ctx, notes, func(ctx context.Context) (err error) {
		o.id, err = j.desk.Note(ctx, id, w.Text)
		return err
	})
	return o
}

// request makes a request of a class to the desk, unless it has to wait: because the lease might
// end first, or because the account limits us or fails, whichever conversation's answer said so.
// Then the error is a *pausedError, and do is not called.
//
// The request ends with ctx, and so with the lease, and after requestTime at the latest.
// Its outcome updates the account, unless ctx has ended: then it says nothing about the
// desk.
func (j *job) request(ctx context.Context, of class, do func(ctx context.Context) error) error {
	if time.Until(j.lease.Until()) <= document.DefaultLeaseTTL/3 {
		return &pausedError{wait: document.DefaultLeaseTTL / 6, account: true}
	}
	if err := j.permit(of); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := do(limited)
	if ctx.Err() == nil {
		j.locked(func() {
			if !j.lane.account.isOwn(j.lane, of, err) {
				j.lane.account.observe(of, err, j.d.logger)
			}
		})
	}
	return err
}

// isFinal reports whether a desk's error will be the same however often the request
// is repeated.
func isFinal(err error) bool {
	failed, ok := errors.AsType[*helpdesk.APIError](err)
	return ok && !failed.Temporary() && !failed.AccountWide()
}

// isRefused reports whether the desk refuses a step for good. A write does not count as refused
// if only its answer could not be read: then it is looked for once, if the desk can look.
func (j *job) isRefused(s *step, err error) bool {
	looks := s.kind == kindReply || s.kind == kindNote && j.can.Finder != nil
	return isFinal(err) && !(looks && !s.doubt && helpdesk.IsAmbiguous(err))
}

// settle stores the outcome of a step as its kind requires, and returns the remaining error: the
// outcome's if the step is to be tried again, or storage's. A model's steps have nothing to
// settle.
func (j *job) settle(ctx context.Context, s *step, o outcome) error {
	switch s.kind {
	case kindNote:
		return j.settleNote(ctx, s, o)
	case kindRedaction:
		return j.settleRedaction(ctx, s, o)
	case kindContact:
		return j.settleContact(ctx, s, o)
	case kindDrop, kindWhose, kindReply:
		return j.settleAnswer(ctx, s, o)
	case kindOffer, kindFind, kindRemove, kindPass:
		return j.settleOffer(ctx, s, o)
	}
	return o.err
}

// settleContact links the session of a contact that was looked up, or stores a waiting link for
// it. If the desk refuses to name the contact, only the webhook's user ID is known. The look-up
// is removed after the link, and only if no newer one has taken its place. Messages that wait
// for their author get the contact as well.
func (j *job) settleContact(ctx context.Context, s *step, o outcome) error {
	if o.err != nil && !isFinal(o.err) {
		return o.err
	}
	o.contact.UserID = cmp.Or(o.contact.UserID, s.contact.UserID)
	c := linkClaim{productID: j.d.productID, Link: j.lane.link(), by: byWebhook,
		at: s.contact.moment(j.d.store.now())}
	if _, err := j.d.linker.linkContact(ctx, c, o.contact); err != nil {
		return err // the desk is asked again
	}
	return j.update(ctx, func(c *conversation) error {
		if known := c.Contact; known != nil && known.ContactID == s.contact.ContactID && known.At.Equal(s.contact.At) {
			c.Contact = nil
		}
		c.Messages = slices.Clone(c.Messages)
		for i, m := range c.Messages {
			if m.ContactID == s.contact.ContactID && m.Contact.Email == "" {
				c.Messages[i].Contact = o.contact
			}
		}
		return nil
	})
}

// update changes the conversation's document under the lease and retries as long as it takes.
// The change is made again if somebody else changed the document, or if it is unknown whether a
// write took effect. An error of the change ends the update.
//
// So the change may be called several times, each time with the document as it is then, and must
// be idempotent. It must replace slices instead of writing into them, because steps and views
// share them. A change that fails must leave the conversation as it was. While storage is
// unavailable update waits, until ctx ends or the log is closed.
//
// After success, j.r is the stored document, and after an error of the change the document as
// last read. Any other error ends the job, and the document may or may not have the change: a
// *document.ConflictError means that the lease is lost, errNoDocument that the document is gone,
// document.ErrInvalid that it would be too long.
func (j *job) update(ctx context.Context, change func(*conversation) error) error {
	if err := change(&j.r.conversation); err != nil {
		return err
	}
	for {
		put, changes, err := j.d.store.change(&j.r)
		if err != nil || !changes {
			return err
		}
		version, err := j.d.store.docs.Write(ctx, j.d.productID, put, j.lease.Check())
		var conflict *document.ConflictError
		switch {
		case err == nil:
			if j.r.doc.Version = version; put.Op == document.OpDelete {
				j.r.doc = document.Document{Name: put.Name}
			}
			return nil
		case errors.As(err, &conflict) && conflict.Name == j.r.doc.Name:
			if err = j.reload(ctx); err == nil {
				if err = change(&j.r.conversation); err != nil {
					return err
				}
				continue
			}
		case errors.As(err, &conflict):
			return err
		}
		if errors.Is(err, errNoDocument) || errors.Is(err, document.ErrInvalid) {
			return err
		}
		if err := j.d.store.awaitStorage(ctx, j.d.logger, err); err != nil {
			return err
		}
	}
}

// reload reads the conversation's document again. The error is errNoDocument if it is gone.
func (j *job) reload(ctx context.Context) error {
	r, err := j.d.store.read(ctx, j.d.productID, j.lane.link())
	if err != nil {
		return err
	}
	if !r.doc.Exists() {
		return errNoDocument
	}
	j.r = r
	return nil
}

// delay counts a failure of a class and returns how long its steps wait. The pause is at least as
// long as the desk asked for this conversation, and gives a note in doubt the time to take effect.
// A pause that the desk asked for the whole account is kept by the account. A deletion that the desk
// refuses for good waits refusedRetry.
func (j *job) delay(class class, err error) (pause time.Duration) {
	status, wait := 0, time.Duration(0)
	var failed *helpdesk.APIError
	own := errors.As(err, &failed) && !failed.AccountWide()
	if failed != nil {
		status = failed.Status
	}
	switch {
	case own && class == offers && isFinal(err):
		wait = refusedRetry
	case own:
		wait = failed.Wait
	}
	if class == notes || class == redactions {
		j.d.metrics.retries.WithLabelValues(j.d.productID, j.lane.account.desk, fmt.Sprint(status)).Inc()
		if helpdesk.IsAmbiguous(err) {
			wait = max(wait, settleTime)
		}
	}
	first := false
	j.locked(func() {
		if class == notes && j.lane.since.IsZero() { // all its actions are older than its link
			j.lane.since = time.Now()
		}
		if class == notes && failed != nil && isRefusal(failed) {
			wait = max(wait, j.d.ownPause(j.lane.account))
		}
		most := refusedRetry
		switch {
		case own:
		case failed != nil && failed.Status == http.StatusTooManyRequests && failed.Wait > 0:
			most = 0 // the account waits
		case !j.lane.account.failing.IsZero():
			most = lastProbe // the desk is to be probed even if few conversations wait
		}
		first, pause = j.lane.ensureMemo().fail(class, wait, most)
	})
	switch {
	case !first:
	case errors.Is(err, document.ErrInvalid):
		j.logger().Error("a conversation waits: there is more in it than can be stored", "err", err)
	case own:
		j.logger().Warn("a conversation waits", "err", err)
	}
	return pause
}

// gone ends a conversation that is gone at its desk, and drops its notes. It frees the sessions
// before it deletes the document: after a crash in between, the next owner finds the document
// and repeats both. A conversation that changed in the meantime is not ended but due
// immediately.
func (j *job) gone(ctx context.Context, cause error) error {
	links, lost := len(j.r.Sessions), 0
	if w := j.r.Writing; w != nil { // a note in doubt goes with the conversation
		lost = w.Count
	}
	for _, s := range j.r.Sessions {
		if err := j.d.store.unlink(ctx, j.d.productID, j.lane.link(), s.ID); err != nil {
			j.back(time.Now().Add(storageRetry))
			return j.d.store.awaitStorage(ctx, j.d.logger, err)
		}
	}
	tried := false
	err := j.update(ctx, func(c *conversation) error {
		if tried { // a session joined, or a message came
			return errMoot
		}
		tried, *c = true, conversation{}
		return nil
	})
	switch {
	case errors.Is(err, errMoot):
		j.back(time.Now())
		return nil
	case err != nil && !errors.Is(err, errNoDocument):
		j.back(time.Now())
		return err
	}
	j.logger().Info("a conversation is gone; its sessions can be linked again", "err", cause)
	j.d.metrics.links.WithLabelValues(j.d.productID, j.lane.account.desk, "ended").Add(float64(links))
	for _, w := range j.wants {
		lost += len(keptOf(w.found))
	}
	j.lost("gone", lost)
	j.d.drop(j.lane)
	return nil
}

// locked calls do under the delivery's mutex, as any change of the lane requires.
func (j *job) locked(do func()) {
	j.d.mu.Lock()
	defer j.d.mu.Unlock()
	do()
}

// logger returns the logger of the conversation, with its desk and ID.
func (j *job) logger() *slog.Logger {
	return j.d.logger.With("desk", j.lane.account.desk, "conversation_id", j.lane.link().ConversationID)
}

package eventlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/keylock"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
)

// maxData is the largest JSON object of an entry, in bytes. A larger batch is
// split: common clients accept events of at most 64 KiB.
const maxData = 60 << 10

// Recorder is the [activity.Sink] of a service: it assigns events their times, drops
// duplicates, updates each session, and appends the actions to a log, one entry per session. It
// is safe for concurrent use; any number of recorders, in any number of processes, may share a
// log.
type Recorder struct {
	log     Log
	dir     *directory.Directory
	actions *prometheus.CounterVec
	opts    RecorderOptions

	// Steps that share a session take turns, so that they do not conflict and have
	// to retry.
	turns keylock.Locks

	idle sync.Pool // of *appending
}

// RecorderOptions configures a Recorder; a zero field means its default.
type RecorderOptions struct {
	// TTL is the maximum age of an event, and how long a session is remembered
	// after its last event; activity.DefaultTTL.
	TTL     time.Duration
	Metrics prometheus.Registerer // where liveactivity_actions_total is registered; nil disables it
	Meter   tracing.Meter         // counts the results of Record and the actions; nil disables it
	Tracer  tracing.Tracer        // traces the appended actions; nil disables it
	// VerifiedOnly reports whether a product accepts no claimed identities: see
	// [directory.Book.VerifiedOnly]. Nil means that every product accepts them.
	VerifiedOnly func(productID string) bool
}

// NewRecorder returns a recorder that appends to log; opts may be nil. It reports
// all invalid arguments at once.
func NewRecorder(log Log, opts *RecorderOptions) (*Recorder, error) {
	o := *cmp.Or(opts, &RecorderOptions{})
	wrong := options.Mistakes{Package: "eventlog"}
	wrong.Require(log != nil, "log", "must not be nil")
	o.TTL = options.Default(&wrong, "TTL", o.TTL, activity.DefaultTTL)
	r := &Recorder{log: log, opts: o,
		actions: metrics.Register(&wrong, o.Metrics, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "liveactivity_actions_total",
			Help: "Actions appended to the log.",
		}, []string{"product_id", "type"}))}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	var err error
	r.dir, err = directory.New(log.Documents(), o.TTL)
	return r, err
}

// stepTimeout bounds a step of a request, including its waits, so that a request is
// answered within 5 seconds in a storage outage. The request's wait before its
// first step counts, but leaves the step at least leastTime.
const (
	stepTimeout = 4 * time.Second
	leastTime   = stepTimeout / 8
)

// Record implements [activity.Sink]. It fails if one of its steps takes longer than 4 seconds;
// for the first step, the time since the events were received counts. Each step is one append,
// all or nothing. After an error the earlier steps stay recorded: their events are duplicates
// when the request is retried.
func (r *Recorder) Record(ctx context.Context, productID string, events []activity.Event) (activity.Result, error) {
	// group    by session; an event twice in the request is dropped
	// steps    of maxEvents at most, one after the other
	// turns    the step waits for other requests with its sessions
	// append   open the book, learn, encode, append with the book's changes
	// again    with the log's duplicates dropped, or from the current documents after a conflict
	timeout := firstTimeout(events)
	a := r.begin(productID)
	a.events = group(a.events[:0], events, time.Now(), r.log.Now())
	duplicates := len(events) - len(a.events)
	result := activity.Result{}
	for s := range steps(a.events) {
		did, err := r.record(ctx, a, s, timeout)
		if err != nil {
			return result, err
		}
		result = result.Plus(did)
		timeout = stepTimeout
	}
	r.end(a)
	if duplicates > 0 {
		r.opts.Meter.Count(productID, tracing.Flow{Duplicate: duplicates})
		result.Duplicate += duplicates
	}
	return result, nil
}

// firstTimeout bounds the first step of a request. Events received longer ago than a request
// can wait, such as events replayed from a file, do not shorten it.
func firstTimeout(events []activity.Event) time.Duration {
	if len(events) == 0 {
		return stepTimeout
	}
	waited := time.Since(events[0].Received)
	if waited < 0 || waited > stepTimeout {
		return stepTimeout
	}
	return max(stepTimeout-waited, leastTime)
}

// appending is the state that the steps of a request share. Each step, and then another
// request, reuses its memory, except for batches and keys, because the log and its followers
// keep these.
type appending struct {
	productID    string
	book         *directory.Book
	verifiedOnly bool
	events       []activity.Event // of the request, in groups
	forwarded    time.Time        // by the log's clock
	entries      []Entry
	json         []byte // of the last batch encoded
}

// begin returns the state of a request, which one goroutine uses until end.
func (r *Recorder) begin(productID string) *appending {
	a, _ := r.idle.Get().(*appending)
	if a == nil {
		a = &appending{book: r.dir.Book(productID)}
	}
	a.productID, a.verifiedOnly = productID, r.opts.VerifiedOnly != nil && r.opts.VerifiedOnly(productID)
	a.book.Reset(productID)
	if a.verifiedOnly {
		a.book.VerifiedOnly()
	}
	return a
}

// end keeps the memory of a request for another one, unless it is large. It must
// not be called after an error, because the log may still be reading the entries.
func (r *Recorder) end(a *appending) {
	if cap(a.events) > maxEvents || cap(a.json) > maxData {
		return
	}
	a.book.Reset("")
	clear(a.entries[:cap(a.entries)])
	r.idle.Put(a)
}

// record records a step, meters it and returns its outcome. It retries for as long as
// timeout allows. After an error either nothing of the step is recorded, or the outcome
// is unknown.
func (r *Recorder) record(ctx context.Context, a *appending, s *step, timeout time.Duration) (activity.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	turns := s.turns(a.productID)
	if err := r.turns.Lock(ctx, turns...); err != nil {
		return activity.Result{}, fmt.Errorf("eventlog: wait for other requests of the session: %w", err)
	}
	defer r.turns.Unlock(turns...)
	duplicates := 0
	for {
		expired, err := r.append(ctx, a, s)
		if err == nil {
			did := s.outcome(expired, duplicates)
			r.count(a, did)
			return did, nil
		}
		dropped, err := s.again(ctx, err)
		if err != nil {
			return activity.Result{}, err
		}
		duplicates += dropped
	}
}

// again prepares a step for another attempt after an error of append, and returns how many
// duplicates it dropped, or the error. Duplicates that it cannot drop would recur forever, so
// they are an error.
func (s *step) again(ctx context.Context, err error) (dropped int, _ error) {
	var seen *DuplicateError
	switch {
	case errors.As(err, &seen):
		dropped, any := s.drop(seen.Keys)
		if !any {
			return 0, fmt.Errorf("eventlog: log reports duplicates that were not appended: %w", err)
		}
		return dropped, nil
	case document.IsConflict(err) && ctx.Err() == nil:
		return 0, nil // another request came first: start again from the current state
	}
	return 0, err
}

// append appends the actions of a step together with the changes to their sessions. It returns
// how many events had expired. It may be called again after a refusal: each call reopens the
// book, and the parts discard their last attempt.
func (r *Recorder) append(ctx context.Context, a *appending, s *step) (expired int, err error) {
	if err := a.book.Open(ctx, s.events); err != nil {
		return 0, err
	}
	for i := range s.parts {
		old, err := s.parts[i].learn(ctx, a)
		if err != nil {
			return 0, err
		}
		expired += old
	}
	a.forwarded = r.log.Now()
	if err := a.encode(s); err != nil {
		return 0, err
	}
	for i := range s.parts {
		if p := &s.parts[i]; len(p.actions) > 0 {
			a.book.Count(p.sessionID, p.added())
		}
	}
	began := time.Now()
	err = r.log.Append(ctx, a.productID, a.entries, a.book.Changes()...)
	_, duplicates := errors.AsType[*DuplicateError](err)
	if r.opts.Tracer != nil && !duplicates && !document.IsConflict(err) { // those are appended again
		r.trace(a, s.events[0].Received, began, err)
	}
	return expired, err
}

// trace reports the step's actions, appended or not, as two traced steps: since they were
// received, and since the append began. Without actions it reports nothing.
func (r *Recorder) trace(a *appending, received, began time.Time, err error) {
	step := tracing.Step{Name: tracing.Ingest, ProductID: a.productID, Began: received, Ended: time.Now(), Err: err}
	for i := range a.entries {
		if b := a.entries[i].Batch; b != nil {
			for k := range b.Actions {
				step.Actions = append(step.Actions, tracing.ActionOf(b.SessionID, &b.Actions[k].Action))
			}
		}
	}
	if len(step.Actions) == 0 {
		return
	}
	if received.IsZero() || received.After(began) {
		step.Began = began
	}
	r.opts.Tracer(step)
	step.Name, step.Began = tracing.Append, began
	r.opts.Tracer(step)
}

// encode makes the entries of a step. They own their data and keys; the slice is reused.
func (a *appending) encode(s *step) error {
	clear(a.entries)
	a.entries = slices.Grow(a.entries[:0], len(s.parts))
	for i := range s.parts {
		p := &s.parts[i]
		if len(p.actions) > 0 {
			if err := a.add(a.batch(p)); err != nil {
				return fmt.Errorf("eventlog: encode batch: %w", err)
			}
		}
		for i := range p.named {
			if err := a.addIdentity(&p.named[i], &p.session); err != nil {
				return fmt.Errorf("eventlog: encode identity: %w", err)
			}
		}
	}
	return nil
}

// add adds a batch, in parts if it is too large for an entry. A single action is never divided.
func (a *appending) add(b *activity.Batch) (err error) {
	if a.json, err = b.AppendJSON(a.json[:0]); err != nil {
		return err
	}
	if b.Count > 1 && len(a.json) > maxData {
		return a.addParts(b, len(a.json)/maxData+1)
	}
	e := Entry{SessionID: b.SessionID, Keys: keysOf(b), Batch: b, shared: weak.Make(b)}
	e.setData(a.json, headRoom)
	a.entries = append(a.entries, e)
	return nil
}

// addIdentity adds the entry of an event that identifies a visitor.
func (a *appending) addIdentity(e *activity.Event, s *directory.Session) error {
	who := &feed.Identity{Type: feed.IdentityType, ProductID: a.productID, SessionID: e.SessionID,
		AnonymousID: e.Anonymous, UserID: e.UserID, At: e.Time.UnixMicro(), Standing: e.Standing,
		ConversationID: s.ConversationOf(e)}
	if s.UserID == e.UserID {
		who.Email = s.Email
	}
	data, err := json.Marshal(who)
	if err != nil {
		return err
	}
	entry := Entry{SessionID: e.SessionID, Keys: []feed.Key{feed.KeyOf(e.ID)}}
	entry.setData(data, headRoom)
	a.entries = append(a.entries, entry)
	return nil
}

// addParts adds a batch in n parts or a few more, in order. They share its actions.
func (a *appending) addParts(b *activity.Batch, n int) error {
	for actions := range slices.Chunk(b.Actions, max(1, len(b.Actions)/n)) {
		part := *b
		part.Actions, part.Count = actions, len(actions)
		if err := a.add(&part); err != nil {
			return err
		}
	}
	return nil
}

// batch returns the batch of a part. An action ends when the next one starts, if that has the
// same user. The action after the last one may be in a later step.
func (a *appending) batch(p *part) *activity.Batch {
	actions := make([]activity.BatchAction, len(p.actions))
	conversationID := "" // stays empty if all actions are another user's
	next := p.session.Actions
	for i := range p.actions {
		e := &p.actions[i]
		did := activity.BatchAction{Action: *e.Action, SessionID: p.sessionID, UserID: e.UserID,
			Email: p.session.Email, ConversationID: p.session.ConversationOf(e)}
		switch p.relation(e) {
		case claimedUser:
			did.Email, did.ConversationID = "", ""
		case otherUser:
			did.Email = e.Email
		default:
			conversationID = p.session.ConversationID
		}
		if did.ID = e.ID; !e.IsMark() {
			did.Index = next
			next++
		}
		did.TimestampStart = activity.Seconds(e.Time)
		did.TimestampEnd = did.TimestampStart
		if i > 0 && p.actions[i-1].UserID == e.UserID {
			actions[i-1].TimestampEnd = did.TimestampStart
		}
		if i == len(p.actions)-1 && p.next.Action != nil && p.next.UserID == e.UserID {
			did.TimestampEnd = activity.Seconds(p.next.Time)
		}
		actions[i] = did
	}
	return &activity.Batch{
		Type: activity.BatchType, ProductID: a.productID, SessionID: p.sessionID,
		UserID: p.session.UserID, Email: p.session.Email, ConversationID: conversationID,
		Count: len(p.actions), ForwardedAt: activity.Seconds(a.forwarded),
		Actions: actions,
	}
}

// keysOf returns the keys of a batch's events.
func keysOf(b *activity.Batch) []feed.Key {
	keys := make([]feed.Key, len(b.Actions))
	for i := range b.Actions {
		keys[i] = feed.KeyOf(b.Actions[i].ID)
	}
	return keys
}

// count counts a step that was appended: its actions by type in the metrics, and all its outcomes
// in the meter.
func (r *Recorder) count(a *appending, did activity.Result) {
	byType := map[string]int{}
	n := 0
	for _, e := range a.entries {
		if e.Batch == nil {
			continue
		}
		for i := range e.Batch.Actions {
			byType[e.Batch.Actions[i].Type]++
		}
		n += len(e.Batch.Actions)
	}
	for typ, n := range byType {
		r.actions.WithLabelValues(a.productID, typ).Add(float64(n))
	}
	r.opts.Meter.Count(a.productID, tracing.Flow{Accepted: did.Accepted, Duplicate: did.Duplicate,
		Ignored: did.Expired + did.Repeated + did.Unmarked, Actions: n})
}

package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
)

// maxData is the largest JSON object of an entry, in bytes. A larger batch is
// split: common clients accept events of at most 64 KiB.
const maxData = 60 << 10

// Recorder is the [activity.Sink] of a service: it assigns events their times,
// drops duplicates, updates what is known of each session, appends the actions
// to a log, one entry per session, and files them in a store.
type Recorder struct {
	log     Log
	store   activity.Store
	dir     *activity.Directory
	actions *prometheus.CounterVec
	meter   activity.Meter

	// Steps that share a session take turns, so that they do not conflict and
	// start again.
	turns turns

	// unfiled holds, by product, the cursor after which the log may hold
	// actions that the store lacks.
	unfiledMu sync.Mutex
	unfiled   map[string]unfiled
}

// RecorderOptions configures a Recorder; a zero field means its default.
type RecorderOptions struct {
	TTL     time.Duration         // maximum age of an event, and how long a session is remembered after its last event; activity.DefaultTTL
	Metrics prometheus.Registerer // where liveactivity_actions_total is registered; nil disables it
	Meter   activity.Meter        // takes what Record returns, and the actions; nil for nothing
}

// NewRecorder returns a recorder that appends to log and files in store, which
// is nil if the log files the actions itself; opts may be nil. It reports all
// invalid arguments at once.
func NewRecorder(log Log, store activity.Store, opts *RecorderOptions) (*Recorder, error) {
	var o RecorderOptions
	if opts != nil {
		o = *opts
	}
	wrong := options.Mistakes{Package: "eventlog"}
	wrong.Require(log != nil, "log", "must not be nil")
	o.TTL = options.Default(&wrong, "TTL", o.TTL, activity.DefaultTTL)
	r := &Recorder{log: log, store: store, meter: o.Meter, unfiled: map[string]unfiled{},
		actions: metrics.Register(&wrong, o.Metrics, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "liveactivity_actions_total",
			Help: "Actions appended to the log.",
		}, []string{"product_id", "type"}))}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	var err error
	r.dir, err = activity.NewDirectory(log.Documents(), o.TTL)
	return r, err
}

// stepTimeout bounds a step of a request, waiting included, so that a request
// is answered within 5 seconds of a storage outage. What the request has waited
// before its first step counts, but for leastTime.
const (
	stepTimeout = 4 * time.Second
	leastTime   = stepTimeout / 8
)

// Record implements [activity.Sink]. It fails if one of its steps takes longer
// than 4 seconds; for the first, the time since the events were received counts.
func (r *Recorder) Record(ctx context.Context, productID string, events []activity.Event) (activity.Result, error) {
	groups, duplicates := group(r.byEngine(events))
	result := activity.Result{Accepted: len(events) - duplicates, Duplicate: duplicates}
	timeout := firstTimeout(events)
	for _, s := range steps(groups) {
		if err := r.record(ctx, productID, s, timeout, &result); err != nil {
			return activity.Result{}, err
		}
		s.forget()
		timeout = stepTimeout
	}
	r.meter.Count(productID, activity.Flow{Accepted: result.Accepted, Duplicate: result.Duplicate, Ignored: result.Expired})
	return result, nil
}

// firstTimeout bounds the first step of a request. One that was received before
// any waiting for room, such as a file that is read again, is not late.
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

// byEngine returns the events with the times that are by this process's clock
// put by the engine's, if that is another.
func (r *Recorder) byEngine(events []activity.Event) []activity.Event {
	engine, ok := r.log.(interface{ Now() time.Time })
	if !ok {
		return events
	}
	now := time.Now()
	ahead := now.Sub(engine.Now())
	events = slices.Clone(events)
	for i := range events {
		e := &events[i]
		if e.Received.IsZero() {
			e.Received = now
		}
		e.Received = e.Received.Add(-ahead)
		if e.ServerTime {
			e.Time = e.Time.Add(-ahead)
		}
	}
	return events
}

// record records a step and counts what it omits.
func (r *Recorder) record(ctx context.Context, productID string, s step, timeout time.Duration, result *activity.Result) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done, err := r.turns.take(ctx, s.turns(productID))
	if err != nil {
		return fmt.Errorf("eventlog: wait for other requests of the session: %w", err)
	}
	defer done()
	if err := r.fileRest(ctx, productID); err != nil {
		return err
	}
	for {
		expired, err := r.append(ctx, productID, s)
		var seen *DuplicateError
		var conflict *document.ConflictError
		switch {
		case errors.As(err, &seen):
			dropped := s.drop(seen.Keys)
			if dropped == 0 {
				return fmt.Errorf("eventlog: log reports duplicates that were not appended: %w", err)
			}
			result.Accepted -= dropped
			result.Duplicate += dropped
		case errors.As(err, &conflict) && ctx.Err() == nil:
			// Another request came first; start again from the current state.
		default:
			result.Accepted -= expired
			result.Expired += expired
			return err
		}
	}
}

// append appends the actions of a step together with the changes to their
// sessions, and files them. It returns how many events had expired.
func (r *Recorder) append(ctx context.Context, productID string, s step) (expired int, err error) {
	book, err := r.dir.Open(ctx, productID, s.events())
	if err != nil {
		return 0, err
	}
	for _, p := range s {
		old, err := p.learn(ctx, book)
		if err != nil {
			return 0, err
		}
		expired += old
	}
	batches, entries, err := encode(productID, s)
	if err != nil {
		return 0, err
	}
	for _, b := range batches {
		book.Count(b.SessionID, b.Count)
	}
	changes, err := book.Changes()
	if err != nil {
		return 0, err
	}
	return expired, r.commit(ctx, productID, batches, entries, changes)
}

// group sorts events by session, in order of appearance, and drops duplicates
// within the request.
func group(events []activity.Event) (groups []*sessionGroup, duplicates int) {
	const session, user, itself = 0, 1, 2
	type owner struct {
		kind int
		id   string
	}
	byOwner := map[owner]*sessionGroup{}
	seen := make(map[activity.Key]struct{}, len(events))
	of := make([]*sessionGroup, len(events)) // nil for duplicates
	for i, e := range events {
		id := activity.EventKey(e.ID)
		if _, ok := seen[id]; ok {
			duplicates++
			continue
		}
		seen[id] = struct{}{}
		o := owner{session, e.SessionID}
		if o.id == "" {
			o = owner{user, e.UserID}
		}
		if o.id == "" {
			o = owner{itself, e.ID}
		}
		g, ok := byOwner[o]
		if !ok {
			g = &sessionGroup{sessionID: strings.Clone(e.SessionID)}
			if o.kind == user {
				g.user = e.UserID
			}
			byOwner[o] = g
			groups = append(groups, g)
		}
		g.size++
		of[i] = g
	}
	for _, g := range groups {
		g.events = make([]activity.Event, 0, g.size)
	}
	for i, g := range of {
		if g != nil {
			g.events = append(g.events, events[i])
		}
	}
	for _, g := range groups {
		slices.SortStableFunc(g.events, func(a, b activity.Event) int { return a.Time.Compare(b.Time) })
	}
	return groups, duplicates
}

// sessionGroup is a request's events for one session. Events of a user outside
// any session form a group of that user, and events with neither form their
// own group.
type sessionGroup struct {
	sessionID string
	user      string           // only without a session
	size      int              // of events
	events    []activity.Event // in the order of their stamps
}

// maxEvents bounds the events recorded in one step, which changes at most
// three documents for each: a very large request must not delay others.
const maxEvents = 256

// step is what is recorded at once. A group that is too large for one step has
// parts in several, in order.
type step []*part

// steps divides the groups into steps.
func steps(groups []*sessionGroup) (all []step) {
	var current step
	room := maxEvents
	for _, g := range groups {
		for from := 0; from < len(g.events); {
			to := min(from+room, len(g.events))
			current = append(current, &part{sessionGroup: g, first: from == 0, events: g.events[from:to], rest: g.events[to:]})
			from, room = to, room-(to-from)
			if room == 0 {
				all, current, room = append(all, current), nil, maxEvents
			}
		}
	}
	if len(current) > 0 {
		all = append(all, current)
	}
	return all
}

// forget releases what was recorded, so that memory holds a large request once:
// its rest here, what was recorded in the log.
func (s step) forget() {
	for _, p := range s {
		clear(p.events)
		*p = part{}
	}
}

// events returns the events of all parts.
func (s step) events() []activity.Event {
	each := make([][]activity.Event, len(s))
	for i, p := range s {
		each[i] = p.events
	}
	return slices.Concat(each...)
}

// turns returns what the step must have to itself.
func (s step) turns(productID string) (turns []turn) {
	for _, p := range s {
		if p.sessionID != "" || p.user != "" {
			turns = append(turns, turn{product: productID, session: p.sessionID, user: p.user})
		}
	}
	return turns
}

// drop removes the actions that have one of the keys, and returns their
// number.
func (s step) drop(keys []activity.Key) (dropped int) {
	seen := make(map[activity.Key]struct{}, len(keys))
	for _, key := range keys {
		seen[key] = struct{}{}
	}
	for _, p := range s {
		dropped += p.drop(seen)
	}
	return dropped
}

// part is the part of a group that one step records.
type part struct {
	*sessionGroup
	first  bool
	events []activity.Event          // this part's events of the group
	rest   []activity.Event          // the group's events of later steps
	seen   map[activity.Key]struct{} // keys of actions already in the log

	// The result of the last attempt.
	session activity.Session
	actions []activity.Event // in time order
	next    time.Time        // of the session's next action, if that is in another step
}

// learn assigns the part's events their times, updates the book from them, and
// returns how many had expired. With the first part of a group the session
// learns from the whole group, so that all of its entries agree.
func (p *part) learn(ctx context.Context, book *activity.Book) (expired int, err error) {
	var whole []activity.Event
	if p.first && len(p.rest) > 0 {
		whole, _ = book.Settle(p.sessionID, p.sessionGroup.events)
	}
	settled, expired := book.Settle(p.sessionID, p.events)
	if p.session, err = book.Learn(ctx, p.sessionID, settled, whole...); err != nil {
		return 0, err
	}
	p.actions = slices.DeleteFunc(settled, func(e activity.Event) bool { return e.Action == nil || p.isSeen(e) })
	if next := slices.IndexFunc(p.rest, func(e activity.Event) bool { return e.Action != nil }); next >= 0 {
		settled, _ := book.Settle(p.sessionID, p.rest[next:next+1])
		for _, e := range settled {
			p.next = e.Time
		}
	}
	return expired, nil
}

// isSeen reports whether an action is known to be in the log already.
func (p *part) isSeen(e activity.Event) bool {
	if len(p.seen) == 0 {
		return false
	}
	_, seen := p.seen[activity.EventKey(e.ID)]
	return seen
}

// drop removes the actions that have one of the keys, and returns their
// number.
func (p *part) drop(keys map[activity.Key]struct{}) (dropped int) {
	if p.seen == nil {
		p.seen = map[activity.Key]struct{}{}
	}
	for _, e := range p.actions {
		key := activity.EventKey(e.ID)
		if _, ok := keys[key]; ok {
			p.seen[key] = struct{}{}
			dropped++
		}
	}
	return dropped
}

// encode builds the batches and one entry for each.
func encode(productID string, parts []*part) ([]activity.Batch, []Entry, error) {
	e := encoded{make([]activity.Batch, 0, len(parts)), make([]Entry, 0, len(parts))}
	for _, p := range parts {
		if len(p.actions) == 0 {
			continue
		}
		if err := e.add(batch(productID, p)); err != nil {
			return nil, nil, fmt.Errorf("eventlog: encode batch: %w", err)
		}
	}
	return e.batches, e.entries, nil
}

// encoded are batches and an entry for each.
type encoded struct {
	batches []activity.Batch
	entries []Entry
}

// add adds a batch, in halves while it is too large for an entry.
func (e *encoded) add(b activity.Batch) error {
	if b.Count > 1 && textLen(b) > maxData { // sure to be, without encoding it
		return e.addHalves(b)
	}
	data, err := activity.Marshal(&b)
	if err != nil {
		return err
	}
	if b.Count > 1 && len(data) > maxData {
		return e.addHalves(b)
	}
	e.batches = append(e.batches, b)
	e.entries = append(e.entries, Entry{SessionID: b.SessionID, Keys: keysOf(b), Data: data, Batch: &b})
	return nil
}

func (e *encoded) addHalves(b activity.Batch) error {
	first, second := b, b
	half := len(b.Actions) / 2
	first.Actions, first.Count = b.Actions[:half], half
	second.Actions, second.Count = b.Actions[half:], len(b.Actions)-half
	if err := e.add(first); err != nil {
		return err
	}
	return e.add(second)
}

func batch(productID string, p *part) activity.Batch {
	b := activity.Batch{
		Type: activity.BatchType, ProductID: productID, SessionID: p.sessionID,
		UserID: p.session.UserID, Email: p.session.Email, ConversationID: p.session.ConversationID,
		Count: len(p.actions), ForwardedAt: activity.Seconds(time.Now()),
		Actions: make([]activity.BatchAction, len(p.actions)),
	}
	for i, e := range p.actions {
		a := *e.Action
		a.ID, a.Index = e.ID, p.session.Actions+i
		a.TimestampStart = activity.Seconds(e.Time)
		a.TimestampEnd = a.TimestampStart
		if i > 0 {
			b.Actions[i-1].TimestampEnd = a.TimestampStart
		}
		if i == len(p.actions)-1 && !p.next.IsZero() {
			a.TimestampEnd = activity.Seconds(p.next)
		}
		b.Actions[i] = activity.BatchAction{Action: a, SessionID: b.SessionID, UserID: e.UserID,
			Email: b.Email, ConversationID: b.ConversationID}
	}
	return b
}

// textLen returns how many bytes the texts of a batch have: its JSON has more.
func textLen(b activity.Batch) (n int) {
	for i := range b.Actions {
		a := &b.Actions[i]
		n += len(a.Type) + len(a.Title) + len(a.Description) + len(a.RawURL) + len(a.CanonicalURL) +
			len(a.SessionID) + len(a.UserID) + len(a.Email)
	}
	return n
}

func keysOf(b activity.Batch) []activity.Key {
	keys := make([]activity.Key, len(b.Actions))
	for i, a := range b.Actions {
		keys[i] = activity.EventKey(a.ID)
	}
	return keys
}

// count counts what was appended.
func (r *Recorder) count(productID string, batches []activity.Batch) {
	n := 0
	for _, b := range batches {
		for _, a := range b.Actions {
			r.actions.WithLabelValues(productID, a.Type).Inc()
		}
		n += len(b.Actions)
	}
	if n > 0 {
		r.meter.Count(productID, activity.Flow{Actions: n})
	}
}

// commit appends the entries, changes the documents with them, and files the
// batches for lookups.
func (r *Recorder) commit(ctx context.Context, productID string, batches []activity.Batch, entries []Entry, changes []document.Change) error {
	if r.store == nil {
		err := r.log.Append(ctx, productID, entries, changes...)
		if err == nil {
			r.count(productID, batches)
		}
		return err
	}
	before, err := r.log.Bounds(ctx, productID)
	if err != nil {
		return err
	}
	if err = r.log.Append(ctx, productID, entries, changes...); err == nil {
		r.count(productID, batches)
		err = r.file(ctx, batches)
	}
	if undecided(err) {
		r.unfile(productID, before.Newest)
	}
	return err
}

func (r *Recorder) file(ctx context.Context, batches []activity.Batch) error {
	for _, b := range batches {
		if err := r.store.Add(ctx, b); err != nil {
			return fmt.Errorf("eventlog: file actions: %w", err)
		}
	}
	return nil
}

// undecided reports whether the log may or may not hold the entries after err.
func undecided(err error) bool {
	var seen *DuplicateError
	var conflict *document.ConflictError
	return err != nil && !errors.As(err, &seen) && !errors.As(err, &conflict) && !errors.Is(err, ErrClosed)
}

// unfiled is the cursor after which the log may hold actions that the store
// lacks.
type unfiled struct {
	after    ID
	failures int // changes when filing has to start again
}

// unfile notes that entries after the cursor may not be filed.
func (r *Recorder) unfile(productID string, after ID) {
	r.unfiledMu.Lock()
	defer r.unfiledMu.Unlock()
	u, ok := r.unfiled[productID]
	if !ok || after.Compare(u.after) < 0 {
		u.after = after
	}
	u.failures++
	r.unfiled[productID] = u
}

// fileRest files what the log may hold and the store lacks after a failed
// commit: if that commit happened, the log treats its retry as a duplicate,
// and the retry is answered only after this.
func (r *Recorder) fileRest(ctx context.Context, productID string) error {
	if _, ok := r.whatIsUnfiled(productID); !ok {
		return nil
	}
	done, err := r.turns.take(ctx, []turn{{product: productID, filing: true}})
	if err != nil {
		return fmt.Errorf("eventlog: wait for actions to be filed: %w", err)
	}
	defer done()
	u, ok := r.whatIsUnfiled(productID)
	if !ok {
		return nil
	}
	if _, err := replay(ctx, r.log, productID, u.after, r.store); err != nil {
		return err
	}
	r.unfiledMu.Lock()
	defer r.unfiledMu.Unlock()
	if r.unfiled[productID] == u {
		delete(r.unfiled, productID)
	}
	return nil
}

func (r *Recorder) whatIsUnfiled(productID string) (unfiled, bool) {
	r.unfiledMu.Lock()
	defer r.unfiledMu.Unlock()
	u, ok := r.unfiled[productID]
	return u, ok
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// maxData is the largest JSON object an entry carries, in bytes. A batch that
// encodes to more is split: common clients take events of at most 64 KiB.
const maxData = 60 << 10

// Recorder is the [activity.Sink] that a service needs: it drops events seen
// before, keeps what is known of each session, appends the actions to a log,
// one entry per session, and files them in a store.
type Recorder struct {
	log     Log
	store   activity.Store
	dir     *activity.Directory
	actions *prometheus.CounterVec

	// Calls that concern the same session take turns, so that they do not
	// make each other start again.
	turns [4096]sync.Mutex
	seed  maphash.Seed

	// unfiled is what is in the log, but was refused by the store. Nothing
	// further of the product is taken until the store has it.
	unfiledMu sync.Mutex
	unfiled   map[string][]activity.Batch // by product
}

// RecorderOptions of a [Recorder].
type RecorderOptions struct {
	TTL     time.Duration         // how long a session is remembered after it was last heard of; activity.DefaultTTL for zero
	Metrics prometheus.Registerer // where liveactivity_actions_total is registered; nil for nowhere
}

// NewRecorder returns a recorder that appends to log and files in store, which
// is nil for a log that files the actions itself; opts may be nil.
func NewRecorder(log Log, store activity.Store, opts *RecorderOptions) *Recorder {
	var o RecorderOptions
	if opts != nil {
		o = *opts
	}
	r := &Recorder{log: log, store: store, dir: activity.NewDirectory(log.Documents(), o.TTL),
		seed: maphash.MakeSeed(), unfiled: map[string][]activity.Batch{},
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "liveactivity_actions_total",
			Help: "Actions appended to the log.",
		}, []string{"product_id", "type"})}
	if o.Metrics != nil {
		o.Metrics.MustRegister(r.actions)
	}
	return r
}

// How many sessions and actions are appended in one step: a request of very
// many must not hold up others.
const (
	maxGroups  = 256
	maxActions = 512
)

// Record implements [activity.Sink].
func (r *Recorder) Record(ctx context.Context, productID string, events []activity.Event) (activity.Result, error) {
	groups, duplicates := group(events)
	unlock := r.takeTurns(productID, groups)
	defer unlock()
	if err := r.fileRest(ctx, productID); err != nil {
		return activity.Result{}, err
	}
	for _, step := range steps(groups) {
		dropped, err := r.record(ctx, productID, step)
		if err != nil {
			return activity.Result{}, err
		}
		duplicates += dropped
	}
	return activity.Result{Accepted: len(events) - duplicates, Duplicate: duplicates}, nil
}

// record records groups in one step and returns how many of their actions
// there were already.
func (r *Recorder) record(ctx context.Context, productID string, groups []*sessionGroup) (duplicates int, err error) {
	for {
		batches, err := r.append(ctx, productID, groups)
		var seen *DuplicateError
		var conflict *document.ConflictError
		switch {
		case errors.As(err, &seen):
			dropped := drop(groups, seen.Keys)
			if dropped == 0 {
				return 0, fmt.Errorf("stream: log refuses keys that were not appended: %w", err)
			}
			duplicates += dropped
		case errors.As(err, &conflict) && ctx.Err() == nil:
			// Somebody else was faster; start again from what is known now.
		case err != nil:
			return 0, err
		default:
			r.count(productID, batches)
			return duplicates, r.file(ctx, productID, batches)
		}
	}
}

// append appends the groups' actions, together with what the groups tell of
// their sessions.
func (r *Recorder) append(ctx context.Context, productID string, groups []*sessionGroup) ([]activity.Batch, error) {
	var events []activity.Event
	for _, g := range groups {
		events = append(events, g.identity...)
	}
	book, err := r.dir.Open(ctx, productID, events)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g.session, err = book.Learn(ctx, g.sessionID, g.identity); err != nil {
			return nil, err
		}
	}
	batches, entries, err := encode(productID, groups)
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		book.Count(b.SessionID, b.Count)
	}
	changes, err := book.Changes()
	if err != nil {
		return nil, err
	}
	return batches, r.log.Append(ctx, productID, entries, changes...)
}

// sessionGroup is what a request brought for one session. What a user did
// outside any session is a group of that user, and what nobody did outside any
// session is a group of its own.
type sessionGroup struct {
	sessionID string
	user      string // only without a session
	identity  []activity.Event
	actions   []activity.Event // in time order
	next      time.Time        // of the session's next action, where that is in another step
	session   activity.Session
}

// group sorts events by session, in order of appearance, and drops those that
// are in the request twice.
func group(events []activity.Event) (groups []*sessionGroup, duplicates int) {
	type key struct{ session, user, event string }
	bySession := map[key]*sessionGroup{}
	seen := make(map[activity.Key]struct{}, len(events))
	for _, e := range events {
		id := activity.EventKey(e.ID)
		if _, ok := seen[id]; ok {
			duplicates++
			continue
		}
		seen[id] = struct{}{}
		k := key{session: e.SessionID}
		if e.SessionID == "" {
			k.user = e.UserID
		}
		if k == (key{}) {
			k.event = e.ID
		}
		g, ok := bySession[k]
		if !ok {
			g = &sessionGroup{sessionID: k.session, user: k.user}
			bySession[k] = g
			groups = append(groups, g)
		}
		if e.Action != nil {
			g.actions = append(g.actions, e)
		}
		g.identity = append(g.identity, e)
	}
	for _, g := range groups {
		slices.SortStableFunc(g.actions, func(a, b activity.Event) int { return a.Time.Compare(b.Time) })
	}
	return groups, duplicates
}

// steps divides the groups into what is appended in one step. Parts of a group
// that is too large follow each other.
func steps(groups []*sessionGroup) (all [][]*sessionGroup) {
	var step []*sessionGroup
	actions := 0
	for _, g := range groups {
		for _, part := range g.parts() {
			if len(step) == maxGroups || len(step) > 0 && actions+len(part.actions) > maxActions {
				all, step, actions = append(all, step), nil, 0
			}
			step = append(step, part)
			actions += len(part.actions)
		}
	}
	if len(step) > 0 {
		all = append(all, step)
	}
	return all
}

// parts divides a group that has too many actions for one step.
func (g *sessionGroup) parts() []*sessionGroup {
	if len(g.actions) <= maxActions {
		return []*sessionGroup{g}
	}
	var parts []*sessionGroup
	for actions := range slices.Chunk(g.actions, maxActions) {
		part := *g
		part.actions = actions
		if len(parts) > 0 {
			parts[len(parts)-1].next = actions[0].Time
			part.identity = slices.Clone(actions) // the rest is known by then
		}
		parts = append(parts, &part)
	}
	return parts
}

// takeTurns waits until no other call is busy with the sessions.
func (r *Recorder) takeTurns(productID string, groups []*sessionGroup) (unlock func()) {
	needed := map[uint64]struct{}{}
	for _, g := range groups {
		var h maphash.Hash
		h.SetSeed(r.seed)
		h.WriteString(productID)
		h.WriteByte(0)
		h.WriteString(g.sessionID)
		h.WriteByte(0)
		h.WriteString(g.user)
		needed[h.Sum64()%uint64(len(r.turns))] = struct{}{}
	}
	turns := slices.Sorted(maps.Keys(needed)) // the same order for all, so that no two calls wait for each other
	for _, i := range turns {
		r.turns[i].Lock()
	}
	return func() {
		for _, i := range turns {
			r.turns[i].Unlock()
		}
	}
}

// drop removes the actions that have one of the keys and returns how many.
func drop(groups []*sessionGroup, keys []activity.Key) (dropped int) {
	seen := make(map[activity.Key]struct{}, len(keys))
	for _, key := range keys {
		seen[key] = struct{}{}
	}
	for _, g := range groups {
		before := len(g.actions)
		g.actions = slices.DeleteFunc(g.actions, func(e activity.Event) bool {
			_, ok := seen[activity.EventKey(e.ID)]
			return ok
		})
		dropped += before - len(g.actions)
	}
	return dropped
}

// encode makes the batches and, one for each, the entries.
func encode(productID string, groups []*sessionGroup) ([]activity.Batch, []Entry, error) {
	var batches []activity.Batch
	var entries []Entry
	for _, g := range groups {
		if len(g.actions) == 0 {
			continue
		}
		pending := []activity.Batch{batch(productID, g)}
		for len(pending) > 0 {
			b := pending[0]
			data, err := activity.Marshal(b)
			if err != nil {
				return nil, nil, fmt.Errorf("stream: encode batch: %w", err)
			}
			if len(data) > maxData && b.Count > 1 {
				pending = slices.Replace(pending, 0, 1, split(b)...)
				continue
			}
			pending = pending[1:]
			batches = append(batches, b)
			entries = append(entries, Entry{SessionID: b.SessionID, Keys: keysOf(b), Data: data, Batch: &b})
		}
	}
	return batches, entries, nil
}

func batch(productID string, g *sessionGroup) activity.Batch {
	b := activity.Batch{
		Type: activity.BatchType, ProductID: productID, SessionID: g.sessionID,
		UserID: g.session.UserID, Email: g.session.Email, ConversationID: g.session.ConversationID,
		Count: len(g.actions), ForwardedAt: activity.Seconds(time.Now()),
		Actions: make([]activity.BatchAction, len(g.actions)),
	}
	for i, e := range g.actions {
		a := *e.Action
		a.ID, a.Index = e.ID, g.session.Actions+i
		a.TimestampStart = activity.Seconds(e.Time)
		a.TimestampEnd = a.TimestampStart
		if i > 0 {
			b.Actions[i-1].TimestampEnd = a.TimestampStart
		}
		if i == len(g.actions)-1 && !g.next.IsZero() {
			a.TimestampEnd = activity.Seconds(g.next)
		}
		b.Actions[i] = activity.BatchAction{Action: a, SessionID: b.SessionID, UserID: e.UserID,
			Email: b.Email, ConversationID: b.ConversationID}
	}
	return b
}

// split halves a batch.
func split(b activity.Batch) []activity.Batch {
	first, second := b, b
	half := len(b.Actions) / 2
	first.Actions, first.Count = b.Actions[:half], half
	second.Actions, second.Count = b.Actions[half:], len(b.Actions)-half
	return []activity.Batch{first, second}
}

func keysOf(b activity.Batch) []activity.Key {
	keys := make([]activity.Key, len(b.Actions))
	for i, a := range b.Actions {
		keys[i] = activity.EventKey(a.ID)
	}
	return keys
}

// count takes note of what was appended.
func (r *Recorder) count(productID string, batches []activity.Batch) {
	for _, b := range batches {
		for _, a := range b.Actions {
			r.actions.WithLabelValues(productID, a.Type).Inc()
		}
	}
}

// file puts what was appended where lookups find it.
func (r *Recorder) file(ctx context.Context, productID string, batches []activity.Batch) error {
	if r.store == nil {
		return nil
	}
	for i, b := range batches {
		if err := r.store.Add(ctx, b); err != nil {
			r.unfiledMu.Lock()
			defer r.unfiledMu.Unlock()
			r.unfiled[productID] = append(r.unfiled[productID], batches[i:]...)
			return fmt.Errorf("stream: file actions: %w", err)
		}
	}
	return nil
}

// fileRest files what could not be filed before. Who repeats a request waits
// here until what it brought is filed, or still is not.
func (r *Recorder) fileRest(ctx context.Context, productID string) error {
	r.unfiledMu.Lock()
	defer r.unfiledMu.Unlock()
	for rest := r.unfiled[productID]; len(rest) > 0; rest = r.unfiled[productID] {
		if err := r.store.Add(ctx, rest[0]); err != nil {
			return fmt.Errorf("stream: file actions: %w", err)
		}
		r.unfiled[productID] = rest[1:]
	}
	delete(r.unfiled, productID)
	return nil
}

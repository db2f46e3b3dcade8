package activity

import (
	"context"
	"time"
)

// Step is a step on the way of actions through the service: from a request into the log,
// and from there into notes, offers and answers.
type Step struct {
	Name      string // one of the Step constants
	ProductID string
	// Via is the help desk of a note, a summary or an offer, and the tool of an answer by
	// MCP; empty for other steps.
	Via          string
	Actions      []ActionRef // none where the step does not know them
	Began, Ended time.Time
	Err          error
}

// ActionRef names an action of a product: by what is known of it wherever it is.
type ActionRef struct {
	SessionID string
	Start     int64 // microseconds since the epoch
}

// RefOf returns the reference to an action of a session.
func RefOf(sessionID string, a *Action) ActionRef {
	return ActionRef{sessionID, a.Start().UnixMicro()}
}

// The names of steps.
const (
	StepIngest  = "ingest"  // from the arrival of a request until its actions can be read
	StepAppend  = "append"  // the part of it in which the log commits them
	StepNote    = "note"    // a help desk is given a note of actions
	StepSummary = "summary" // a help desk is given a note with a summary
	StepOffer   = "offer"   // a help desk is given an offer
	StepLookup  = "lookup"  // a person's actions are read
)

// Tracer takes the steps of actions, each when it has ended. It is called
// concurrently, while requests are served, and must return at once. It must not keep the
// Actions.
type Tracer func(Step)

type viaKey struct{}

// WithVia returns a context whose lookups are part of an answer by this tool.
func WithVia(ctx context.Context, tool string) context.Context {
	return context.WithValue(ctx, viaKey{}, tool)
}

// Traced returns a store whose lookups are steps; the store itself where there is no
// tracer.
func Traced(store Store, tracer Tracer) Store {
	if tracer == nil {
		return store
	}
	return &tracedStore{store, tracer}
}

// tracedStore is a store whose lookups are steps.
type tracedStore struct {
	store  Store
	tracer Tracer
}

// Recent implements [Store].
func (t *tracedStore) Recent(ctx context.Context, productID, userID string, limit int) (r Recent, err error) {
	defer t.looked(ctx, productID, time.Now(), &r, &err)
	return t.store.Recent(ctx, productID, userID, limit)
}

// Session implements [Store].
func (t *tracedStore) Session(ctx context.Context, productID, sessionID string, limit int) (r Recent, err error) {
	defer t.looked(ctx, productID, time.Now(), &r, &err)
	return t.store.Session(ctx, productID, sessionID, limit)
}

// Snapshot implements [Store].
func (t *tracedStore) Snapshot(ctx context.Context, productID string, of Subject) (s Snapshot, err error) {
	defer t.looked(ctx, productID, time.Now(), &s.Recent, &err)
	return t.store.Snapshot(ctx, productID, of)
}

func (t *tracedStore) looked(ctx context.Context, productID string, began time.Time, found *Recent, err *error) {
	step := Step{Name: StepLookup, ProductID: productID, Began: began, Ended: time.Now(), Err: *err}
	step.Via, _ = ctx.Value(viaKey{}).(string)
	for i := range *found {
		step.Actions = append(step.Actions, ActionRef{(*found)[i].Session, (*found)[i].Start})
	}
	t.tracer(step)
}

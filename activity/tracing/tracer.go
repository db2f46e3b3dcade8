// Package tracing follows actions through the service: a [Tracer] receives each [Step] of
// their way, from the request that brought them to the notes, offers and answers that
// contain them, and a [Meter] their counts. Package
// [github.com/liveactivity/liveactivity/activity/otlp] makes spans from the steps.
package tracing

import (
	"context"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// Step is a step on the way of actions through the service: from a request into the log,
// and from there into notes, offers and answers.
type Step struct {
	Name      string // Ingest, or another of the names
	ProductID string
	// Via is the help desk of a note, a summary or an offer, and the tool of an answer by
	// MCP; empty for other steps.
	Via          string
	Actions      []Action // none if the step does not know them
	Began, Ended time.Time
	Err          error
}

// Action identifies an action of a product by facts that every server knows about it.
type Action struct {
	SessionID string
	Start     int64 // microseconds since the epoch
}

// ActionOf returns the Action for an action of a session.
func ActionOf(sessionID string, a *activity.Action) Action {
	return Action{sessionID, a.Start().UnixMicro()}
}

// The names of steps.
const (
	Ingest  = "ingest"  // from the arrival of a request until its actions can be read
	Append  = "append"  // the part of it in which the log commits them
	Note    = "note"    // a help desk receives a note of actions
	Summary = "summary" // a help desk receives a note with a summary
	Offer   = "offer"   // a help desk receives an offer
	Lookup  = "lookup"  // a person's actions are read
)

// Tracer receives the steps of actions, each after it has ended. It is called
// concurrently while requests are served, and must return without delay. It must not keep
// the Actions.
type Tracer func(Step)

type viaKey struct{}

// WithVia returns a context whose lookups are part of an answer by this tool.
func WithVia(ctx context.Context, tool string) context.Context {
	return context.WithValue(ctx, viaKey{}, tool)
}

// Store returns a store that reports each call of Recent, a read of a person, as a step.
// Without a tracer it returns the store itself.
func Store(store recent.Store, tracer Tracer) recent.Store {
	if tracer == nil {
		return store
	}
	return &tracedStore{store, tracer}
}

type tracedStore struct {
	recent.Store
	tracer Tracer
}

// Recent implements [recent.Store].
func (t *tracedStore) Recent(
	ctx context.Context, productID string, of recent.Subject, limit int,
) (recent.Snapshot, error) {
	began := time.Now()
	found, err := t.Store.Recent(ctx, productID, of, limit)
	step := Step{Name: Lookup, ProductID: productID, Began: began, Ended: time.Now(), Err: err}
	step.Via, _ = ctx.Value(viaKey{}).(string)
	for i := range found.Records {
		step.Actions = append(step.Actions, Action{found.Records[i].Session, found.Records[i].Start})
	}
	t.tracer(step)
	return found, err
}

package proactive

import (
	"errors"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Core decides for the sessions of one product. It holds nothing of them: a
// session's [Window] and its conversation's [Machine] are the caller's, who also
// carries out the effects. It reads no clock. It is safe for concurrent use, for
// different windows.
type Core struct {
	Rules    // of the product's machines
	registry *Registry
	config   Config
	deeds    deeds
	views    sync.Pool // of *view
}

// NewCore returns a core that asks these triggers. A nil configuration means
// defaults; whether it is enabled makes no difference. The error joins what is
// wrong with the arguments.
func NewCore(registry *Registry, config *Config) (*Core, error) {
	if config == nil {
		config = &Config{}
	}
	m := options.Mistakes{Package: "proactive"}
	m.Require(registry != nil, "registry", "must not be nil")
	texts := *config
	texts.Triggers = nil // they are the registry's
	if err := errors.Join(m.Err(), texts.Validate()); err != nil {
		return nil, err
	}
	return &Core{Rules: config.rules(), registry: registry, config: texts, views: sync.Pool{New: func() any { return new(view) }}}, nil
}

// Session is whose actions a trigger is shown.
type Session struct {
	ProductID      string
	SessionID      string
	ConversationID string // that the session is linked to
}

// Decision is what a core makes of an action.
type Decision struct {
	// Reason is Offered, or why there is no offer.
	Reason Reason
	// Match is what matched, also when it is not offered; zero for NoMatch. An
	// offer is made by a [Rules.Step] with it, as an event.
	Match Matched
	// Again is when to call [Core.Ask] if the session does nothing until then;
	// zero for never. A later decision of the session replaces it.
	Again time.Time
}

// Add puts an action into a session's window without a decision, as after a
// restart.
func (c *Core) Add(w *Window, a activity.Action, now time.Time) {
	at := instantOf(now)
	w.add(startOf(a), c.deeds.number(deedOf(a), at), at)
}

// Act puts a session's action into its window and decides what it leads to. It
// changes nothing but the window.
func (c *Core) Act(w *Window, m Machine, s Session, a activity.Action, now time.Time) Decision {
	c.Add(w, a, now)
	return c.decide(w, m, s, question{now: instantOf(now), of: startOf(a), actions: a.Index + 1})
}

// Ask decides what it leads to that the session has done nothing since a
// decision, at the time Again of which, due, only [Timed] triggers are asked.
func (c *Core) Ask(w *Window, m Machine, s Session, due, now time.Time) Decision {
	return c.decide(w, m, s, question{now: instantOf(now), of: instantOf(due), timed: true})
}

// question is what a core is asked.
type question struct {
	now     instant
	of      instant // the moment that an offer would answer
	actions int     // of the session, if known
	timed   bool    // nothing was done; time has passed
}

func (c *Core) decide(w *Window, m Machine, s Session, q question) Decision {
	now := max(q.now, w.newest)
	w.trim(now.add(-WindowSpan))
	v := c.views.Get().(*view)
	defer c.views.Put(v)
	n := c.deeds.show(w, v)
	tc := TriggerContext{CanonicalURLs: v.urls[:n:n], Actions: v.actions[:n:n], Now: now.time(),
		ProductID: s.ProductID, SessionID: s.SessionID, ConversationID: s.ConversationID, ActionCount: max(q.actions, n)}
	d := Decision{Reason: NoMatch, Again: c.registry.again(tc, m)}
	if result, ok := c.registry.first(tc, m, q.timed); ok {
		d.Match = Matched{Result: c.config.complete(result), SendBy: min(q.of, q.now).add(SendWithin).time(), used: w.newest}
		d.Reason = m.gate(q.now, d.Match)
	}
	return d
}

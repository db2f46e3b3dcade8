package assistance

import (
	"cmp"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/quickreply"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/proactive"
)

// Core decides for the sessions of one product. It stores nothing about them: the caller
// owns each session's [Window] and its conversation's [Machine], and carries out the
// effects. A Core reads no clock, and is safe for concurrent use on different windows.
type Core struct {
	Rules    // for the product's machines
	triggers []proactive.Trigger
	config   proactive.Config
}

// NewCore returns a core that asks these triggers in order; the first one that matches and is
// not cooling down wins. A nil configuration means the defaults. Enabled and Triggers in the
// configuration are ignored here: [proactive.Config.Select] applies the latter. Both arguments
// must be valid, as Select and [proactive.CheckTriggers] test them.
func NewCore(config *proactive.Config, triggers ...proactive.Trigger) *Core {
	c := *cmp.Or(config, &proactive.Config{})
	rules := Rules{AssistanceIdle: seconds(c.AssistanceIdleS, defaultAssistanceIdle),
		KeepIdle: c.IdleTeardown == proactive.KeepOnIdle}
	return &Core{Rules: rules, triggers: slices.Clone(triggers), config: c}
}

// Session identifies the session whose actions a trigger sees.
type Session struct {
	ProductID      string
	SessionID      string
	ConversationID string // linked to the session; may be empty
}

// Decision is the outcome of an action, or of a time without one.
type Decision struct {
	// Reason is Offered, or explains why there is no offer.
	Reason Reason
	// Match is the match, offered or not; zero for NoMatch. To make the offer, pass it
	// to [Rules.Step].
	Match Matched
	// Page is where the user is; empty for NoMatch.
	Page string
	// Again is when to call [Core.Ask] if the session does nothing until then; zero for
	// never. The session's next decision replaces it.
	Again time.Time
}

// Act adds a session's action to its window and decides whether to make an offer.
// It modifies only the window.
func (c *Core) Act(w *Window, m Machine, s Session, a activity.Action, now time.Time) Decision {
	w.Add(a, now)
	return c.decide(w, m, s, question{now: now, of: a.Start()})
}

// Ask decides after a session has done nothing until due, which is the Again of
// its last decision. It evaluates only [proactive.Timed] triggers.
func (c *Core) Ask(w *Window, m Machine, s Session, due, now time.Time) Decision {
	return c.decide(w, m, s, question{now: now, of: due, timed: true})
}

// question is a request for a decision.
type question struct {
	now   time.Time
	of    time.Time // the moment to which an offer would respond
	timed bool      // only for Timed triggers
}

// decide asks the triggers in their order, until one matches that does not cool down. No trigger
// sees the actions of a pattern that it has fired on, and none is asked about no action at all.
func (c *Core) decide(w *Window, m Machine, s Session, q question) Decision {
	tc := contextOf(w, s, q)
	tooLate := w.newest().Add(WindowSpan) // there are no actions by then
	moment := schedule.Earlier(q.of, q.now)
	d := Decision{Reason: NoMatch}
	for _, t := range c.triggers {
		used := m.Fired[t.ID()].Used
		seen := unused(tc, used)
		if len(seen.Actions) == 0 {
			continue
		}
		timed, isTimed := t.(proactive.Timed)
		if isTimed {
			at, ok := timed.Again(seen)
			if ok && at.After(tc.Now) && at.Before(tooLate) && (d.Again.IsZero() || at.Before(d.Again)) {
				d.Again = at
			}
		}
		if d.Reason != NoMatch && d.Reason != CoolingDown || q.timed && !isTimed {
			continue
		}
		if result, ok := t.Evaluate(seen); ok {
			result.TriggerID = t.ID()
			match := Matched{Result: c.complete(result), SendBy: moment.Add(SendWithin).UTC(), used: instantOf(w.newest()),
				since: used}
			if reason := m.gate(instantOf(q.now), match); d.Reason == NoMatch || reason == Offered {
				d.Match, d.Reason, d.Page = match, reason, tc.Page()
			}
		}
	}
	return d
}

// contextOf returns the triggers' view of a session. It drops the actions that are too old from
// the window.
func contextOf(w *Window, s Session, q question) proactive.TriggerContext {
	now := schedule.Later(q.now, w.newest())
	w.trim(now.Add(-WindowSpan))
	n := len(w.Actions)
	tc := proactive.TriggerContext{CanonicalURLs: make([]string, n), Actions: w.Actions[:n:n], Now: now.UTC(),
		ProductID: s.ProductID, SessionID: s.SessionID, ConversationID: s.ConversationID, ActionCount: max(w.count, n)}
	for i, a := range w.Actions {
		tc.CanonicalURLs[i] = a.CanonicalURL
	}
	return tc
}

// unused returns the context without the actions up to a time, zero for all of it. It
// also leaves out the visit to the last page among them, even if that visit still
// lasts.
func unused(tc proactive.TriggerContext, used instant) proactive.TriggerContext {
	if used == 0 {
		return tc
	}
	first := len(tc.Actions)
	for first > 0 && instantOf(tc.Actions[first-1].At) > used {
		first--
	}
	page := proactive.TriggerContext{Actions: tc.Actions[:first]}.Page()
	visit := first
	for visit < len(tc.CanonicalURLs) && (tc.CanonicalURLs[visit] == page || tc.CanonicalURLs[visit] == "") {
		visit++
	}
	tc.Actions, tc.CanonicalURLs = tc.Actions[first:], tc.CanonicalURLs[visit:]
	return tc
}

// The defaults of a [proactive.Config].
const (
	defaultBody               = "Need a hand?"
	defaultInteractionTimeout = 10 * time.Second
	defaultCooldown           = 30 * time.Second
	defaultAssistanceIdle     = 300 * time.Second
	maxDuration               = 24 * time.Hour
)

// complete fills a result's zero fields from the configuration, and cleans its
// texts.
func (c *Core) complete(r proactive.Result) proactive.Result {
	r.Body = cmp.Or(quickreply.CleanBody(r.Body), quickreply.CleanBody(c.config.Body), defaultBody)
	if r.ReplyOptionLabels == nil {
		r.ReplyOptionLabels = c.config.ReplyOptionLabels
	}
	r.ReplyOptionLabels = quickreply.CleanLabels(r.ReplyOptionLabels)
	timeout := cmp.Or(max(0, r.InteractionTimeout), seconds(c.config.InteractionTimeoutS, defaultInteractionTimeout))
	cooldown := cmp.Or(r.Cooldown, seconds(c.config.CooldownS, defaultCooldown))
	r.InteractionTimeout, r.Cooldown = min(timeout, maxDuration), min(max(0, cooldown), maxDuration)
	return r
}

func seconds(n *int, byDefault time.Duration) time.Duration {
	if n == nil {
		return byDefault
	}
	return time.Duration(*n) * time.Second
}

package proactive

import (
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Trigger decides from what a user just did whether this is a moment to offer
// help. It is asked after each action. It must not keep what it is given, and it
// must be safe for concurrent use; most triggers are plain functions of their
// input.
type Trigger interface {
	// ID names the trigger in configuration, cool-downs, logs and metrics. It
	// never changes.
	ID() string

	// Evaluate reports whether the newest action completes what the trigger is
	// looking for, and what to offer then.
	Evaluate(c TriggerContext) (Result, bool)
}

// Timed is a [Trigger] that may match because time passes and nothing happens.
// Any other trigger is only asked after an action.
type Timed interface {
	Trigger

	// Again returns when to evaluate the trigger again if the user does
	// nothing until then; false for not before the next action. A time that is
	// not after c.Now is ignored.
	Again(c TriggerContext) (at time.Time, ok bool)
}

// TriggerContext is what a [Trigger] sees: one session's newest actions, of the
// last [WindowSpan] and at most [WindowSize]. What belongs to a pattern for which
// this trigger's offer was made is used up and no longer there. The slices are
// valid until Evaluate returns and must not be changed.
type TriggerContext struct {
	// CanonicalURLs are the pages: chronological, one for each action,
	// repeated, and empty where unknown. More actions on a page that is used
	// up do not bring it back.
	CanonicalURLs []string
	Actions       []Action
	Now           time.Time

	ProductID      string
	SessionID      string
	ConversationID string
	ActionCount    int // of the session, from its beginning
}

// Page returns the canonical URL of the page where the user is now, empty if it is
// unknown.
func (c TriggerContext) Page() string {
	for i := len(c.Actions) - 1; i >= 0; i-- {
		if url := c.Actions[i].CanonicalURL; url != "" {
			return url
		}
	}
	for i := len(c.CanonicalURLs) - 1; i >= 0; i-- {
		if url := c.CanonicalURLs[i]; url != "" {
			return url
		}
	}
	return ""
}

// Action is what a trigger sees of an [activity.Action]. Two clicks with the
// same title on the same page were on the same label; elements without a label
// differ by their kind only.
type Action struct {
	At           time.Time
	Type         string // activity.TypePageview, …
	Title        string // "Click Export CSV"
	CanonicalURL string
}

// same reports whether two actions did the same to the same element.
func (a Action) same(b Action) bool {
	return a.Type == b.Type && a.Title == b.Title && a.CanonicalURL == b.CanonicalURL
}

// Result is what to offer. A zero field means the product's configuration, and
// what that leaves out the defaults of [Config].
type Result struct {
	// TriggerID is set by the registry.
	TriggerID string
	// Body introduces the offer. It is text, with line breaks at most.
	Body string
	// ReplyOptionLabels are what the user can choose; see [CleanLabels]. To
	// show the body alone use a slice that is empty and not nil.
	ReplyOptionLabels []string
	// Metadata is passed on to the log and to what guides the user.
	Metadata map[string]string

	InteractionTimeout time.Duration // the offer expires if the user does not react for so long
	Cooldown           time.Duration // of the trigger in the conversation; negative for none
}

// Registry holds triggers in order. It is immutable and safe for concurrent use.
type Registry struct{ triggers []Trigger }

// OptionError is one mistake in the arguments of a constructor.
type OptionError = options.Error

// NewRegistry returns a registry of these triggers. Of two that match the first
// is taken, so the more specific one comes first. The error joins an
// *OptionError for each trigger that is nil, or has no id or that of another.
func NewRegistry(triggers ...Trigger) (*Registry, error) {
	m := options.Mistakes{Package: "proactive"}
	known := map[string]bool{}
	for _, t := range triggers {
		if t == nil {
			m.Require(false, "trigger", "must not be nil")
			continue
		}
		id := t.ID()
		m.Require(id != "", "trigger id", "must not be empty")
		m.Require(id == "" || !known[id], "trigger "+id, "is a duplicate")
		known[id] = true
	}
	if err := m.Err(); err != nil {
		return nil, err
	}
	return &Registry{triggers: append([]Trigger(nil), triggers...)}, nil
}

// Evaluate returns the result of the first trigger that matches.
func (r *Registry) Evaluate(c TriggerContext) (Result, bool) {
	return r.first(c, Machine{}, false)
}

// first is Evaluate without what the triggers used up. If timed is set only
// triggers that are Timed are asked.
func (r *Registry) first(c TriggerContext, m Machine, timed bool) (Result, bool) {
	for _, t := range r.triggers {
		if _, ok := t.(Timed); timed && !ok {
			continue
		}
		if result, ok := t.Evaluate(c.after(m.fired[t.ID()].Used)); ok {
			result.TriggerID = t.ID()
			return result, true
		}
	}
	return Result{}, false
}

// again returns the earliest time at which a trigger wants to be evaluated
// again, zero for none.
func (r *Registry) again(c TriggerContext, m Machine) (earliest time.Time) {
	for _, t := range r.triggers {
		timed, ok := t.(Timed)
		if !ok {
			continue
		}
		at, ok := timed.Again(c.after(m.fired[t.ID()].Used))
		if ok && at.After(c.Now) && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	return earliest
}

// after returns the context without what a pattern used up to a time, zero for
// nothing.
func (c TriggerContext) after(used instant) TriggerContext {
	if used == 0 {
		return c
	}
	first := len(c.Actions)
	for first > 0 && instantOf(c.Actions[first-1].At) > used {
		first--
	}
	page := TriggerContext{Actions: c.Actions[:first]}.Page()
	visit := first
	for visit < len(c.CanonicalURLs) && (c.CanonicalURLs[visit] == page || c.CanonicalURLs[visit] == "") {
		visit++
	}
	c.Actions, c.CanonicalURLs = c.Actions[first:], c.CanonicalURLs[visit:]
	return c
}

// instant is a time in microseconds since the epoch, zero for none.
type instant int64

func instantOf(t time.Time) instant { return instant(t.UnixMicro()) }

func (i instant) time() time.Time { return time.UnixMicro(int64(i)).UTC() }

func (i instant) add(d time.Duration) instant { return i + instant(d.Microseconds()) }

// startOf returns when an action began.
func startOf(a activity.Action) instant { return instantOf(a.Start()) }

package proactive

import (
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/internal/options"
)

// Trigger decides from a user's latest actions whether to offer help now. It is evaluated
// after each action. Calls for different sessions overlap, so it must be safe for
// concurrent use, and it must not retain the context. Most triggers are plain functions of
// their input.
type Trigger interface {
	// ID identifies the trigger in configuration, cooldowns, logs and metrics.
	// It never changes.
	ID() string

	// Evaluate reports whether the newest action completes the trigger's pattern, and
	// returns the offer to make in that case. It must return immediately.
	Evaluate(c TriggerContext) (Result, bool)
}

// Timed is a [Trigger] that may match because time passes without an action.
// Other triggers are evaluated only after an action.
type Timed interface {
	Trigger

	// Again returns when to evaluate the trigger again if the user does nothing
	// until then; false means not before the next action. A time that is not
	// after c.Now is ignored, and so is one when the newest action is 120 seconds old.
	Again(c TriggerContext) (at time.Time, ok bool)
}

// TriggerContext shows a [Trigger] one session's newest actions: from 1 to 50, of the last
// 120 seconds. The actions that led to an offer by this trigger are consumed and no
// longer included. The slices are valid until Evaluate returns and must not be changed.
type TriggerContext struct {
	// CanonicalURLs are the pages in time order: one for each action, so pages
	// repeat, and empty if unknown. Further actions on a consumed page do not
	// bring it back.
	CanonicalURLs []string
	Actions       []Action
	Now           time.Time

	ProductID      string
	SessionID      string
	ConversationID string
	ActionCount    int // since the session began
}

// Page returns the canonical URL of the page where the user is now, or "" if
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

// Action is a user's action. Two clicks with the same title on the same page were on the
// same label; elements without a label differ only by their kind.
type Action struct {
	At           time.Time
	Type         string // such as "click"; see the Type constants of package activity
	Title        string // "Click Export CSV"
	Label        string // "Export CSV"; a custom event's name, or an error's type
	CanonicalURL string
	Properties   map[string]string // a custom event's properties that the product lists
	Marks        []string          // a click's; see the Mark constants of package activity
}

// same reports whether two actions were the same, on the same element.
func (a Action) same(b Action) bool {
	return a.Type == b.Type && a.Title == b.Title && a.CanonicalURL == b.CanonicalURL
}

// Result is the offer to make. A zero field means the value of the product's [Config], or
// else its default.
type Result struct {
	// TriggerID is set by the caller of Evaluate.
	TriggerID string
	// Body introduces the offer. It is plain text and may have line breaks.
	Body string
	// ReplyOptionLabels are the replies to choose from; the first three are shown, cut to
	// 80 characters each. To show the body alone, use an empty slice that is not nil.
	ReplyOptionLabels []string
	// Metadata is passed on to Options.Guide of the service.
	Metadata map[string]string

	InteractionTimeout time.Duration // the offer expires without a reaction for this long
	Cooldown           time.Duration // of the trigger in the conversation; negative for none
}

// CheckTriggers returns the mistakes in a list of triggers, joined: a trigger, or the function
// of a [Predicate], must not be nil, and needs a unique ID.
func CheckTriggers(triggers ...Trigger) error {
	m := options.Mistakes{Package: "proactive"}
	known := map[string]bool{}
	for i, t := range triggers {
		at, within := fmt.Sprintf("triggers[%d]", i), t
		for changed, ok := t.(mapped); ok; changed, ok = within.(mapped) {
			within = changed.Trigger
		}
		if p, ok := within.(predicate); within == nil || ok && p.holds == nil {
			m.Require(false, at, "must not be nil")
			continue
		}
		id := t.ID()
		m.Require(id != "", at+".ID", "must not be empty")
		m.Require(id == "" || !known[id], "trigger "+id, "is a duplicate")
		known[id] = true
	}
	return m.Err()
}

package proactive

import (
	"time"

	"github.com/liveactivity/liveactivity/internal/options"
)

// Trigger decides from a user's last actions whether this is a moment to offer help. It is
// asked after each action. Calls for different sessions overlap, so it must be safe for
// concurrent use, and it must not keep the context. Most triggers are plain functions of
// their input.
type Trigger interface {
	// ID names the trigger in configuration, cool-downs, logs and metrics. It
	// never changes.
	ID() string

	// Evaluate reports whether the newest action completes the trigger's pattern, with
	// the offer to make then. It must return at once.
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

// TriggerContext shows a [Trigger] one session's newest actions: at most 50, of the last
// 120 seconds. The actions of a pattern that led to an offer of this trigger are used up
// and no longer there. The slices are valid until Evaluate returns and must not be
// changed.
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

// Action is a user's action. Two clicks with the same title on the same page were on the
// same label; elements without a label differ by their kind only.
type Action struct {
	At           time.Time
	Type         string // such as "click"; see the Type constants of package activity
	Title        string // "Click Export CSV"
	Label        string // "Export CSV"; of a custom event its name, of an error its type
	CanonicalURL string
	Properties   map[string]string // of a custom event, those that the product lists
	Marks        []string          // of a click; see the Mark constants of package activity
}

// same reports whether two actions did the same to the same element.
func (a Action) same(b Action) bool {
	return a.Type == b.Type && a.Title == b.Title && a.CanonicalURL == b.CanonicalURL
}

// Result is the offer to make. A zero field means the value of the product's [Config], or
// else its default.
type Result struct {
	// TriggerID is set after Evaluate.
	TriggerID string
	// Body introduces the offer. It is text, with line breaks at most.
	Body string
	// ReplyOptionLabels are the replies to choose from; the first three are shown, cut at
	// 80 characters. To show the body alone, use a slice that is empty and not nil.
	ReplyOptionLabels []string
	// Metadata is passed on to Options.Guide of the service.
	Metadata map[string]string

	InteractionTimeout time.Duration // the offer expires if the user does not react for so long
	Cooldown           time.Duration // of the trigger in the conversation; negative for none
}

// CheckTriggers returns the mistakes in a list of triggers, joined: each trigger must
// not be nil and needs an ID that no other has.
func CheckTriggers(triggers ...Trigger) error {
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
	return m.Err()
}

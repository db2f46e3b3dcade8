package assistance

import (
	"fmt"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/quickreply"
)

// State is the state of the assistance in a conversation.
type State string

// The states.
const (
	Thinking     State = "thinking"                // watching; an offer may be made
	Proactive    State = "proactive_assistance"    // an offer is shown
	Reactive     State = "reactive_assistance"     // answering a question
	Guidance     State = "guidance_execution"      // the user chose a label
	Conservative State = "conservative_assistance" // holding back after a dismissal
)

var moves = map[State][]State{
	Thinking:     {Proactive, Reactive, Conservative},
	Proactive:    {Guidance, Conservative, Thinking, Reactive},
	Guidance:     {Thinking, Reactive, Conservative},
	Reactive:     {Thinking, Guidance},
	Conservative: {Thinking, Reactive},
}

// Durations of the [Machine].
const (
	// SendWithin is the greatest age of the action that an offer answers.
	SendWithin = 10 * time.Second
	// FindAfter is how long after its claim an offer in doubt is looked for: by
	// then no sender is working on it.
	FindAfter = 30 * time.Second

	firstReserve      = 600 * time.Second // in Conservative, after the first dismissal
	furtherReserve    = 300 * time.Second // for each further dismissal
	dismissalsForEver = 3
)

// Machine is the state of the assistance in one conversation: its State, the offer that
// is being sent or shown, and when each trigger last fired. It is a value: [Rules.Step]
// returns a new one and changes nothing. The zero value is for a conversation in which
// nothing has happened. Its JSON is a versioned snapshot; see [Machine.UnmarshalJSON].
type Machine struct {
	Current   State   `json:"state"`              // empty for Thinking; read it with State
	Since     instant `json:"since_us,omitempty"` // start of the state, or the last message or step in it
	Dismissed int     `json:"dismissals,omitempty"`

	// The values behind these are never modified, only replaced.
	Fired map[string]firing `json:"fired,omitempty"` // by trigger ID
	Claim *offer            `json:"claim,omitempty"` // being sent, perhaps by a process that has ended
	Offer *offer            `json:"offer,omitempty"` // shown last; not nil in Proactive
}

// firing is when a trigger last fired.
type firing struct {
	At   instant `json:"at_us"`   // start of the cooldown
	Used instant `json:"used_us"` // newest action of the pattern
}

// offer is a quick reply in a conversation.
type offer struct {
	Trigger   string            `json:"trigger_id"`
	Body      string            `json:"body"`
	Labels    []string          `json:"labels,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	TimeoutUS int64             `json:"timeout_us"`
	At        instant           `json:"at_us"`              // when it was claimed, and later when it was shown
	ID        string            `json:"id,omitempty"`       // the desk's; empty if the user took the offer first
	Previous  *firing           `json:"previous,omitempty"` // of the trigger, restored when the claim is released
}

// State returns the state.
func (m Machine) State() State {
	if m.Current == "" {
		return Thinking
	}
	return m.Current
}

// label returns the offer's label that a message equals, ignoring case and
// surrounding white space.
func (o *offer) label(message string) (label string, ok bool) {
	if o == nil {
		return "", false
	}
	i := slices.IndexFunc(o.Labels, func(l string) bool { return quickreply.SameLabel(l, message) })
	if i < 0 {
		return "", false
	}
	return o.Labels[i], true
}

func (o *offer) quickReply() helpdesk.Offer {
	return helpdesk.Offer{Body: o.Body, Labels: slices.Clone(o.Labels)}
}

// Reason is a word, for logs and metrics, for why an offer is made or not.
type Reason string

// The reasons.
const (
	Offered     Reason = "offered"      // the offer may be made
	NoMatch     Reason = "no_match"     // no trigger matches
	Stale       Reason = "stale"        // the triggering action is older than SendWithin
	Sending     Reason = "in_flight"    // another offer is being sent
	Busy        Reason = "state"        // the state allows no offer
	HoldingBack Reason = "holding_back" // the user dismissed offers
	CoolingDown Reason = "cooldown"     // the trigger fired recently, or since the match
)

// gate returns Offered, or the reason why the match's offer cannot be made now.
func (m Machine) gate(now instant, match Matched) Reason {
	last, fired := m.Fired[match.Result.TriggerID]
	switch {
	case now > instantOf(match.SendBy):
		return Stale
	case m.Claim != nil:
		return Sending
	case !m.showsOffers(now):
		if m.State() == Conservative || m.Dismissed >= dismissalsForEver {
			return HoldingBack
		}
		return Busy
	case fired && (now < last.At.add(match.Result.Cooldown) || match.since != last.Used):
		return CoolingDown
	}
	return Offered
}

// showsOffers reports whether an offer may be shown: in Thinking, and in
// Conservative once that has lasted long enough, but never after the third
// dismissal.
func (m Machine) showsOffers(now instant) bool {
	if m.Dismissed >= dismissalsForEver {
		return false
	}
	switch m.State() {
	case Thinking:
		return true
	case Conservative:
		return now >= m.Since.add(firstReserve+time.Duration(max(0, m.Dismissed-1))*furtherReserve)
	}
	return false
}

// MoveError reports that an event cannot happen in a state. The machine is unchanged.
type MoveError struct {
	State  State
	Event  string // "shown"
	Reason Reason // why not, for an event of type Matched
}

func (e *MoveError) Error() string {
	text := fmt.Sprintf("proactive: %s is not possible in %s", e.Event, e.State)
	if e.Reason != "" {
		text += ": " + string(e.Reason)
	}
	return text
}

// instant is a time in microseconds since the epoch, zero for none.
type instant int64

func instantOf(t time.Time) instant { return instant(t.UnixMicro()) }

func (i instant) time() time.Time { return time.UnixMicro(int64(i)).UTC() }

func (i instant) add(d time.Duration) instant { return i + instant(d.Microseconds()) }

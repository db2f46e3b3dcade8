package proactive

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// State is what the assistance in a conversation is doing.
type State string

// The states.
const (
	Thinking     State = "thinking"                // watching; an offer may be made
	Proactive    State = "proactive_assistance"    // an offer is shown
	Reactive     State = "reactive_assistance"     // answering a question
	Guidance     State = "guidance_execution"      // the user took the offer
	Conservative State = "conservative_assistance" // holding back after a dismissal
)

// moves are the moves there are.
var moves = map[State][]State{
	Thinking:     {Proactive, Reactive, Conservative},
	Proactive:    {Guidance, Conservative, Thinking, Reactive},
	Guidance:     {Thinking, Reactive, Conservative},
	Reactive:     {Thinking, Guidance},
	Conservative: {Thinking, Reactive},
}

// CanMoveTo reports whether there is a move from one state to the other.
func (s State) CanMoveTo(to State) bool { return slices.Contains(moves[s], to) }

// Durations of the [Machine].
const (
	// SendWithin is how old the action may be that an offer answers.
	SendWithin = 10 * time.Second
	// FindAfter is when an offer counts as lost of which it is not known
	// whether it was sent: no sender is at it any more.
	FindAfter = 30 * time.Second

	defaultAssistanceIdle = 300 * time.Second
	firstReserve          = 600 * time.Second // of Conservative, after the first dismissal
	furtherReserve        = 300 * time.Second // for each further one
	dismissalsForEver     = 3
)

// Machine is the memory of the assistance in one conversation: its state, the
// offer that is being sent or shown, and when each trigger last fired. It is a
// value: [Rules.Step] returns another one and changes nothing. The zero value is
// that of a conversation in which nothing has happened. Its JSON is a versioned
// snapshot; see [Machine.UnmarshalJSON].
type Machine struct {
	state      State   // empty for Thinking
	since      instant // when the state began, or the last message or step in it
	dismissals int

	// What these refer to is never changed, only replaced.
	fired map[string]firing // by trigger
	claim *offer            // that is being sent
	offer *offer            // that was shown last
	extra extra             // of the snapshot: what a later version keeps there
}

// firing is when a trigger last fired.
type firing struct {
	At   instant // for the cool-down
	Used instant // the newest action of the pattern
	extra
}

// offer is a quick reply in a conversation.
type offer struct {
	Trigger  string
	Body     string
	Labels   []string
	Metadata map[string]string
	Timeout  time.Duration
	At       instant // when it was claimed, or shown
	SendBy   instant
	ID       string  // by the desk; empty while unknown
	Previous *firing // of the trigger, for a claim that is given back
	extra
}

// State returns the state.
func (m Machine) State() State {
	if m.state == "" {
		return Thinking
	}
	return m.state
}

// Trigger returns the id of the trigger whose offer was shown last, empty if none
// was shown.
func (m Machine) Trigger() string {
	if m.offer == nil {
		return ""
	}
	return m.offer.Trigger
}

// Dismissals returns how often the user has dismissed an offer.
func (m Machine) Dismissals() int { return m.dismissals }

// InFlight reports whether an offer is being sent, or was when the process that
// was sending it ended.
func (m Machine) InFlight() bool { return m.claim != nil }

// label returns the offer's label that a message equals: white space around it
// and the case of letters count for nothing.
func (o *offer) label(message string) (label string, ok bool) {
	if o == nil {
		return "", false
	}
	i := slices.IndexFunc(o.Labels, func(l string) bool { return sameLabel(l, message) })
	if i < 0 {
		return "", false
	}
	return o.Labels[i], true
}

func sameLabel(a, b string) bool {
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}

func (o *offer) quickReply() helpdesk.Offer {
	return helpdesk.Offer{Body: o.Body, Labels: slices.Clone(o.Labels)}
}

// Reason is why an offer is made or not, a word for logs and metrics.
type Reason string

// The reasons.
const (
	Offered     Reason = "offered"      // the offer may be made
	NoMatch     Reason = "no_match"     // no trigger matches
	Stale       Reason = "stale"        // what triggered it was more than SendWithin ago
	Sending     Reason = "in_flight"    // another offer is being sent
	Busy        Reason = "state"        // the state allows no offer
	HoldingBack Reason = "holding_back" // the user dismissed offers
	CoolingDown Reason = "cooldown"     // the trigger fired a moment ago
)

// gate returns Offered, or why no offer of the match can be made now.
func (m Machine) gate(now instant, match Matched) Reason {
	last, fired := m.fired[match.Result.TriggerID]
	switch {
	case now > instantOf(match.SendBy):
		return Stale
	case m.claim != nil:
		return Sending
	case !m.showsOffers(now):
		if m.State() == Conservative || m.dismissals >= dismissalsForEver {
			return HoldingBack
		}
		return Busy
	case fired && now < last.At.add(match.Result.Cooldown):
		return CoolingDown
	}
	return Offered
}

// showsOffers reports whether an offer may be shown: in Thinking, and in
// Conservative when that has lasted long enough; never after the third dismissal.
func (m Machine) showsOffers(now instant) bool {
	if m.dismissals >= dismissalsForEver {
		return false
	}
	switch m.State() {
	case Thinking:
		return true
	case Conservative:
		return now >= m.since.add(firstReserve+time.Duration(max(0, m.dismissals-1))*furtherReserve)
	}
	return false
}

// MoveError says that an event cannot happen in a state. The machine is as it was.
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

// Rules are what can be set of how a [Machine] behaves. The zero value is the
// default.
type Rules struct {
	// AssistanceIdle is after how long without a message or step Reactive and
	// Guidance fall back to Thinking; 300 s.
	AssistanceIdle time.Duration
	// KeepIdle keeps the conversation when the user has not reacted to an
	// offer; by default it is removed.
	KeepIdle bool
}

func (r Rules) idle() time.Duration {
	if r.AssistanceIdle <= 0 {
		return defaultAssistanceIdle
	}
	return r.AssistanceIdle
}

// Due returns when the next [Tick] is due, which may be in the past; false if
// time alone changes nothing. A tick that led to an effect which failed is due
// again at once: how long to wait for a retry is the caller's to say. A tick is
// also due at once when the clock has been set back, so that what is kept
// follows.
func (r Rules) Due(m Machine, now time.Time) (at time.Time, ok bool) {
	if m.ahead(instantOf(now)) {
		return now, true
	}
	var due instant
	switch m.State() {
	case Reactive, Guidance:
		due = m.since.add(r.idle())
	case Proactive:
		due = m.since.add(m.offer.Timeout)
	}
	if m.claim != nil {
		if find := m.claim.At.add(FindAfter); due == 0 || find < due {
			due = find
		}
	}
	return due.time(), due != 0
}

// ahead reports whether something that is kept began at a time that is yet to
// come. What else has a time began no later.
func (m Machine) ahead(now instant) bool {
	if m.since > now {
		return true
	}
	for _, f := range m.fired {
		if f.At > now {
			return true
		}
	}
	return false
}

// clamp returns the machine with no time that is yet to come: what began then
// begins now, so that a clock that was ahead delays nothing by more than its own
// duration.
func (m Machine) clamp(now instant) Machine {
	if !m.ahead(now) {
		return m
	}
	m.since = min(m.since, now)
	m.claim, m.offer = m.claim.clamp(now), m.offer.clamp(now)
	m.fired = maps.Clone(m.fired)
	for id, f := range m.fired {
		m.fired[id] = f.clamp(now)
	}
	return m
}

func (f firing) clamp(now instant) firing {
	f.At = min(f.At, now)
	if f.Used > now.add(WindowSpan) {
		f.Used = now
	}
	return f
}

func (o *offer) clamp(now instant) *offer {
	if o == nil {
		return nil
	}
	clamped := *o
	clamped.At = min(o.At, now)
	return &clamped
}

// extra is what a snapshot holds beyond what this version knows.
type extra map[string]json.RawMessage

package assistance

import (
	"maps"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/proactive"
)

// Step returns the machine after an event at the time now, with the effects to carry out,
// in order. The time that has passed takes effect first, so late ticks do no harm. The
// error is a *[MoveError] if the event cannot happen in the state; then the machine is
// returned unchanged, without effects. Step modifies none of its arguments and depends on
// nothing else.
func (r Rules) Step(m Machine, now time.Time, e Event) (Machine, []Effect, error) {
	s := step{Machine: m, rules: r, now: instantOf(now)}
	s.pass()
	if ok, reason := s.apply(e); !ok {
		return m, nil, &MoveError{State: s.State(), Event: e.name(), Reason: reason}
	}
	return s.Machine, s.effects, nil
}

// step is a machine in transition.
type step struct {
	Machine
	rules   Rules
	now     instant
	effects []Effect
}

// add adds an effect.
func (s *step) add(e Effect) { s.effects = append(s.effects, e) }

// enter moves to a state and reports whether that move exists. Entering the
// current state renews its time.
func (s *step) enter(to State) bool {
	from := s.State()
	if from != to {
		if !slices.Contains(moves[from], to) {
			return false
		}
		s.add(Moved{from, to})
	}
	if s.Current, s.Since = to, s.now; to == Thinking {
		s.Current = ""
	}
	return true
}

// pass applies the effect of the time that has passed.
func (s *step) pass() {
	switch s.State() {
	case Reactive, Guidance:
		if s.now >= s.Since.add(s.rules.AssistanceIdle) {
			s.enter(Thinking)
		}
	case Proactive:
		if s.rules.KeepIdle && s.expired() {
			s.enter(Thinking)
		}
	}
}

// expired reports whether the user has had enough time to react to the offer.
func (s *step) expired() bool { return s.now >= s.Since+instant(s.Offer.TimeoutUS) }

// apply applies an event and reports whether it can happen; for an offer, reason
// says why not.
func (s *step) apply(e Event) (ok bool, reason Reason) {
	switch e := e.(type) {
	case Matched:
		reason = s.claim(e)
		return reason == Offered, reason
	case Shown:
		return s.shown(e.OfferID), ""
	case Refused:
		return s.refused(), ""
	case Lost:
		ok, s.Claim = s.Claim != nil, nil
		return ok, ""
	case Message:
		s.message(e.Text)
		return true, ""
	case Removed:
		s.removed()
		return true, ""
	case Tick:
		s.tick()
		return true, ""
	}
	return s.assist(e), ""
}

// assist applies the events of ongoing assistance. An unknown outcome cannot happen.
func (s *step) assist(e Event) bool {
	state := s.State()
	assisting := state == Reactive || state == Guidance
	switch e {
	case Engaged{}:
		return state == Proactive && s.enter(Reactive)
	case Reported(proactive.Progressed):
		return assisting && s.enter(state)
	case Reported(proactive.Finished):
		return assisting && s.enter(Thinking)
	case Reported(proactive.Abandoned):
		return state == Guidance && s.enter(Conservative)
	case Reported(proactive.Dismissed):
		s.Dismissed++
		return state != Conservative && s.enter(Conservative)
	}
	return false
}

// claim claims the offer of a match, unless there is a reason against it.
func (s *step) claim(e Matched) Reason {
	if reason := s.gate(s.now, e); reason != Offered {
		return reason
	}
	r := e.Result
	claim := &offer{Trigger: r.TriggerID, Body: r.Body, Labels: r.ReplyOptionLabels, Metadata: maps.Clone(r.Metadata),
		TimeoutUS: r.InteractionTimeout.Microseconds(), At: s.now}
	if last, ok := s.Fired[r.TriggerID]; ok {
		claim.Previous = &last
	}
	s.Claim = claim
	s.fire(r.TriggerID, &firing{At: s.now, Used: e.used})
	s.add(Send{r.TriggerID, claim.quickReply(), e.SendBy})
	return Offered
}

// fire sets when a trigger last fired; nil means never.
func (s *step) fire(trigger string, f *firing) {
	s.Fired = maps.Clone(s.Fired)
	if f == nil {
		delete(s.Fired, trigger)
		return
	}
	if s.Fired == nil {
		s.Fired = map[string]firing{}
	}
	s.Fired[trigger] = *f
}

// shown turns the claim into the offer that is shown. If the user has done something else in the
// meantime, the state stays. An offer that the user took before its ID was known needs no ID.
func (s *step) shown(id string) bool {
	if s.Claim == nil {
		return false
	}
	shown := *s.Claim
	shown.At, shown.ID, shown.Previous = s.now, id, nil
	s.Claim, s.Offer = nil, &shown
	if s.showsOffers(s.now) {
		s.enter(Thinking) // the only way from Conservative
		s.enter(Proactive)
	}
	return true
}

// refused releases the claim: the trigger counts as not fired.
func (s *step) refused() bool {
	if s.Claim == nil {
		return false
	}
	s.fire(s.Claim.Trigger, s.Claim.Previous)
	s.Claim = nil
	return true
}

// message applies a message of the user: the label of an offer that can still be
// chosen, or anything else. A label proves that the offer was shown.
func (s *step) message(text string) {
	if _, ok := s.Claim.label(text); ok {
		s.shown("")
	}
	label, chosen := s.Offer.label(text)
	if !chosen || !s.canChoose() {
		s.enter(Reactive)
		s.add(Reply{text})
		return
	}
	if !s.enter(Guidance) {
		s.enter(Reactive)
		s.enter(Guidance)
	}
	s.add(Guide{s.Offer.Trigger, label, maps.Clone(s.Offer.Metadata)})
}

// canChoose reports whether labels of the last offer can be chosen: the offer stays in sight for a
// while after its time is over, even behind other messages, unless the user has dismissed it.
func (s *step) canChoose() bool {
	switch s.State() {
	case Thinking, Reactive:
		return s.now < s.Offer.At.add(s.rules.AssistanceIdle)+instant(s.Offer.TimeoutUS)
	case Conservative:
		return false
	}
	return true
}

// removed forgets everything, and adds the last move to the effects.
func (s *step) removed() {
	if s.State() != Thinking {
		s.add(Moved{s.State(), Thinking})
	}
	s.Machine = Machine{}
	s.add(Clear{})
}

// tick requests overdue effects.
func (s *step) tick() {
	if s.Claim != nil && s.now >= s.Claim.At.add(FindAfter) {
		find := Find{TriggerID: s.Claim.Trigger, Offer: s.Claim.quickReply(), Since: s.Claim.At.time()}
		if s.Offer != nil {
			find.After = s.Offer.At.time()
		}
		s.add(find)
	}
	if s.State() == Proactive && s.expired() {
		s.add(Remove{s.Offer.ID})
	}
}

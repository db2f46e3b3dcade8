package assistance

import "time"

// Rules are a product's settings for its machines; see [NewCore].
type Rules struct {
	// AssistanceIdle is how long Reactive and Guidance last without a message
	// or step before they fall back to Thinking.
	AssistanceIdle time.Duration
	// KeepIdle keeps the conversation if the user has not reacted to an offer;
	// by default it is removed.
	KeepIdle bool
}

// Due returns when the next [Tick] is due, which may be in the past, and false if
// time alone changes nothing. A tick whose effect failed is due again immediately:
// the caller decides how long to wait before a retry.
func (r Rules) Due(m Machine) (at time.Time, ok bool) {
	var due instant
	switch m.State() {
	case Reactive, Guidance:
		due = m.Since.add(r.AssistanceIdle)
	case Proactive:
		due = m.Since + instant(m.Offer.TimeoutUS)
	}
	if m.Claim != nil {
		if find := m.Claim.At.add(FindAfter); due == 0 || find < due {
			due = find
		}
	}
	return due.time(), due != 0
}

package assistance

import "time"

// Rules are a product's settings for its machines. The zero value is the default.
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
// again at once: how long to wait for a retry is the caller's to say.
func (r Rules) Due(m Machine) (at time.Time, ok bool) {
	var due instant
	switch m.State() {
	case Reactive, Guidance:
		due = m.Since.add(r.idle())
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

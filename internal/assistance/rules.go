package assistance

import (
	"maps"
	"time"
)

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
// again at once: how long to wait for a retry is the caller's to say. A tick is
// also due at once when the clock has been set back, for the stored times to follow.
func (r Rules) Due(m Machine, now time.Time) (at time.Time, ok bool) {
	if m.ahead(instantOf(now)) {
		return now, true
	}
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

// ahead reports whether something that is kept began at a time that is yet to
// come. All other times in the machine are no later.
func (m Machine) ahead(now instant) bool {
	if m.Since > now {
		return true
	}
	for _, f := range m.Fired {
		if f.At > now {
			return true
		}
	}
	return false
}

// clamp returns the machine without times in the future: a state or a cool-down from the
// future begins now, so a clock that was ahead delays nothing by more than its own
// duration.
func (m Machine) clamp(now instant) Machine {
	if !m.ahead(now) {
		return m
	}
	m.Since = min(m.Since, now)
	m.Claim, m.Offer = m.Claim.clamp(now), m.Offer.clamp(now)
	m.Fired = maps.Clone(m.Fired)
	for id, f := range m.Fired {
		m.Fired[id] = f.clamp(now)
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

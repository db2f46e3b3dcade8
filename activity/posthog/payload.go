package posthog

import (
	"cmp"

	"github.com/liveactivity/liveactivity/activity/intake"
)

// Source is PostHog's form of events.
var Source = intake.NewSource(intake.Form{Batch: "batch", Tokens: [2]string{"api_key", "token"}, SentAt: "sent_at"},
	func(r *intake.Reader) intake.Decoder { return &reader{Reader: r} })

// reader decodes events. It holds one event of each kind, however many the body contains.
type reader struct {
	*intake.Reader
	event, inner event
	wrapped      bool   // the event is the inner one
	read         *event // the last one; nil for a value that is no event
}

// Next implements [intake.Decoder]. From a webhook body it reads the event inside together with
// the person beside it, which takes precedence over the event's own.
func (r *reader) Next() (token string) {
	r.read = nil
	if r.Kind() != '{' {
		r.Skip()
		return ""
	}
	start := r.Offset()
	r.wrapped = false
	r.readEvent(&r.event, &r.inner)
	e := &r.event
	if r.wrapped {
		e = &r.inner
		e.wrappedIn(&r.event)
	}
	if e.UUID = intake.Trimmed(e.UUID); e.UUID == "" {
		e.Digest = r.Digest(start)
	}
	r.read = e
	return e.token()
}

// wrappedIn completes an event from the object around it, whose person takes precedence.
func (e *event) wrappedIn(outer *event) {
	person, inner := &outer.Person.Properties, e.Person.Properties
	e.Person.Properties = traits{cmp.Or(person.Email, inner.Email), person.Proof.Or(inner.Proof)}
	e.SentAt = cmp.Or(e.SentAt, outer.SentAt)
	e.APIKey = cmp.Or(e.token(), outer.token())
}

// Meaning implements [intake.Decoder]. A reason of translate takes precedence over a time
// that cannot be read.
func (r *reader) Meaning(from *intake.Request, m *intake.Meaning) {
	m.Event, m.Reason = r.translate(r.read, from.Events)
	if r.read == nil {
		return
	}
	m.Key, m.Proof = r.read.UUID, r.read.proof()
	if m.Reason == "" && !r.read.setTimes(&m.Event, from) {
		m.Reason = intake.ReasonMalformed
	}
}

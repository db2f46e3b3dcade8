package posthog

import (
	"cmp"

	"github.com/liveactivity/liveactivity/activity/intake"
)

// Source is PostHog's form of events.
var Source = intake.NewSource(intake.Form{Batch: "batch", Tokens: [2]string{"api_key", "token"}, SentAt: "sent_at"},
	func(r *intake.Reader) intake.Decoder { return &decoder{Reader: r} })

// decoder decodes events. It holds one event of each kind, however many the body contains.
type decoder struct {
	*intake.Reader
	event, inner event
	wrapped      bool   // the event is the inner one
	read         *event // the last one; nil for a value that is no event
}

// Next implements [intake.Decoder]. From a webhook body it reads the event inside together with
// the person beside it, which takes precedence over the event's own.
func (d *decoder) Next() (token string) {
	d.read = nil
	if d.Kind() != '{' {
		d.Skip()
		return ""
	}
	start := d.Offset()
	d.wrapped = false
	d.readEvent(&d.event, &d.inner)
	e := &d.event
	if d.wrapped {
		e = &d.inner
		e.wrappedIn(&d.event)
	}
	if e.UUID = intake.Trimmed(e.UUID); e.UUID == "" {
		e.digest = d.Digest(start)
	}
	d.read = e
	return e.projectToken()
}

// wrappedIn completes an event from the object around it, whose person takes precedence.
func (e *event) wrappedIn(outer *event) {
	person, inner := &outer.Person.Properties, e.Person.Properties
	e.Person.Properties = intake.Traits{Email: cmp.Or(person.Email, inner.Email), Proof: person.Proof.Or(inner.Proof)}
	e.SentAt = cmp.Or(e.SentAt, outer.SentAt)
	e.APIKey = cmp.Or(e.projectToken(), outer.projectToken())
}

// Meaning implements [intake.Decoder]. A reason of translate takes precedence over a time
// that cannot be read.
func (d *decoder) Meaning(from *intake.Request, m *intake.Meaning) {
	m.Event, m.Reason = d.translate(d.read, from.Events)
	if d.read == nil {
		return
	}
	m.Key, m.Proof = d.read.UUID, d.read.proof()
	if m.Reason == "" && !d.read.setTimes(&m.Event, from) {
		m.Reason = intake.ReasonMalformed
	}
}

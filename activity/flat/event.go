package flat

import (
	"cmp"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// The paths of a configuration are compiled into tables once, and each event is read along them:
// fields on no path are skipped, and nothing is read twice except the properties of a listed
// event.

// New returns the source of a valid configuration. It keeps c's Actions, which must not change.
func New(c *Config) *intake.Source {
	read, actions := object(c.Fields.paths(), ""), c.Actions
	return intake.NewSource(intake.Form{Batch: c.Batch}, func(r *intake.Reader) intake.Decoder {
		return &decoder{Reader: r, read: read, actions: actions}
	})
}

// object returns the function that reads the object at a path, which ends with a dot unless it
// is the event's own. A text has nothing inside; [Config.Validate] ensures that.
func object(paths map[string]string, at string) func(*intake.Reader, *event) {
	fields := intake.Fields[event]{}
	for field, path := range paths {
		rest, isInside := strings.CutPrefix(path, at)
		name, _, isDeeper := strings.Cut(rest, ".")
		switch {
		case !isInside || path == "":
		case isDeeper || field == "properties":
			fields[name] = object(paths, at+name+".")
		default:
			fields[name] = text(texts[field])
		}
	}
	if strings.TrimSuffix(at, ".") != paths["properties"] {
		return fields.Read
	}
	return func(r *intake.Reader, e *event) {
		start, isObject := r.Offset(), r.Kind() == '{'
		if fields.Read(r, e); isObject {
			e.from, e.to = start, r.Offset()
		}
	}
}

// text returns the function that reads a text.
func text(of func(*event) *string) func(*intake.Reader, *event) {
	return func(r *intake.Reader, e *event) {
		if s := of(e); s == &e.url {
			r.SetString(s, intake.MaxURL)
		} else {
			r.SetText(s)
		}
	}
}

// event is an event. Its strings are bounded copies.
type event struct {
	name, id, time, userID, anonymousID, sessionID, email, url, label string

	from, to int64 // where the JSON of the properties begins and ends
}

// decoder decodes one event at a time.
type decoder struct {
	*intake.Reader
	read    func(*intake.Reader, *event)
	actions map[string]string
	event   event
}

// Next implements [intake.Decoder]. No event carries a capture token.
func (d *decoder) Next() (token string) {
	d.event = event{}
	d.Event(&d.event.id, func() { d.read(d.Reader, &d.event) })
	return ""
}

// texts are the places of the fields that are texts.
var texts = map[string]func(*event) *string{
	"event":        func(e *event) *string { return &e.name },
	"id":           func(e *event) *string { return &e.id },
	"time":         func(e *event) *string { return &e.time },
	"user_id":      func(e *event) *string { return &e.userID },
	"anonymous_id": func(e *event) *string { return &e.anonymousID },
	"session_id":   func(e *event) *string { return &e.sessionID },
	"email":        func(e *event) *string { return &e.email },
	"url":          func(e *event) *string { return &e.url },
	"label":        func(e *event) *string { return &e.label },
}

// Meaning implements [intake.Decoder]. The event's time is used without correction.
func (d *decoder) Meaning(from *intake.Request, m *intake.Meaning) {
	e := &d.event
	if e.name = intake.Trimmed(e.name); e.name == "" {
		m.Reason = intake.ReasonMalformed
		return
	}
	m.Key, m.SeeksSession = e.id, true
	m.Event = intake.Who(e.id, e.userID, e.anonymousID, e.email)
	m.SessionID = cmp.Or(intake.UnsharedID(intake.Trimmed(e.sessionID)), m.SessionID)
	switch typ := d.actions[e.name]; typ {
	case Identify:
		m.NameVisitor()
	case "":
		if rule := from.Events.Find(e.name); rule != nil {
			m.Action = rule.Action(e.name, d.Reader, e.from, e.to, e.url)
		} else if m.Email == "" {
			m.Reason = intake.ReasonOther
		}
	default:
		action := intake.NewAction(typ, activity.Target{Label: e.label}, e.url)
		if m.Action = &action; typ == activity.TypePageview && action.RawURL == "" {
			m.Reason = intake.ReasonMalformed
		}
	}
	m.ServerTime = true // the sender vouches for it
	m.Finish(from, e.time, "")
}

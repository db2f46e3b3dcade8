package flat

import (
	"cmp"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// The paths of a configuration are made into a tree once, and each event is read along it: a
// field that no path goes through is skipped, and nothing is read twice but the properties of a
// listed event.

// New returns the source of a valid configuration. It keeps c's Actions, which must not change.
func New(c *Config) *intake.Source {
	root := &node{isProperties: c.Fields.Properties == ""}
	for field, path := range c.Fields.paths() {
		if path != "" {
			n := root.at(strings.Split(path, "."))
			n.text, n.isProperties = texts[field], field == "properties"
		}
	}
	actions := c.Actions
	return intake.NewSource(intake.Form{Batch: c.Batch}, func(r *intake.Reader) intake.Decoder {
		return &decoder{Reader: r, root: root, actions: actions}
	})
}

// node is a place in an event. A node with a text has nothing inside; [Config.Validate] sees to
// that. Nodes do not change after New.
type node struct {
	text         func(*event) *string // that is read from here; nil for none
	isProperties bool
	inside       map[string]*node
}

// at returns the node at a path below n, which is made where it is missing.
func (n *node) at(path []string) *node {
	for _, name := range path {
		if n.inside[name] == nil {
			if n.inside == nil {
				n.inside = map[string]*node{}
			}
			n.inside[name] = &node{}
		}
		n = n.inside[name]
	}
	return n
}

// event is an event. Its strings are bounded copies.
type event struct {
	name, id, time, userID, anonymousID, sessionID, email, url, label string

	from, to int64 // where the JSON of the properties begins and ends
}

// decoder decodes one event at a time.
type decoder struct {
	*intake.Reader
	root    *node
	actions map[string]string
	event   event
}

// Next implements [intake.Decoder]. No event carries a project token.
func (d *decoder) Next() (token string) {
	d.event = event{}
	d.Event(&d.event.id, func() { d.read(d.root) })
	return ""
}

// read reads the value at a place, and all places inside of it. Of a place that comes twice in
// an event the last value counts.
func (d *decoder) read(at *node) {
	start := d.Offset()
	if at.text != nil {
		if text := at.text(&d.event); text == &d.event.url {
			d.SetString(text, intake.MaxURL)
		} else {
			d.SetText(text)
		}
		return
	}
	isObject := d.Kind() == '{'
	d.Object(func(key []byte) {
		if next := at.inside[string(key)]; next != nil {
			d.read(next)
			return
		}
		d.Skip()
	})
	if at.isProperties && isObject {
		d.event.from, d.event.to = start, d.Offset()
	}
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

// Meaning implements [intake.Decoder]. The event's time is taken as it is.
func (d *decoder) Meaning(from *intake.Request, m *intake.Meaning) {
	e := &d.event
	if e.name = intake.Trimmed(e.name); e.name == "" {
		m.Reason = intake.ReasonMalformed
		return
	}
	m.Key, m.SeeksSession = e.id, true
	m.Event = e.who()
	switch typ := d.actions[e.name]; typ {
	case Identify:
		m.Anonymous = intake.UserID(intake.Trimmed(e.anonymousID))
		if m.Anonymous == m.UserID || intake.IsLongID(m.Anonymous) {
			m.Anonymous = ""
		}
		if !m.Identified && m.Email == "" {
			m.Reason = intake.ReasonNothing
		}
	case "":
		m.Reason = d.custom(from, m)
	default:
		action := intake.NewAction(typ, activity.Target{Label: e.label}, e.url)
		if m.Action = &action; typ == activity.TypePageview && action.RawURL == "" {
			m.Reason = intake.ReasonMalformed
		}
	}
	m.ServerTime = true // the sender vouches for it
	m.Finish(from, e.time, "")
}

// who returns an event with the session and the user. An anonymous visitor is a user, too.
func (e *event) who() activity.Event {
	user, visitor := intake.UserID(intake.Trimmed(e.userID)), intake.UserID(intake.Trimmed(e.anonymousID))
	return activity.Event{ID: e.id, UserID: cmp.Or(user, visitor), Visitor: visitor, Identified: user != "",
		SessionID: cmp.Or(intake.Trimmed(e.sessionID), visitor), Email: intake.FirstEmail(e.email)}
}

// custom sets the meaning of an event that the product may list, or returns the reason for
// ignoring it.
func (d *decoder) custom(from *intake.Request, m *intake.Meaning) (reason string) {
	e := &d.event
	rule := from.Events.Find(e.name)
	switch {
	case rule == nil && m.Email == "":
		return intake.ReasonOther
	case rule == nil:
		return ""
	}
	var shown []activity.Property
	if e.to > e.from {
		shown = rule.Read(d.Again(e.from, e.to))
	}
	action := activity.NewEvent(e.name, rule.Sentence, shown, e.url)
	m.Action = &action
	return ""
}

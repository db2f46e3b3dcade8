package flat

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// New returns the source of a valid configuration. It keeps c's Actions, which must not change.
func New(c *Config) *intake.Source {
	fields, around := map[string]string{}, map[string]bool{}
	for field, path := range c.Fields.paths() {
		fields[path] = field
		for i := range path {
			around[path[:i]] = around[path[:i]] || path[i] == '.'
		}
	}
	delete(fields, "") // events lack these
	return intake.NewSource(intake.Form{Batch: c.Batch}, func(r *intake.Reader) intake.Decoder {
		return &decoder{Reader: r, name: c.Name, fields: fields, around: around, propertiesAt: c.Fields.Properties,
			actions: c.Actions, texts: map[string]string{}}
	})
}

// decoder decodes one event at a time.
type decoder struct {
	*intake.Reader
	name         string            // of the source
	fields       map[string]string // by their paths
	around       map[string]bool   // the paths of objects that have fields
	propertiesAt string            // the path of the properties; "" for the event itself
	actions      map[string]string

	texts      map[string]string // of the event, by the names of their fields; bounded copies
	properties intake.Span
}

// Next implements [intake.Decoder]. No event carries a capture token.
func (d *decoder) Next() (token string) {
	clear(d.texts)
	d.properties = intake.Span{}
	id := ""
	d.Event(&id, func() {
		d.object("")
		id = d.texts["id"]
	})
	d.texts["id"] = id
	return ""
}

// object reads the object at a path, which ends with a dot unless it is the event itself.
func (d *decoder) object(at string) {
	isObject, start := d.Kind() == '{', d.Offset()
	d.Object(func(key []byte) {
		path := at + string(key)
		if bytes.IndexByte(key, '.') >= 0 {
			path = "" // no path leads to this key
		}
		field := d.fields[path]
		text := d.texts[field]
		switch {
		case field == "properties", field == "" && d.around[path]:
			d.object(path + ".")
		case field == "":
			d.Skip()
		case field == "url":
			d.SetString(&text, intake.MaxURL)
		default:
			d.SetText(&text)
		}
		d.texts[field] = text
	})
	if isObject && strings.TrimSuffix(at, ".") == d.propertiesAt {
		d.properties = intake.Span{From: start, To: d.Offset()}
	}
}

// Meaning implements [intake.Decoder]. The event's time is used without correction. Its ID is unique
// within the source, as far as there is room to say so: two systems may both count their events from 1.
func (d *decoder) Meaning(from *intake.Request, m *intake.Meaning) {
	e := d.texts
	name := intake.Trimmed(e["event"])
	if name == "" {
		m.Reason = intake.ReasonMalformed
		return
	}
	id := e["id"]
	m.Key, m.SeeksSession = id, true
	if within := d.name + "/" + id; len(within) <= intake.MaxID {
		id = within
	}
	m.Event = intake.Who(id, e["user_id"], e["anonymous_id"], e["email"])
	m.SessionID = cmp.Or(intake.UnsharedID(intake.Trimmed(e["session_id"])), m.SessionID)
	switch typ := d.actions[name]; typ {
	case Identify:
		m.NameVisitor()
	case "":
		if rule := from.Events.Find(name); rule != nil {
			m.Action = rule.Action(name, d.Reader, d.properties, e["url"])
		} else if m.Email == "" {
			m.Reason = intake.ReasonOther
		}
	default:
		action := activity.NewAction(typ, activity.Target{Label: e["label"]}, e["url"])
		if m.Action = &action; typ == activity.TypePageview && action.RawURL == "" {
			m.Reason = intake.ReasonMalformed
		}
	}
	m.ServerTime = true // the sender vouches for it
	m.Finish(from, e["time"], "")
}

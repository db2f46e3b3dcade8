package flat

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
)

// Config is the configuration of a source.
type Config struct {
	Name string `json:"name"` // of the path: up to 64 letters, digits, "-" and "_"
	Kind string `json:"kind"` // Kind
	// Batch is the field with the array of events, for requests that have several events in an
	// object. A request may also be one event or an array of events.
	Batch  string `json:"batch,omitempty"`
	Fields Fields `json:"fields"`
	// Actions are the actions that events make, by the event's name: a Type constant of package
	// activity, or Identify.
	Actions map[string]string `json:"actions,omitempty"`
}

// Kind is the kind of every source of this package.
const Kind = "flat"

// Identify is the action of events that name the visitor of their session and add no action.
const Identify = "identify"

// Fields are paths into an event, such as "user.id" for the field id in the object user. An
// empty path means that events lack the field. Event is required, and so is one of UserID,
// AnonymousID and SessionID.
type Fields struct {
	Event       string `json:"event"` // its name
	ID          string `json:"id,omitempty"`
	Time        string `json:"time,omitempty"` // RFC 3339, or seconds or milliseconds since the epoch
	UserID      string `json:"user_id,omitempty"`
	AnonymousID string `json:"anonymous_id,omitempty"`
	SessionID   string `json:"session_id,omitempty"`
	Email       string `json:"email,omitempty"`
	URL         string `json:"url,omitempty"`        // of the page
	Label       string `json:"label,omitempty"`      // of what was clicked, submitted or changed; never what was typed
	Properties  string `json:"properties,omitempty"` // the object with the properties of custom events
}

// paths returns the fields' paths by their names.
func (f *Fields) paths() map[string]string {
	return map[string]string{"event": f.Event, "id": f.ID, "time": f.Time, "user_id": f.UserID,
		"anonymous_id": f.AnonymousID, "session_id": f.SessionID, "email": f.Email, "url": f.URL, "label": f.Label,
		"properties": f.Properties}
}

// maxPath is the length of the longest path, in bytes.
const maxPath = 200

var names = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate returns all mistakes in the configuration, each starting with the field and a
// colon.
func (c *Config) Validate() (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if !names.MatchString(c.Name) {
		add("name: must be 1 to 64 letters, digits, '-' or '_'")
	}
	if c.Kind != Kind {
		add("kind: must be %q", Kind)
	}
	if len(c.Batch) > maxPath {
		add("batch: must have at most %d bytes", maxPath)
	}
	paths := c.Fields.paths()
	for _, field := range slices.Sorted(maps.Keys(paths)) {
		if problem := pathProblem(field, paths); problem != "" {
			add("fields.%s: %s", field, problem)
		}
	}
	if c.Fields.Event == "" {
		add("fields.event: is missing")
	}
	if c.Fields.UserID+c.Fields.AnonymousID+c.Fields.SessionID == "" {
		add("fields: must have user_id, anonymous_id or session_id")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Actions)) {
		switch c.Actions[name] {
		case activity.TypePageview, activity.TypeClick, activity.TypeSubmit, activity.TypeChange, Identify:
		default:
			add("actions.%.200s: must be pageview, click, submit, change or identify", name)
		}
	}
	return problems
}

// pathProblem returns the mistake in the path of a field, "" for none. No two fields may have
// the same path, and nothing is inside a text; properties may contain the other fields.
func pathProblem(field string, paths map[string]string) string {
	path := paths[field]
	switch {
	case path == "":
		return ""
	case len(path) > maxPath:
		return fmt.Sprintf("must have at most %d bytes", maxPath)
	case slices.Contains(strings.Split(path, "."), ""):
		return "must be names with a dot between them"
	}
	for _, other := range slices.Sorted(maps.Keys(paths)) {
		switch {
		case other == field || paths[other] == "":
		case paths[other] == path:
			return "is the path of " + other + ", too"
		case field != "properties" && strings.HasPrefix(paths[other], path+"."):
			return "is a text, and " + other + " is inside of it"
		}
	}
	return ""
}

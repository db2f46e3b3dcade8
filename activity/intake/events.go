package intake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
)

// Names of events, PostHog's, by which a product lists the corresponding events of every vendor.
const (
	EventException = "$exception"
	EventRageClick = "$rageclick"
	EventDeadClick = "$dead_click"
)

// Rule describes the action for a custom event. The zero value shows only the event's name.
type Rule struct {
	// Properties are the names of the properties to show, in this order: at most 10.
	Properties []string `json:"properties,omitempty"`
	// Sentence describes the user's action without its subject: "sent an invoice". If empty, it
	// is derived from the event's name.
	Sentence string `json:"sentence,omitempty"`
}

// Rules lists the custom events that become actions, by name. A name that ends in "*" matches all
// names with that prefix. A name that begins with "$" is matched only by a rule that does, too, so
// a plain "*" does not include a vendor's own events. "$exception" stands for errors; its rule must
// be empty.
type Rules map[string]Rule

// Bounds of [Rules].
const (
	maxRules      = 200
	maxProperties = 10
	maxRuleText   = 200 // characters of a name or a sentence
)

// Validate returns all mistakes in the rules, each beginning with the field and a colon.
func (rules Rules) Validate() (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(rules) > maxRules {
		add("events: must be at most %d", maxRules)
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rule, at := rules[name], fmt.Sprintf("events.%.200s", name)
		if problem := textProblem(name); problem != "" {
			add("%s: the name %s", at, problem)
		} else if star := strings.IndexByte(name, '*'); star >= 0 && star < len(name)-1 {
			add("%s: the name can have a * at the end only", at)
		}
		hasWording := name == EventException || marks[name] != ""
		if hasWording && (rule.Properties != nil || rule.Sentence != "") {
			add("%s: takes no properties and no sentence", at)
			continue
		}
		if problem := textProblem(rule.Sentence); problem != "" && rule.Sentence != "" {
			add("%s.sentence: %s", at, problem)
		}
		if len(rule.Properties) > maxProperties {
			add("%s.properties: must be at most %d", at, maxProperties)
		}
		for i, property := range rule.Properties {
			if problem := textProblem(property); problem != "" {
				add("%s.properties[%d]: %s", at, i, problem)
			} else if slices.Contains(rule.Properties[:i], property) {
				add("%s.properties[%d]: %q is a duplicate", at, i, property)
			}
		}
	}
	return problems
}

// textProblem returns the mistake in a name or sentence, without its subject, or "".
func textProblem(s string) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "must not be empty"
	case strings.TrimSpace(s) != s:
		return "must not start or end with white space"
	case utf8.RuneCountInString(s) > maxRuleText:
		return fmt.Sprintf("must have at most %d characters", maxRuleText)
	}
	return ""
}

// marks maps events to the marks that they add to a click. Such an event is not an action itself.
var marks = map[string]string{EventRageClick: activity.MarkRage, EventDeadClick: activity.MarkDead}

// Events are the compiled [Rules] of a product. A nil value lists none. Events is immutable, and so
// safe for concurrent use.
type Events struct {
	exact    map[string]*Rule
	prefixes []prefix // the longest first
}

type prefix struct {
	is string
	*Rule
}

// NewEvents compiles valid rules; it returns nil for none. It retains the slices of property names,
// but not the map.
func NewEvents(rules Rules) *Events {
	if len(rules) == 0 {
		return nil
	}
	e := &Events{exact: make(map[string]*Rule, len(rules))}
	for name, rule := range rules {
		if start, ok := strings.CutSuffix(name, "*"); ok {
			e.prefixes = append(e.prefixes, prefix{start, &rule})
		} else {
			e.exact[name] = &rule
		}
	}
	slices.SortFunc(e.prefixes, func(a, b prefix) int { return cmp.Compare(len(b.is), len(a.is)) })
	return e
}

// Find returns the rule for an event, or nil if the event is not listed. An exact name has priority
// over prefixes, and a longer prefix over a shorter one. Marks have no rule.
func (e *Events) Find(name string) *Rule {
	if marks[name] != "" {
		return nil
	}
	return e.rule(name)
}

// Mark returns the mark that an event adds to its click, or "" for an event that is not listed or is
// not a mark.
func (e *Events) Mark(name string) string {
	if e.rule(name) == nil {
		return ""
	}
	return marks[name]
}

// Marks reports whether marks may follow clicks. Only then do sources make clicks Markable.
func (e *Events) Marks() bool { return e.Mark(EventRageClick)+e.Mark(EventDeadClick) != "" }

// rule is like Find, but includes marks. Its time is linear in the number of prefixes. A name without
// visible characters has no rule, since its action would have no title.
func (e *Events) rule(name string) *Rule {
	if e == nil || activity.CleanLabel(name) == "" {
		return nil
	}
	if rule := e.exact[name]; rule != nil {
		return rule
	}
	for _, p := range e.prefixes {
		if strings.HasPrefix(name, p.is) && (strings.HasPrefix(p.is, "$") || !strings.HasPrefix(name, "$")) {
			return p.Rule
		}
	}
	return nil
}

// Action returns the action for an event with this name on a page or screen. r has read the properties
// at of.
func (rule *Rule) Action(name string, r *Reader, of Span, page string) *activity.Action {
	a := activity.NewEvent(name, rule.Sentence, rule.Read(r.Again(of)), page)
	return &a
}

// maxScalar is the number of bytes of a property that are read.
const maxScalar = 1024

// Read reads the rule's properties from a JSON object and returns them in the rule's order. A
// property that is missing, or is not a string, number or boolean, is returned with an empty value.
// The last of repeated properties counts.
func (rule *Rule) Read(r *Reader) []activity.Property {
	if len(rule.Properties) == 0 {
		return nil
	}
	shown := make([]activity.Property, len(rule.Properties))
	for i, name := range rule.Properties {
		shown[i].Name = name
	}
	r.Object(func(key []byte) {
		if i := slices.Index(rule.Properties, string(key)); i >= 0 {
			shown[i].Value = r.Text(maxScalar)
			return
		}
		r.Skip()
	})
	return shown
}

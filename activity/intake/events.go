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

// The events of every vendor that a product lists by PostHog's names.
const (
	EventException = "$exception"
	EventRageClick = "$rageclick"
	EventDeadClick = "$dead_click"
)

// Rule is how a custom event becomes an action. The zero value shows its name alone.
type Rule struct {
	// Properties are the names of the properties to show, in this order: at most 10.
	Properties []string `json:"properties,omitempty"`
	// Sentence tells the user's action without its subject: "sent an invoice". Without one it
	// is made from the event's name.
	Sentence string `json:"sentence,omitempty"`
}

// Rules are the custom events that become actions, by name. A name that ends in "*" stands for
// all names with this beginning, except that names beginning with "$" need a rule that begins
// with "$" too: a plain "*" does not list a vendor's own events. "$exception" stands for
// errors; nothing else of an error can be set.
type Rules map[string]Rule

// Bounds of [Rules].
const (
	maxRules      = 200
	maxProperties = 10
	maxRuleText   = 200 // characters of a name or a sentence
)

// Validate returns all mistakes in the rules, each starting with the field and a colon.
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
		if isBuiltIn(name) && (rule.Properties != nil || rule.Sentence != "") {
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

// textProblem returns the mistake in a name or a sentence, without its subject, "" for none.
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

// isBuiltIn reports whether an event has words of its own.
func isBuiltIn(name string) bool { return name == EventException || isMark(name) }

// marks are the marks that events give to the click beside them. Such an event is no
// action of its own.
var marks = map[string]string{EventRageClick: activity.MarkRage, EventDeadClick: activity.MarkDead}

func isMark(name string) bool { return marks[name] != "" }

// Events are the [Rules] of a product as they are applied. A nil value lists none. It does not
// change, so it is safe for concurrent use.
type Events struct {
	exact    map[string]*Rule
	prefixes []prefix // the longest first
}

type prefix struct {
	is string
	*Rule
}

// NewEvents returns valid rules as they are applied, nil for none. It keeps no reference to the
// map, but to the property names of its rules.
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

// Find returns the rule of an event, nil for one that is not listed. The rule of the name
// itself goes before rules of its beginnings, of which the longest counts. An event that is a
// mark has no rule.
func (e *Events) Find(name string) *Rule {
	if isMark(name) {
		return nil
	}
	return e.rule(name)
}

// Mark returns the mark that an event gives to its click, "" for an event without one and
// for one that is not listed.
func (e *Events) Mark(name string) string {
	if e.rule(name) == nil {
		return ""
	}
	return marks[name]
}

// Marks reports whether marks may follow clicks. Sources make clicks Markable only then.
func (e *Events) Marks() bool { return e.Mark(EventRageClick)+e.Mark(EventDeadClick) != "" }

// rule is Find for marks, too. It takes time in the number of rules that end in "*". A name of
// nothing visible has no rule, since its action would have no title.
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

// Action returns the action of an event of this name on a page or a screen. Its properties are
// those that r has read between two offsets.
func (rule *Rule) Action(name string, r *Reader, from, to int64, page string) *activity.Action {
	a := OnScreen(activity.NewEvent(name, rule.Sentence, rule.Read(r.Again(from, to)), page))
	return &a
}

// maxScalar is how many bytes of a property are read.
const maxScalar = 1024

// Read reads the properties that may be shown from an object of properties, in the rule's
// order. A property that is missing, or is no text, number or boolean, keeps its place with an
// empty value. Of a repeated one the last counts.
func (rule *Rule) Read(r *Reader) []activity.Property {
	if len(rule.Properties) == 0 {
		return nil
	}
	shown := make([]activity.Property, len(rule.Properties))
	for i, name := range rule.Properties {
		shown[i].Name = name
	}
	r.Object(func(key []byte) {
		i := slices.Index(rule.Properties, string(key))
		switch kind := r.Kind(); {
		case i < 0, kind == '{', kind == '[', kind == 'n':
			r.Skip()
		default:
			shown[i].Value = r.Text(maxScalar)
		}
	})
	return shown
}

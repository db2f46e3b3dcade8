package proactive

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk"
)

// Config is the proactive part of a product's integration_config. A field that
// is left out means its default.
type Config struct {
	Enabled             bool            `json:"enabled"`
	Body                string          `json:"body,omitempty"`                  // "Need a hand?"
	ReplyOptionLabels   []string        `json:"reply_option_labels,omitempty"`   // none
	InteractionTimeoutS *int            `json:"interaction_timeout_s,omitempty"` // 10
	CooldownS           *int            `json:"cooldown_s,omitempty"`            // 30
	AssistanceIdleS     *int            `json:"assistance_idle_s,omitempty"`     // 300
	IdleTeardown        string          `json:"idle_teardown,omitempty"`         // KeepOnIdle, or empty to delete
	Triggers            []TriggerConfig `json:"triggers,omitempty"`              // the ping-pong trigger, after those passed in
}

// TriggerConfig switches a trigger on. A list of them replaces the default, and
// its order is that of evaluation:
//
//	"triggers": [
//		{"id": "rage_clicks", "page": "/checkout", "body": "Stuck at checkout?"},
//		{"id": "canonical_url_ping_pong"}
//	]
type TriggerConfig struct {
	// ID is that of a trigger of this package or of one passed in.
	ID string `json:"id"`
	// Page limits the trigger to pages under it; see [Under]. For
	// back_on_pricing it is the pricing page, /pricing.
	Page string `json:"page,omitempty"`
	// Body and ReplyOptionLabels replace the product's.
	Body              string   `json:"body,omitempty"`
	ReplyOptionLabels []string `json:"reply_option_labels,omitempty"`
}

// KeepOnIdle as IdleTeardown never deletes a conversation without engagement.
const KeepOnIdle = "keep"

// Defaults and bounds of a [Config].
const (
	DefaultBody               = "Need a hand?"
	DefaultInteractionTimeout = 10 * time.Second
	DefaultCooldown           = 30 * time.Second

	maxSeconds  = 24 * 60 * 60
	maxBody     = 1000 // characters
	maxLabel    = 80   // characters
	maxTriggers = 20
	maxPage     = 2 << 10 // bytes
)

// Validate returns everything that is wrong with the configuration, joined, each a
// *[helpdesk.ConfigError]. Its triggers can be those of this package and the custom
// ones.
func (c *Config) Validate(custom ...Trigger) error {
	var m mistakes
	m.within("interaction_timeout_s", c.InteractionTimeoutS, 1)
	m.within("cooldown_s", c.CooldownS, 0)
	m.within("assistance_idle_s", c.AssistanceIdleS, 1)
	if c.IdleTeardown != "" && c.IdleTeardown != KeepOnIdle {
		m.add("idle_teardown", "must be %q, or left out", KeepOnIdle)
	}
	m.text("", c.Body, c.ReplyOptionLabels)
	if c.Triggers != nil && len(c.Triggers) == 0 {
		m.add("triggers", "must not be empty; leave it out for the default")
	}
	if len(c.Triggers) > maxTriggers {
		m.add("triggers", "must be at most %d", maxTriggers)
	}
	known, seen := available(custom), map[string]bool{}
	for i, t := range c.Triggers {
		at := fmt.Sprintf("triggers[%d].", i)
		switch {
		case t.ID == "":
			m.add(at+"id", "is missing")
		case known[t.ID] == nil:
			m.add(at+"id", "%.80q is not a trigger; use one of %s", t.ID, strings.Join(sortedIDs(known), ", "))
		case seen[t.ID]:
			m.add(at+"id", "%q is a duplicate", t.ID)
		}
		seen[t.ID] = true
		if t.Page != "" && (!strings.HasPrefix(t.Page, "/") && !strings.Contains(t.Page, "://") || len(t.Page) > maxPage) {
			m.add(at+"page", "must be a path such as /pricing or a URL, of at most %d bytes", maxPage)
		}
		m.text(at, t.Body, t.ReplyOptionLabels)
	}
	return errors.Join(m...)
}

// Registry returns the triggers that are switched on. Without a list these are
// the custom ones and, after them, the ping-pong trigger.
func (c *Config) Registry(custom ...Trigger) (*Registry, error) {
	if err := c.Validate(custom...); err != nil {
		return nil, err
	}
	if c.Triggers == nil {
		return NewRegistry(append(slices.Clone(custom), PingPong{})...)
	}
	if _, err := NewRegistry(custom...); err != nil {
		return nil, err
	}
	known := available(custom)
	triggers := make([]Trigger, len(c.Triggers))
	for i, t := range c.Triggers {
		triggers[i] = Saying(Result{Body: t.Body, ReplyOptionLabels: t.ReplyOptionLabels}, known[t.ID](t.Page))
	}
	return NewRegistry(triggers...)
}

// available returns what makes each trigger that can be configured, from its page.
func available(custom []Trigger) map[string]func(page string) Trigger {
	all := map[string]func(string) Trigger{BackOnPricingID: BackOnPricing}
	for _, t := range slices.Concat([]Trigger{PingPong{}, Dwell{}, RageClicks(), RepeatedSubmits(), DeadEnd{}}, custom) {
		if t != nil {
			all[t.ID()] = func(page string) Trigger { return Within(page, t) }
		}
	}
	return all
}

func sortedIDs(known map[string]func(string) Trigger) (ids []string) {
	for id := range known {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// complete returns the result with what it leaves out, and its texts as they are
// shown.
func (c *Config) complete(r Result) Result {
	for _, body := range []string{r.Body, c.Body, DefaultBody} {
		if r.Body = CleanBody(body); r.Body != "" {
			break
		}
	}
	if r.ReplyOptionLabels == nil {
		r.ReplyOptionLabels = c.ReplyOptionLabels
	}
	r.ReplyOptionLabels = CleanLabels(r.ReplyOptionLabels)
	if r.InteractionTimeout <= 0 {
		r.InteractionTimeout = seconds(c.InteractionTimeoutS, DefaultInteractionTimeout)
	}
	r.InteractionTimeout = min(r.InteractionTimeout, maxSeconds*time.Second)
	if r.Cooldown == 0 {
		r.Cooldown = seconds(c.CooldownS, DefaultCooldown)
	}
	r.Cooldown = min(max(0, r.Cooldown), maxSeconds*time.Second)
	return r
}

// rules returns the rules for the product's machines.
func (c *Config) rules() Rules {
	return Rules{AssistanceIdle: seconds(c.AssistanceIdleS, defaultAssistanceIdle), KeepIdle: c.IdleTeardown == KeepOnIdle}
}

func seconds(n *int, byDefault time.Duration) time.Duration {
	if n == nil {
		return byDefault
	}
	return time.Duration(*n) * time.Second
}

// CleanLabels returns what can be shown of labels, wherever they come from: white
// space folded, without control characters and angle brackets, at most 80
// characters each, none empty or a duplicate, and no more than
// [helpdesk.MaxLabels].
func CleanLabels(labels []string) []string {
	clean := make([]string, 0, min(len(labels), helpdesk.MaxLabels))
	for _, label := range labels {
		label = activity.CleanLabel(withoutBrackets.Replace(label))
		if label == "" || slices.ContainsFunc(clean, func(l string) bool { return sameLabel(l, label) }) {
			continue
		}
		if clean = append(clean, label); len(clean) == helpdesk.MaxLabels {
			break
		}
	}
	return clean
}

var withoutBrackets = strings.NewReplacer("<", " ", ">", " ")

// CleanBody returns what can be shown of a body: at most 1,000 characters, without
// control characters except for line feeds, and without angle brackets.
func CleanBody(body string) string {
	body = strings.TrimSpace(strings.Map(func(r rune) rune {
		if isControl(r) {
			return -1
		}
		return r
	}, withoutBrackets.Replace(strings.ToValidUTF8(body, ""))))
	if utf8.RuneCountInString(body) > maxBody {
		body = string([]rune(body)[:maxBody-1]) + "…"
	}
	return body
}

// isControl reports whether a character of a body controls how it is shown.
func isControl(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200d')
}

// mistakes are those of a configuration.
type mistakes []error

func (m *mistakes) add(field, format string, args ...any) {
	*m = append(*m, &helpdesk.ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

func (m *mistakes) within(field string, n *int, least int) {
	if n != nil && (*n < least || *n > maxSeconds) {
		m.add(field, "must be from %d to %d", least, maxSeconds)
	}
}

// text adds what is wrong with the texts of an offer, whose fields begin with at.
func (m *mistakes) text(at, body string, labels []string) {
	if problem := problemOf(body, maxBody, isControl); problem != "" {
		m.add(at+"body", "%s", problem)
	}
	if len(labels) > helpdesk.MaxLabels {
		m.add(at+"reply_option_labels", "must be at most %d", helpdesk.MaxLabels)
	}
	for i, label := range labels {
		field := fmt.Sprintf("%sreply_option_labels[%d]", at, i)
		problem := problemOf(label, maxLabel, func(r rune) bool { return r == '\n' || isControl(r) })
		switch {
		case strings.TrimSpace(label) == "":
			m.add(field, "must not be empty")
		case problem != "":
			m.add(field, "%s", problem)
		case slices.ContainsFunc(labels[:i], func(l string) bool { return sameLabel(l, label) }):
			m.add(field, "is a duplicate")
		}
	}
}

// problemOf returns what is wrong with a text that users are shown.
func problemOf(text string, most int, forbidden func(rune) bool) string {
	switch {
	case utf8.RuneCountInString(text) > most:
		return fmt.Sprintf("must be at most %d characters", most)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, forbidden):
		return "must not have control characters"
	case strings.ContainsAny(text, "<>"):
		return "must be text: < and > are not shown"
	}
	return ""
}

package proactive

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/quickreply"
)

// Config is the proactive part of a product's integration_config. An omitted
// field means its default.
type Config struct {
	Enabled             bool            `json:"enabled"`
	Body                string          `json:"body,omitempty"`                  // "Need a hand?"
	ReplyOptionLabels   []string        `json:"reply_option_labels,omitempty"`   // none
	InteractionTimeoutS *int            `json:"interaction_timeout_s,omitempty"` // 10
	CooldownS           *int            `json:"cooldown_s,omitempty"`            // 30
	AssistanceIdleS     *int            `json:"assistance_idle_s,omitempty"`     // 300
	IdleTeardown        string          `json:"idle_teardown,omitempty"`         // KeepOnIdle, or empty to delete
	Triggers            []TriggerConfig `json:"triggers,omitempty"`              // custom ones, then ping-pong
}

// TriggerConfig enables a trigger. A list of them replaces the default, and the
// triggers are evaluated in that order:
//
//	"triggers": [
//		{"id": "rage_clicks", "page": "/checkout", "body": "Stuck at checkout?"},
//		{"id": "canonical_url_ping_pong"}
//	]
type TriggerConfig struct {
	// ID names a trigger of this package or a custom one.
	ID string `json:"id"`
	// Page limits the trigger to pages under its canonical form; see [Under] and
	// [activity.CanonicalURL]. For back_on_pricing it is the pricing page, /pricing.
	Page string `json:"page,omitempty"`
	// Body and ReplyOptionLabels replace the product's.
	Body              string   `json:"body,omitempty"`
	ReplyOptionLabels []string `json:"reply_option_labels,omitzero"`
}

// KeepOnIdle, as the IdleTeardown, never deletes a conversation without
// engagement.
const KeepOnIdle = "keep"

// Bounds of a [Config].
const (
	maxSeconds  = 24 * 60 * 60
	maxTriggers = 20
	maxPage     = 2 << 10 // bytes
)

// Validate returns all mistakes in the configuration, joined, each a
// *[helpdesk.ConfigError]. Triggers may name this package's triggers and the custom ones.
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
			m.add(at+"id", "%.80q is not a trigger; use one of %s", t.ID, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[t.ID]:
			m.add(at+"id", "%q is a duplicate", t.ID)
		}
		seen[t.ID] = true
		if t.Page != "" && (!strings.HasPrefix(t.Page, "/") && !strings.Contains(t.Page, "://") ||
			len(t.Page) > maxPage) {
			m.add(at+"page", "must be a path such as /pricing or a URL, of at most %d bytes", maxPage)
		}
		m.text(at, t.Body, t.ReplyOptionLabels)
	}
	return errors.Join(m...)
}

// Select returns the enabled triggers, in order of evaluation. Without a list, or for a nil
// configuration, these are the custom ones followed by [PingPong], unless one of them has its
// ID. The error joins the mistakes in the configuration or, if there are none, in the custom
// triggers.
func (c *Config) Select(custom ...Trigger) ([]Trigger, error) {
	c = cmp.Or(c, &Config{})
	if err := c.Validate(custom...); err != nil {
		return nil, err
	}
	if c.Triggers == nil {
		triggers := slices.Clone(custom)
		if !slices.ContainsFunc(custom, func(t Trigger) bool { return t != nil && t.ID() == PingPong{}.ID() }) {
			triggers = append(triggers, PingPong{})
		}
		return triggers, CheckTriggers(custom...)
	}
	known := available(custom)
	triggers := make([]Trigger, len(c.Triggers))
	for i, t := range c.Triggers {
		result := Result{Body: t.Body, ReplyOptionLabels: t.ReplyOptionLabels}
		triggers[i] = Saying(result, known[t.ID](activity.CanonicalURL(t.Page)))
	}
	return triggers, CheckTriggers(custom...)
}

// available maps the ID of each trigger that a configuration can name to a constructor
// that takes a page.
func available(custom []Trigger) map[string]func(page string) Trigger {
	all := map[string]func(string) Trigger{BackOnPricing("").ID(): BackOnPricing}
	for _, t := range slices.Concat([]Trigger{PingPong{}, Dwell{}, RageClicks(), RepeatedSubmits(), DeadEnd{},
		ErrorSeen(), DeadClick()}, custom) {
		if t != nil {
			all[t.ID()] = func(page string) Trigger { return Within(page, t) }
		}
	}
	return all
}

// mistakes collects the mistakes in a configuration.
type mistakes []error

func (m *mistakes) add(field, format string, args ...any) {
	*m = append(*m, &helpdesk.ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

func (m *mistakes) within(field string, n *int, least int) {
	if n != nil && (*n < least || *n > maxSeconds) {
		m.add(field, "must be from %d to %d", least, maxSeconds)
	}
}

// text adds the problems with an offer's texts; at is the path of their fields.
func (m *mistakes) text(at, body string, labels []string) {
	if problem := quickreply.BodyProblem(body); problem != "" {
		m.add(at+"body", "%s", problem)
	}
	if len(labels) > helpdesk.MaxLabels {
		m.add(at+"reply_option_labels", "must be at most %d", helpdesk.MaxLabels)
	}
	for i, label := range labels {
		field := fmt.Sprintf("%sreply_option_labels[%d]", at, i)
		if problem := quickreply.LabelProblem(label); problem != "" {
			m.add(field, "%s", problem)
		} else if slices.ContainsFunc(labels[:i], func(l string) bool { return quickreply.SameLabel(l, label) }) {
			m.add(field, "is a duplicate")
		}
	}
}

package productfile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/agent"
	"github.com/liveactivity/liveactivity/activity/flat"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/origin"
	"github.com/liveactivity/liveactivity/internal/strictjson"
	"github.com/liveactivity/liveactivity/proactive"
)

// The decoder in strictjson checks a file's form; the functions here check the rules within and
// between values. Each function adds all mistakes that it finds and never stops at the first.
// If both report a mistake in a field, only the decoder's is kept (see
// [strictjson.Problems.News]).

// warnings returns the valid parts that are probably mistakes.
func (f File) warnings() []string {
	var p strictjson.Problems
	for i, product := range f.Products {
		if product.WebhookSecret == "" && len(product.CaptureTokens) == 0 {
			p.Add("products[%d]: without webhook_secret and capture_tokens nothing can be reported to %q", i, product.ProductID)
		}
		if j := slices.IndexFunc(product.CaptureTokens, func(s string) bool { return strings.Contains(s, ":") }); j >= 0 {
			p.Add("products[%d].capture_tokens[%d]: with a colon in it only PostHog's and Amplitude's SDKs can report", i, j)
		}
		offers := cmp.Or(product.IntegrationConfig.Proactive, &proactive.Config{})
		for j, t := range offers.Triggers {
			if event := needs[t.ID]; event != "" && !lists(product.Events, event) {
				p.Add("products[%d].integration_config.proactive.triggers[%d]: without %q in events it never matches", i, j, event)
			}
		}
	}
	return p
}

// needs maps triggers to the events that a product must list for them.
var needs = map[string]string{proactive.ErrorSeen().ID(): intake.EventException,
	proactive.DeadClick().ID(): intake.EventDeadClick}

// lists reports whether rules include an event or a mark.
func lists(rules intake.Rules, event string) bool {
	events := intake.NewEvents(rules)
	return events.Find(event) != nil || events.Mark(event) != ""
}

// Validate returns all mistakes in the file other than its form, each starting with the field
// and a colon. Of duplicates, the later one is the mistake. Secrets are never quoted.
func (f File) Validate(with Extensions) []string {
	var p strictjson.Problems
	known := map[string]bool{}
	tokens := map[string]bool{}
	for i, product := range f.Products {
		at := fmt.Sprintf("products[%d]", i)
		for _, problem := range product.Validate(with) {
			p.Add("%s.%s", at, problem)
		}
		for j, token := range product.CaptureTokens {
			if tokens[token] {
				p.Add("%s.capture_tokens[%d]: is a duplicate", at, j)
			}
			tokens[token] = true
		}
		if known[product.ProductID] {
			p.Add("%s.product_id: %q is a duplicate", at, product.ProductID)
		}
		known[product.ProductID] = true
	}
	keys := map[string]bool{}
	for i, key := range f.Keys {
		at := fmt.Sprintf("keys[%d]", i)
		checkKey(&p, at, key)
		if keys[key.Key] && key.Key != "" {
			p.Add("%s.key: is a duplicate", at)
		}
		keys[key.Key] = true
		if !known[key.ExternalID] {
			p.Add("%s.external_id: %q is not the ID of a product", at, key.ExternalID)
		}
	}
	f.checkPublic(&p, tokens)
	return p
}

// checkPublic adds the secrets and keys that are capture tokens too: every visitor of a page knows
// those.
func (f File) checkPublic(p *strictjson.Problems, tokens map[string]bool) {
	check := func(at, secret string) {
		if secret != "" && tokens[secret] {
			p.Add("%s: must not be a capture token, because those are public", at)
		}
	}
	for i, product := range f.Products {
		check(fmt.Sprintf("products[%d].webhook_secret", i), product.WebhookSecret)
		for j, secret := range product.Identity.Secrets {
			check(fmt.Sprintf("products[%d].identity.secrets[%d]", i, j), secret)
		}
	}
	for i, key := range f.Keys {
		check(fmt.Sprintf("keys[%d].key", i), key.Key)
	}
}

// Validate returns all mistakes within the product, in the form of [File.Validate]. It
// opens the desks to check them, and discards them.
func (product Product) Validate(with Extensions) []string {
	var p strictjson.Problems
	if !productIDs.MatchString(product.ProductID) {
		p.Add("product_id: must be 1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit")
	}
	checkSecret(&p, "webhook_secret", product.WebhookSecret)
	// Replace an empty token with a space: a secret field may be missing, but not an element.
	for i, token := range product.CaptureTokens {
		checkSecret(&p, fmt.Sprintf("capture_tokens[%d]", i), cmp.Or(token, " "))
		if len(token) >= intake.MaxToken {
			p.Add("capture_tokens[%d]: must be at most %d bytes long", i, intake.MaxToken-1)
		}
	}
	for i, allowed := range product.AllowedOrigins {
		if !origin.IsPattern(allowed) {
			p.Add("allowed_origins[%d]: must be an ASCII origin such as https://app.example.com or https://*.example.com, "+
				"or null", i)
		}
	}
	for i, host := range product.LinkHosts {
		if !origin.IsHost(host) {
			p.Add("link_hosts[%d]: must be a host such as help.example.com or *.example.com", i)
		}
	}
	product.Identity.check(&p)
	if utf8.RuneCountInString(product.Agent.Prompt) > maxPrompt {
		p.Add("agent.prompt: must be at most %d characters long", maxPrompt)
	}
	p = append(p, product.Events.Validate()...)
	for i, source := range product.Sources {
		at := fmt.Sprintf("sources[%d].", i)
		for _, problem := range source.Validate() {
			p.Add("%s%s", at, problem)
		}
		if slices.ContainsFunc(product.Sources[:i], func(other flat.Config) bool { return other.Name == source.Name }) {
			p.Add("%sname: %q is a duplicate", at, source.Name)
		}
	}
	p = append(p, product.IntegrationConfig.validate(with.Triggers)...)
	_, problems := with.Open(product.IntegrationConfig.Desks, nil)
	return append(p, problems...)
}

// check adds the mistakes in the identity, with fields named relative to the
// product.
func (identity Identity) check(p *strictjson.Problems) {
	for i, secret := range identity.Secrets {
		checkSecret(p, fmt.Sprintf("identity.secrets[%d]", i), cmp.Or(secret, " "))
	}
	switch identity.Unverified {
	case "", UnverifiedNone, UnverifiedNotes, UnverifiedReplies:
	default:
		p.Add("identity.unverified: must be none, notes or replies")
	}
}

// checkKey adds the mistakes within one key.
func checkKey(p *strictjson.Problems, at string, key Key) {
	if key.Key == "" {
		p.Add("%s.key: is missing", at)
	}
	checkSecret(p, at+".key", key.Key)
	if problem := CheckKeyName(key.Name); problem != "" {
		p.Add("%s.%s", at, problem)
	}
	if key.Scopes != nil && len(key.Scopes) == 0 {
		p.Add("%s.scopes: must not be empty; leave it out for all scopes", at)
	}
	for i, scope := range key.Scopes {
		if _, ok := access.ParseScope(string(scope)); !ok {
			p.Add("%s.scopes[%d]: %q is not a scope; use mcp or stream", at, i, scope)
		}
	}
}

// maxKeyName is the maximum length of a key's name, in bytes.
const maxKeyName = 200

// CheckKeyName returns the mistake in a key's name, or "". The name may be empty.
func CheckKeyName(name string) string {
	if len(name) > maxKeyName || strings.TrimSpace(name) != name {
		return fmt.Sprintf("name: must have at most %d bytes, and no white space around it", maxKeyName)
	}
	return ""
}

// checkSecret adds the mistake in a secret. The secret may be missing.
func checkSecret(p *strictjson.Problems, at, secret string) {
	switch trimmed := strings.TrimSpace(secret); {
	case secret != "" && trimmed == "":
		p.Add("%s: must not be empty", at)
	case trimmed != secret:
		p.Add("%s: must not start or end with white space", at)
	}
}

// validate returns all mistakes in the configuration except in the desks.
func (c IntegrationConfig) validate(triggers []proactive.Trigger) []string {
	var p strictjson.Problems
	if n := c.Notes; n != nil {
		checkRange(&p, configPath+"notes.debounce_ms", n.DebounceMS, 0, maxSeconds*1000)
		checkRange(&p, configPath+"notes.interval_s", n.IntervalS, 0, maxSeconds)
		checkRange(&p, configPath+"notes.bin_seconds", n.BinSeconds, 1, maxSeconds)
		checkRange(&p, configPath+"notes.summary_threshold", n.SummaryThreshold, 1, maxThreshold)
		checkRange(&p, configPath+"notes.pre_link_window_s", n.PreLinkWindowS, 0, maxSeconds)
	}
	if c.Proactive != nil {
		addConfigErrors(&p, configPath+proactiveField, c.Proactive.Validate(triggers...))
	}
	return p
}

// maxPrompt is the maximum number of characters in an agent's prompt, the same as for
// its text.
const maxPrompt = agent.MaxChars

// Upper bounds of numbers: a day, and far more actions than a summary can
// usefully cover.
const (
	maxSeconds   = 24 * 60 * 60
	maxThreshold = 10_000
)

// checkRange adds the mistake in a number, unless it is omitted.
func checkRange(p *strictjson.Problems, at string, n *int, least, most int) {
	if n != nil && (*n < least || *n > most) {
		p.Add("%s: must be from %d to %d", at, least, most)
	}
}

// productIDs matches the IDs that a product can have: one path segment.
var productIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

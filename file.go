package liveactivity

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/origin"
	"github.com/liveactivity/liveactivity/proactive"
)

// File is a product file. Fields tagged secret must not be empty when given, nor
// have white space around them.
type File struct {
	Products []Product `json:"products"`
	Keys     []Key     `json:"keys"`
}

// Product is an app whose users' activity is kept, apart from that of every other
// product. Without a secret and tokens nothing can be reported to it by HTTP.
type Product struct {
	ProductID         string            `json:"product_id"`                   // one path segment
	WebhookSecret     string            `json:"webhook_secret" secret:"true"` // of PostHog's webhook
	CaptureTokens     []string          `json:"capture_tokens" secret:"true"` // of PostHog's SDKs; public
	AllowedOrigins    []string          `json:"allowed_origins"`              // of browsers that may report; none for all
	IntegrationConfig IntegrationConfig `json:"integration_config"`
}

// IntegrationConfig is what a product has beside its activity: its help desks,
// how notes are written into their conversations, and when quick replies are
// offered. In JSON the desks stand beside the other fields, by their names.
type IntegrationConfig struct {
	Notes     *Notes            `json:"notes,omitempty"`
	Proactive *proactive.Config `json:"proactive,omitempty"`
	// Desks is the configuration of each help desk as its helpdesk.Kind takes
	// it, by the name of that.
	Desks map[string]json.RawMessage `json:"-"`
}

// MarshalJSON implements [json.Marshaler].
func (c IntegrationConfig) MarshalJSON() ([]byte, error) {
	fields := map[string]any{}
	for name, desk := range c.Desks {
		fields[name] = desk
	}
	if c.Notes != nil {
		fields[notesField] = c.Notes
	}
	if c.Proactive != nil {
		fields[proactiveField] = c.Proactive
	}
	return json.Marshal(fields)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *IntegrationConfig) UnmarshalJSON(b []byte) error {
	type plain IntegrationConfig // without this method
	fields := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(b, &fields), json.Unmarshal(b, (*plain)(c))); err != nil {
		return err
	}
	delete(fields, notesField)
	delete(fields, proactiveField)
	if len(fields) > 0 {
		c.Desks = fields
	}
	return nil
}

// The names in IntegrationConfig that no desk can have.
const (
	notesField     = "notes"
	proactiveField = "proactive"
)

// Notes is how activity is written into conversations.
type Notes struct {
	DebounceMS       *int `json:"debounce_ms,omitempty"`
	BinSeconds       *int `json:"bin_seconds,omitempty"`
	SummaryThreshold *int `json:"summary_threshold,omitempty"`
	PreLinkWindowS   *int `json:"pre_link_window_s,omitempty"`
}

// Key opens a product to requests that carry it as bearer token.
type Key struct {
	Key        string         `json:"key" secret:"true"`
	ExternalID string         `json:"external_id"` // the product
	Scopes     []access.Scope `json:"scopes"`      // nil for all
}

// LoadFile reads a product file. ${NAME} inside a string is taken from
// lookupEnv, which is [os.LookupEnv] in most programs. What can be configured is
// what the Desks and Triggers of the options are, which may be nil. Warnings are
// about what is probably a mistake. The error, if any, joins everything that is
// wrong. Both name the file and the field.
func LoadFile(path string, lookupEnv func(string) (string, bool), opts *Options) (file File, warnings []string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return File{}, nil, fmt.Errorf("product file: %w", err)
	}
	d := decoder{whole: "the file", getenv: lookupEnv}
	d.decode(data, &file)
	var errs []error
	for _, problem := range append(d.wrong, d.wrong.news(file.validate(newExtensions(opts)))...) {
		errs = append(errs, fmt.Errorf("%s: %s", path, problem))
	}
	for _, warning := range append(d.warnings, file.warnings()...) {
		warnings = append(warnings, path+": "+warning)
	}
	return file, warnings, errors.Join(errs...)
}

// warnings returns what is valid but cannot be meant.
func (f File) warnings() []string {
	var p problems
	for i, product := range f.Products {
		if product.WebhookSecret == "" && len(product.CaptureTokens) == 0 {
			p.add("products[%d]: without webhook_secret and capture_tokens nothing can be reported to %q", i, product.ProductID)
		}
	}
	return p
}

// validate returns everything that is wrong with the file beyond its form.
func (f File) validate(with extensions) []string {
	var p problems
	known := map[string]bool{}
	tokens := map[string]bool{}
	for i, product := range f.Products {
		at := fmt.Sprintf("products[%d]", i)
		for _, problem := range product.validate(with) {
			p.add("%s.%s", at, problem)
		}
		for j, token := range product.CaptureTokens {
			if tokens[token] {
				p.add("%s.capture_tokens[%d]: this token is a duplicate", at, j)
			}
			tokens[token] = true
		}
		if known[product.ProductID] {
			p.add("%s.product_id: %q is a duplicate", at, product.ProductID)
		}
		known[product.ProductID] = true
	}
	keys := map[string]bool{}
	for i, key := range f.Keys {
		at := fmt.Sprintf("keys[%d]", i)
		p.key(at, key)
		if keys[key.Key] && key.Key != "" {
			p.add("%s.key: this key is a duplicate", at)
		}
		keys[key.Key] = true
		if !known[key.ExternalID] {
			p.add("%s.external_id: unknown product %q", at, key.ExternalID)
		}
	}
	return p
}

// validate returns everything that is wrong with the product by itself.
func (product Product) validate(with extensions) []string {
	var p problems
	if !productIDs.MatchString(product.ProductID) {
		p.add("product_id: must be 1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit")
	}
	p.secret("webhook_secret", product.WebhookSecret)
	for i, token := range product.CaptureTokens {
		p.secret(fmt.Sprintf("capture_tokens[%d]", i), cmp.Or(token, " "))
	}
	for i, allowed := range product.AllowedOrigins {
		if !origin.IsPattern(allowed) {
			p.add("allowed_origins[%d]: must be an origin such as https://app.example.com or https://*.example.com, or null", i)
		}
	}
	const at = "integration_config"
	p = append(p, product.IntegrationConfig.validate(at, with.triggers)...)
	_, problems := with.desks.open(product.IntegrationConfig.Desks, at, nil)
	return append(p, problems...)
}

func (p *problems) key(at string, key Key) {
	if key.Key == "" {
		p.add("%s.key: is missing", at)
	}
	p.secret(at+".key", key.Key)
	if key.Scopes != nil && len(key.Scopes) == 0 {
		p.add("%s.scopes: must not be empty; leave it out for all scopes", at)
	}
	for i, scope := range key.Scopes {
		if _, ok := access.ParseScope(string(scope)); !ok {
			p.add("%s.scopes[%d]: %q is not a scope; use mcp or stream", at, i, scope)
		}
	}
}

// secret adds what is wrong with a secret, which may be missing.
func (p *problems) secret(at, secret string) {
	switch trimmed := strings.TrimSpace(secret); {
	case secret != "" && trimmed == "":
		p.add("%s: must not be empty", at)
	case trimmed != secret:
		p.add("%s: must not start or end with white space", at)
	}
}

// validate returns everything that is wrong with the configuration at a path but
// for the desks.
func (c IntegrationConfig) validate(at string, triggers []proactive.Trigger) []string {
	var p problems
	if n := c.Notes; n != nil {
		p.within(at+".notes.debounce_ms", n.DebounceMS, 0, maxSeconds*1000)
		p.within(at+".notes.bin_seconds", n.BinSeconds, 1, maxSeconds)
		p.within(at+".notes.summary_threshold", n.SummaryThreshold, 1, maxThreshold)
		p.within(at+".notes.pre_link_window_s", n.PreLinkWindowS, 0, maxSeconds)
	}
	if c.Proactive != nil {
		p.config(at+"."+proactiveField, c.Proactive.Validate(triggers...))
	}
	return p
}

// problems is everything that is wrong with a file, each starting with the
// field and a colon.
type problems []string

// news returns those of more that concern fields which p has nothing on, neither
// on the field, nor around it, nor inside of it.
func (p problems) news(more []string) (news []string) {
	for _, problem := range more {
		field, _, _ := strings.Cut(problem, ":")
		if !slices.ContainsFunc(p, func(known string) bool {
			known, _, _ = strings.Cut(known, ":")
			return field == known || strings.HasPrefix(field, known+".") || strings.HasPrefix(field, known+"[") || strings.HasPrefix(known, field+".") || strings.HasPrefix(known, field+"[")
		}) {
			news = append(news, problem)
		}
	}
	return news
}

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// Bounds of what is given as a number: a day, and far more actions than a
// summary is good for.
const (
	maxSeconds   = 24 * 60 * 60
	maxThreshold = 10_000
)

func (p *problems) within(at string, n *int, least, most int) {
	if n != nil && (*n < least || *n > most) {
		p.add("%s: must be from %d to %d", at, least, most)
	}
}

// productIDs are what can be a product's id: one path segment.
var productIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

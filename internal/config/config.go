// Package config reads the product file: which products there are, their
// secrets and integrations, and the keys that open them.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/activity/access"
)

// File is a product file. Fields tagged secret must not be empty when given.
type File struct {
	Products []Product `json:"products"`
	Keys     []Key     `json:"keys"`
}

// Product is one product.
type Product struct {
	ProductID         string            `json:"product_id"`
	WebhookSecret     string            `json:"webhook_secret" secret:"true"`
	CaptureTokens     []string          `json:"capture_tokens" secret:"true"`
	AllowedOrigins    []string          `json:"allowed_origins"`
	IntegrationConfig IntegrationConfig `json:"integration_config"`
}

// IntegrationConfig is what a product has beside its activity. It is checked
// and kept; the help desks and the proactive engine read it.
type IntegrationConfig struct {
	Zendesk   *Zendesk   `json:"zendesk,omitempty"`
	Intercom  *Intercom  `json:"intercom,omitempty"`
	Notes     *Notes     `json:"notes,omitempty"`
	Proactive *Proactive `json:"proactive,omitempty"`
}

// Zendesk is a Zendesk account.
type Zendesk struct {
	BaseURL           string  `json:"base_url"`
	Email             string  `json:"email"`
	APIToken          string  `json:"api_token" secret:"true"`
	OAuthToken        string  `json:"oauth_token" secret:"true"`
	OAuthClientID     string  `json:"oauth_client_id"`
	OAuthClientSecret string  `json:"oauth_client_secret" secret:"true"`
	SigningSecret     Strings `json:"signing_secret" secret:"true"`
}

// Intercom is an Intercom workspace.
type Intercom struct {
	BaseURL      string `json:"base_url"`
	AccessToken  string `json:"access_token" secret:"true"`
	AdminID      string `json:"admin_id"`
	ClientSecret string `json:"client_secret" secret:"true"`
}

// Notes is how activity is written into conversations.
type Notes struct {
	DebounceMS       *int `json:"debounce_ms,omitempty"`
	BinSeconds       *int `json:"bin_seconds,omitempty"`
	SummaryThreshold *int `json:"summary_threshold,omitempty"`
	PreLinkWindowS   *int `json:"pre_link_window_s,omitempty"`
}

// Proactive is when and how quick replies are offered.
type Proactive struct {
	Enabled             bool     `json:"enabled"`
	Body                string   `json:"body"`
	ReplyOptionLabels   []string `json:"reply_option_labels"`
	InteractionTimeoutS *int     `json:"interaction_timeout_s,omitempty"`
	CooldownS           *int     `json:"cooldown_s,omitempty"`
}

// Key is one key.
type Key struct {
	Key        string   `json:"key" secret:"true"`
	ExternalID string   `json:"external_id"`
	Scopes     []string `json:"scopes"`
}

// Strings is one string or an array of them.
type Strings []string

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Strings) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*s = make([]string, 1)
		return json.Unmarshal(b, &(*s)[0])
	}
	return json.Unmarshal(b, (*[]string)(s))
}

// Load reads a product file. ${NAME} inside a string is taken from getenv.
// The error, if any, joins everything that is wrong, each with the file and
// the field.
func Load(path string, getenv func(string) (string, bool)) (File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("product file: %w", err)
	}
	file, problems := parse(data, getenv)
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = fmt.Errorf("%s: %s", path, p)
	}
	return file, errors.Join(errs...)
}

// parse reads a product file and returns everything that is wrong with it.
func parse(data []byte, getenv func(string) (string, bool)) (File, []string) {
	var file File
	wrong := problems(Decode(data, getenv, "the file", &file))
	return file, append(wrong, wrong.news(file.Validate())...)
}

// Validate returns everything that is wrong with the file beyond its form.
func (f File) Validate() []string {
	var p problems
	known := map[string]bool{}
	tokens := map[string]bool{}
	for i, product := range f.Products {
		at := fmt.Sprintf("products[%d]", i)
		for _, problem := range product.Validate() {
			p.add("%s.%s", at, problem)
		}
		for j, token := range product.CaptureTokens {
			if tokens[token] {
				p.add("%s.capture_tokens[%d]: this token is there twice", at, j)
			}
			tokens[token] = true
		}
		if known[product.ProductID] {
			p.add("%s.product_id: %q is there twice", at, product.ProductID)
		}
		known[product.ProductID] = true
	}
	keys := map[string]bool{}
	for i, key := range f.Keys {
		at := fmt.Sprintf("keys[%d]", i)
		p.key(at, key)
		if keys[key.Key] && key.Key != "" {
			p.add("%s.key: this key is there twice", at)
		}
		keys[key.Key] = true
		if !known[key.ExternalID] {
			p.add("%s.external_id: there is no product %q", at, key.ExternalID)
		}
	}
	return p
}

// Validate returns everything that is wrong with the product by itself.
func (product Product) Validate() []string {
	var p problems
	if !productID.MatchString(product.ProductID) {
		p.add("product_id: must be 1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit")
	}
	for i, origin := range product.AllowedOrigins {
		if !ValidOrigin(origin) {
			p.add("allowed_origins[%d]: must be an origin such as https://app.example.com", i)
		}
	}
	return append(p, product.IntegrationConfig.validate("integration_config")...)
}

func (p *problems) key(at string, key Key) {
	switch {
	case key.Key == "":
		p.add("%s.key: is missing", at)
	case strings.TrimSpace(key.Key) != key.Key:
		p.add("%s.key: must not start or end with white space", at)
	}
	if key.Scopes != nil && len(key.Scopes) == 0 {
		p.add("%s.scopes: must not be empty; leave it out for all scopes", at)
	}
	for i, scope := range key.Scopes {
		if _, ok := access.ParseScope(scope); !ok {
			p.add("%s.scopes[%d]: %q is no scope; there are mcp and stream", at, i, scope)
		}
	}
}

// validate returns everything that is wrong with the configuration at a path.
func (c IntegrationConfig) validate(at string) []string {
	var p problems
	if z := c.Zendesk; z != nil && !validBaseURL(z.BaseURL) {
		p.add("%s.zendesk.base_url: must be a URL such as https://acme.zendesk.com", at)
	}
	if i := c.Intercom; i != nil && i.BaseURL != "" && !validBaseURL(i.BaseURL) {
		p.add("%s.intercom.base_url: must be a URL such as https://api.intercom.io", at)
	}
	if n := c.Notes; n != nil {
		p.notNegative(at+".notes.debounce_ms", n.DebounceMS)
		p.positive(at+".notes.bin_seconds", n.BinSeconds)
		p.positive(at+".notes.summary_threshold", n.SummaryThreshold)
		p.notNegative(at+".notes.pre_link_window_s", n.PreLinkWindowS)
	}
	if c.Proactive != nil {
		p.notNegative(at+".proactive.interaction_timeout_s", c.Proactive.InteractionTimeoutS)
		p.notNegative(at+".proactive.cooldown_s", c.Proactive.CooldownS)
		if len(c.Proactive.ReplyOptionLabels) > 3 {
			p.add("%s.proactive.reply_option_labels: at most 3 labels", at)
		}
	}
	return p
}

// problems is everything that is wrong with a file, each starting with the
// field and a colon.
type problems []string

// news returns those of more that concern fields which p has nothing on, and
// which are not inside of one that it has something on.
func (p problems) news(more []string) (news []string) {
	for _, problem := range more {
		field, _, _ := strings.Cut(problem, ":")
		if !slices.ContainsFunc(p, func(known string) bool {
			known, _, _ = strings.Cut(known, ":")
			return field == known || strings.HasPrefix(field, known+".") || strings.HasPrefix(field, known+"[")
		}) {
			news = append(news, problem)
		}
	}
	return news
}

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func (p *problems) notNegative(at string, n *int) {
	if n != nil && *n < 0 {
		p.add("%s: must not be negative", at)
	}
}

func (p *problems) positive(at string, n *int) {
	if n != nil && *n <= 0 {
		p.add("%s: must be above zero", at)
	}
}

// productID is what can be a product's id: one path segment.
var productID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func validBaseURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// ValidOrigin reports whether s is an origin as browsers send it.
func ValidOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && validBaseURL(s) && u.Path == "" && s == strings.ToLower(s) && !strings.Contains(s, "*")
}

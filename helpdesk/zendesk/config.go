package zendesk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Name is the desk's name in integration_config, metrics and logs.
const Name = "zendesk"

// Kind makes products' desks from their integration_config.
var Kind = helpdesk.Kind{Name: Name, Open: helpdesk.OpenWith(New)}

// Config describes a Zendesk account. Its credentials are an API token with its user's
// email address, an OAuth token, or an OAuth client that gets tokens as needed. If several
// are set, OAuth takes precedence, and the client replaces a refused token. Without any,
// webhooks can be read but nothing can be written.
type Config struct {
	BaseURL string `json:"base_url"` // https://acme.zendesk.com

	Email             string `json:"email"`
	APIToken          string `json:"api_token" secret:"true"` // refused by Zendesk from 2027-05 on
	OAuthToken        string `json:"oauth_token" secret:"true"`
	OAuthClientID     string `json:"oauth_client_id"`
	OAuthClientSecret string `json:"oauth_client_secret" secret:"true"`

	// SigningSecret holds the webhooks' secrets, one of which must match.
	// Without any, every request that looks like Zendesk's is accepted.
	SigningSecret Secrets `json:"signing_secret" secret:"true"`
	// SignatureToleranceS is the maximum number of seconds by which a signature's
	// time may be before or after this clock; zero means DefaultTolerance.
	SignatureToleranceS int `json:"signature_tolerance_s,omitempty"`

	// Redact lets the service redact raw notes once a summary has replaced
	// them. The user needs the right to redact, which many accounts do not
	// have; redacted text is lost for good.
	Redact bool `json:"redact,omitempty"`
}

// isMute reports whether there are no credentials.
func (c Config) isMute() bool { return c.APIToken == "" && c.OAuthToken == "" && c.OAuthClientID == "" }

// Secrets is a string or an array of strings in JSON.
type Secrets []string

// UnmarshalJSON implements [json.Unmarshaler]. An empty string becomes one empty secret, which
// Validate refuses.
func (s *Secrets) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*s = make([]string, 1)
		return json.Unmarshal(b, &(*s)[0])
	}
	return json.Unmarshal(b, (*[]string)(s))
}

const maxTolerance = 24 * time.Hour

// Validate returns all mistakes in the configuration, each a
// [*helpdesk.ConfigError].
func (c Config) Validate() error {
	var m mistakes
	if _, problem := helpdesk.CheckBaseURL(c.BaseURL); problem != "" {
		m.add("base_url", strings.Replace(problem, "https://api.example.com", "https://acme.zendesk.com", 1))
	}
	m.pair("email", c.Email, "api_token", c.APIToken)
	m.pair("oauth_client_id", c.OAuthClientID, "oauth_client_secret", c.OAuthClientSecret)
	if strings.ContainsAny(c.Email, ": \t\r\n") {
		m.add("email", "must be an email address")
	}
	isBlank := func(s string) bool { return strings.TrimSpace(s) == "" }
	if c.SigningSecret != nil && (len(c.SigningSecret) == 0 || slices.ContainsFunc(c.SigningSecret, isBlank)) {
		m.add("signing_secret", "must not be empty")
	} else if slices.ContainsFunc(c.SigningSecret, func(s string) bool { return strings.TrimSpace(s) != s }) {
		m.add("signing_secret", "must not start or end with white space")
	}
	if c.SignatureToleranceS < 0 || c.SignatureToleranceS > int(maxTolerance.Seconds()) {
		m.add("signature_tolerance_s", fmt.Sprintf("must be from 0 to %d", int(maxTolerance.Seconds())))
	}
	return errors.Join(m...)
}

// mistakes collects the mistakes in a configuration.
type mistakes []error

func (m *mistakes) add(field, problem string) {
	*m = append(*m, &helpdesk.ConfigError{Field: field, Problem: problem})
}

// pair adds a mistake if only one of two fields that need each other is set.
func (m *mistakes) pair(a, valueOfA, b, valueOfB string) {
	switch {
	case valueOfA != "" && valueOfB == "":
		m.add(b, "must not be missing beside "+a)
	case valueOfA == "" && valueOfB != "":
		m.add(a, "must not be missing beside "+b)
	}
}

// New returns the client of an account. It connects to nothing. Its error joins
// all mistakes, each a [*helpdesk.ConfigError].
func New(config Config, opts *helpdesk.Options) (*Client, error) {
	opts = cmp.Or(opts, &helpdesk.Options{})
	if err := config.Validate(); err != nil {
		return nil, err
	}
	baseURL, _ := helpdesk.CheckBaseURL(config.BaseURL)
	paced, _ := lru.New[string, time.Time](maxPaced) // it fails for a size below one only
	c := &Client{config: config, paced: paced, turn: semaphore.NewWeighted(1), token: config.OAuthToken}
	c.config.SigningSecret = slices.Clone(config.SigningSecret)
	c.tokens = &helpdesk.API{Desk: Name, BaseURL: baseURL, HTTP: opts.HTTP, Explain: c.explain}
	c.api = &helpdesk.API{Desk: Name, BaseURL: baseURL, HTTP: opts.HTTP, Explain: c.explain, Limits: c.limits,
		Authorize: c.authorize, Refused: c.refused}
	return c, nil
}

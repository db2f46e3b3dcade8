package zendesk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Name is the desk's name in integration_config, metrics and logs.
const Name = "zendesk"

// Kind makes products' desks from their integration_config.
var Kind = helpdesk.Kind{Name: Name, Open: helpdesk.OpenWith(New)}

// Config is a Zendesk account. Its credentials are an API token with the email of
// its user, an OAuth token, or an OAuth client whose tokens are made as they are
// needed. With several of these OAuth comes first, and the client replaces a token that is
// refused. Without any, webhooks can be read and nothing can be written.
type Config struct {
	BaseURL string `json:"base_url"` // https://acme.zendesk.com

	Email             string `json:"email"`
	APIToken          string `json:"api_token" secret:"true"` // refused by Zendesk from 2027-05 on
	OAuthToken        string `json:"oauth_token" secret:"true"`
	OAuthClientID     string `json:"oauth_client_id"`
	OAuthClientSecret string `json:"oauth_client_secret" secret:"true"`

	// SigningSecret are the secrets of the webhooks, of which one must match.
	// Without any, every request is taken for Zendesk's.
	SigningSecret Secrets `json:"signing_secret" secret:"true"`
	// SignatureToleranceS is how many seconds a signature may be old, or ahead of
	// this clock; DefaultTolerance where zero.
	SignatureToleranceS int `json:"signature_tolerance_s,omitempty"`

	// Redact lets the service take raw notes away when a summary has replaced
	// them. The user needs the right to redact, which many accounts do not
	// have; redacted text is gone for good.
	Redact bool `json:"redact,omitempty"`
}

// Secrets is one string or an array of them.
type Secrets []string

// UnmarshalJSON implements [json.Unmarshaler]. An empty string is one empty secret, which Validate
// refuses.
func (s *Secrets) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*s = make([]string, 1)
		return json.Unmarshal(b, &(*s)[0])
	}
	return json.Unmarshal(b, (*[]string)(s))
}

// maxTolerance is a day.
const maxTolerance = 24 * time.Hour

// Validate returns everything that is wrong with the configuration, each mistake a
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

// tolerance returns how far a signature's time may be away.
func (c Config) tolerance() time.Duration { return time.Duration(c.SignatureToleranceS) * time.Second }

// mistakes collects the mistakes in a configuration.
type mistakes []error

// add adds the mistake in a field.
func (m *mistakes) add(field, problem string) {
	*m = append(*m, &helpdesk.ConfigError{Field: field, Problem: problem})
}

// pair adds a mistake for two fields of which one is of no use without the other.
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
//
// With opts.Retries, a write whose answer was lost is looked for before it is
// repeated.
func New(config Config, opts *helpdesk.Options) (*Client, error) {
	opts = cmp.Or(opts, &helpdesk.Options{})
	if err := config.Validate(); err != nil {
		return nil, err
	}
	baseURL, _ := helpdesk.CheckBaseURL(config.BaseURL)
	paced, err := lru.New[string, time.Time](maxPaced)
	if err != nil {
		return nil, err
	}
	c := &Client{
		api:       &helpdesk.API{Desk: Name, BaseURL: baseURL, HTTP: opts.HTTP, Retries: opts.Retries},
		secrets:   slices.Clone(config.SigningSecret),
		tolerance: config.tolerance(),
		paced:     paced,
		redacts:   config.Redact,
		isMute:    config.APIToken == "" && config.OAuthToken == "" && config.OAuthClientID == "",
	}
	c.credentials = newCredentials(config, &helpdesk.API{Desk: Name, BaseURL: baseURL, HTTP: opts.HTTP,
		Retries: opts.Retries, Explain: c.explain})
	c.api.Authorize, c.api.Refused, c.api.Explain = c.authorize, c.credentials.refused, c.explain
	c.api.Limits = func(r helpdesk.Request, header http.Header) []helpdesk.Limit {
		limits := readLimits(header)
		c.limited(r.ConversationID, limits.ticketPause())
		return limits.account
	}
	return c, nil
}

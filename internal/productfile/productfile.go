// Package productfile defines the configuration of products with their keys and
// integrations. It reads product files and validates them.
package productfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/flat"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/strictjson"
	"github.com/liveactivity/liveactivity/proactive"
)

// File is a product file. Fields tagged secret must not be empty if present, nor
// have white space around them.
type File struct {
	Products []Product `json:"products"`
	Keys     []Key     `json:"keys"`
}

// Product is an app whose users' activity is kept separate from all other products.
// Without a secret and tokens, nothing can be reported to it over HTTP.
type Product struct {
	ProductID         string            `json:"product_id"`                   // one path segment
	WebhookSecret     string            `json:"webhook_secret" secret:"true"` // sent with PostHog's webhook
	CaptureTokens     []string          `json:"capture_tokens" secret:"true"` // of PostHog's SDKs; public
	AllowedOrigins    []string          `json:"allowed_origins"`              // of pages that may report; all if none
	LinkHosts         []string          `json:"link_hosts,omitempty"`         // more hosts to which replies may link
	Identity          Identity          `json:"identity,omitzero"`
	RespectGPC        bool              `json:"respect_gpc,omitempty"` // ignore SDK requests with Sec-GPC: 1
	Agent             Agent             `json:"agent,omitzero"`
	Events            intake.Rules      `json:"events,omitempty"` // custom events that become actions, by name
	Sources           []flat.Config     `json:"sources,omitempty"`
	IntegrationConfig IntegrationConfig `json:"integration_config"`
}

// Identity configures the trust in users' identities.
type Identity struct {
	Secrets    []string   `json:"secrets,omitempty" secret:"true"` // sign user IDs and email addresses; any may match
	Unverified Unverified `json:"unverified,omitempty"`            // empty for UnverifiedNotes
}

// Agent configures the AI agents that read a product's contexts.
type Agent struct {
	Prompt string `json:"prompt,omitempty"` // precedes the text that they receive
}

// Advice returns a sentence if the product cannot tell which identities to trust with
// public replies, or "".
func (identity Identity) Advice() string {
	if len(identity.Secrets) > 0 || identity.Unverified != "" && identity.Unverified != UnverifiedNotes {
		return ""
	}
	return "public replies are made only from signed and reported identities: sign them with identity.secrets, " +
		`or set identity.unverified to "replies"`
}

// LinkAdvice returns a sentence if the product's pages can link sessions to its
// desks' conversations without being able to prove whose sessions they are, or "".
func (p Product) LinkAdvice() string {
	if len(p.Identity.Secrets) > 0 || len(p.AllowedOrigins) == 0 || len(p.IntegrationConfig.Desks) == 0 {
		return ""
	}
	return "links by /sessions/link lead to notes alone, which are written last: sign the users with identity.secrets"
}

// Unverified is the permitted use of a claimed identity.
type Unverified string

// The uses of a claimed identity, each including those before it.
const (
	UnverifiedNone    Unverified = "none"    // ignored: the session stays anonymous
	UnverifiedNotes   Unverified = "notes"   // notes, reads, the stream and offers
	UnverifiedReplies Unverified = "replies" // also public replies and the text that a model reads
)

// IntegrationConfig connects a product's activity with its help desks: how notes are
// written into their conversations, and when quick replies are offered. In JSON each desk
// is a field with its name, next to the other fields.
type IntegrationConfig struct {
	Notes     *Notes            `json:"notes,omitempty"`
	Proactive *proactive.Config `json:"proactive,omitempty"`
	// Desks maps the name of each helpdesk.Kind to the desk's configuration, in the form
	// that the kind expects.
	Desks map[string]json.RawMessage `json:"-" others:"true"`
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

// UnmarshalJSON implements [json.Unmarshaler]. It treats any other field as a desk;
// [Extensions] checks whether that desk exists.
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

// The names in IntegrationConfig that no desk can have, and the beginning of its fields' paths.
const (
	configPath     = "integration_config."
	notesField     = "notes"
	proactiveField = "proactive"
)

// Notes configures how activity is written into conversations. A nil field means its
// default, see [connector.DefaultNotes]; zero is a valid value.
type Notes struct {
	DebounceMS       *int `json:"debounce_ms,omitempty"`
	IntervalS        *int `json:"interval_s,omitempty"`
	BinSeconds       *int `json:"bin_seconds,omitempty"`
	SummaryThreshold *int `json:"summary_threshold,omitempty"`
	PreLinkWindowS   *int `json:"pre_link_window_s,omitempty"`
}

// Key gives access to a product to requests that carry it as a bearer token.
type Key struct {
	Key        string         `json:"key" secret:"true"`
	ExternalID string         `json:"external_id"` // the product
	Scopes     []access.Scope `json:"scopes"`      // nil for all
	Name       string         `json:"name"`        // the reader's name, for the audit log; may be empty
}

// Load reads a product file and replaces ${NAME} in its strings with the values from lookupEnv.
// Warnings describe probable mistakes. The error joins all mistakes. Both name the file and the
// field. After an error, file contains the valid parts; if the file cannot be read, the error
// wraps an *[os.PathError].
func Load(path string, lookupEnv func(string) (string, bool), with Extensions) (
	file File, warnings []string, err error,
) {
	data, err := os.ReadFile(path)
	if err != nil {
		return File{}, nil, fmt.Errorf("product file: %w", err)
	}
	d := strictjson.Decoder{Whole: "the file", Getenv: lookupEnv}
	d.Decode(data, &file)
	var errs []error
	for _, problem := range append(d.Wrong, d.Wrong.News(file.Validate(with))...) {
		errs = append(errs, fmt.Errorf("%s: %s", path, problem))
	}
	for _, warning := range append(d.Warnings, file.warnings()...) {
		warnings = append(warnings, path+": "+warning)
	}
	return file, warnings, errors.Join(errs...)
}

// DecodeBody decodes the JSON body of an endpoint that configures a product. It does not
// expand ${NAME}, because a request must not read the server's environment. It returns all
// mistakes in the form; Validate checks the rules.
func DecodeBody(data []byte, into any) []string {
	d := strictjson.Decoder{Whole: "the body"}
	d.Decode(data, into)
	return d.Wrong
}

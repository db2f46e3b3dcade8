package intercom

import (
	"cmp"
	"strings"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Config describes an Intercom workspace as one app sees it. Every field may be
// empty.
type Config struct {
	// BaseURL is the API's address in the workspace's region: DefaultBaseURL,
	// https://api.eu.intercom.io or https://api.au.intercom.io.
	BaseURL string `json:"base_url"`
	// AccessToken is the app's access token. Without it nothing can be written.
	AccessToken string `json:"access_token" secret:"true"`
	// AdminID is the ID of the teammate in whose name notes are written. It
	// defaults to the access token's owner.
	AdminID string `json:"admin_id"`
	// ClientSecret is the app's client secret, which signs webhooks. Without it
	// all webhooks are refused.
	ClientSecret string `json:"client_secret" secret:"true"`
}

// warnings returns the consequences of omitted fields.
func (c Config) warnings() []string {
	switch {
	case c.AccessToken == "" && c.ClientSecret == "":
		return []string{"without access_token and client_secret nothing is written to Intercom, and its webhooks are refused"}
	case c.AccessToken == "":
		return []string{"without access_token nothing is written to Intercom"}
	case c.ClientSecret == "":
		return []string{"without client_secret the webhooks of Intercom are refused"}
	}
	return nil
}

// DefaultBaseURL is the API's address for workspaces in the US.
const DefaultBaseURL = "https://api.intercom.io"

// Name is the desk's name in integration_config, metrics and logs.
const Name = "intercom"

// Kind makes products' desks from their integration_config.
var Kind = helpdesk.Kind{Name: Name, Open: helpdesk.OpenWith(New)}

// Validate returns all mistakes in the configuration, each a
// [*helpdesk.ConfigError].
func (c Config) Validate() error {
	if _, problem := helpdesk.CheckBaseURL(c.baseURL()); problem != "" {
		return &helpdesk.ConfigError{Field: "base_url",
			Problem: strings.Replace(problem, "https://api.example.com", DefaultBaseURL, 1)}
	}
	return nil
}

func (c Config) baseURL() string { return cmp.Or(c.BaseURL, DefaultBaseURL) }

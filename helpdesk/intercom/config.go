package intercom

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Config is an Intercom workspace, as seen by one app. Each field may be empty.
type Config struct {
	// BaseURL is the API's address in the workspace's region: DefaultBaseURL,
	// https://api.eu.intercom.io or https://api.au.intercom.io.
	BaseURL string `json:"base_url"`
	// AccessToken is the app's. Without it nothing can be written.
	AccessToken string `json:"access_token" secret:"true"`
	// AdminID is the id of the teammate who writes, by default the one whom
	// the access token belongs to.
	AdminID string `json:"admin_id"`
	// ClientSecret is the app's. Webhooks are signed with it; without it all of
	// them are refused.
	ClientSecret string `json:"client_secret" secret:"true"`
}

// DefaultBaseURL is the API's address for workspaces in the US.
const DefaultBaseURL = "https://api.intercom.io"

const name = "intercom" // of the desk

// Kind makes Intercom desks from their configuration, see [Config].
var Kind = helpdesk.Kind{
	Name: name,
	Open: func(config json.RawMessage, opts *helpdesk.Options) (helpdesk.Desk, error) {
		var c Config
		if err := helpdesk.DecodeConfig(config, &c); err != nil {
			return nil, err
		}
		client, err := New(c, opts)
		if err != nil {
			return nil, err
		}
		return client, nil
	},
}

// checked returns the configuration with its defaults, or all mistakes joined,
// each a *helpdesk.ConfigError.
func (c Config) checked() (Config, error) {
	var mistakes []error
	wrong := func(field, problem string) {
		if problem != "" {
			mistakes = append(mistakes, &helpdesk.ConfigError{Field: field, Problem: problem})
		}
	}
	baseURL, problem := helpdesk.CheckBaseURL(cmp.Or(c.BaseURL, DefaultBaseURL))
	c.BaseURL = baseURL
	wrong("base_url", strings.Replace(problem, "https://api.example.com", DefaultBaseURL, 1))
	for _, f := range []struct{ field, value string }{{"access_token", c.AccessToken}, {"admin_id", c.AdminID}, {"client_secret", c.ClientSecret}} {
		if strings.TrimSpace(f.value) != f.value {
			wrong(f.field, "must not start or end with white space")
		}
	}
	return c, errors.Join(mistakes...)
}

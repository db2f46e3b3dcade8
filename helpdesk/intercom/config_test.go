package intercom_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/internal/options"
)

func TestKind_reportsEveryMistakeByItsField(t *testing.T) {
	for config, fields := range map[string][]string{
		`{}`:                    nil,
		`{"access_token": "t"}`: nil,
		`{"base_url": "https://api.eu.intercom.io/", "access_token": "t", "admin_id": "123", "client_secret": "s"}`: nil,
		`{"base_url": "http://127.0.0.1:8123"}`:         nil,
		`{"base_url": "api.intercom.io"}`:               {"base_url"},
		`{"base_url": "http://api.intercom.io"}`:        {"base_url"},
		`{"base_url": "https://u:p@api.intercom.io"}`:   {"base_url"},
		`{"admin_id": 123}`:                             {"admin_id"},
		`{"token": "t"}`:                                {"token"},
		`[]`:                                            {""},
		`{"access_token": "t ", "client_secret": "\n"}`: {"access_token", "client_secret"},
		`{"access_token": "", "client_secret": ""}`:     {"access_token", "client_secret"},
		`{"base_url": "?", "admin_id": null}`:           {"admin_id", "base_url"},
	} {
		desk, err := intercom.Kind.Open([]byte(config), nil)
		assert.Equal(t, fields == nil, desk != nil, config)
		if fields == nil {
			require.NoError(t, err, config)
			continue
		}
		var got []string
		for _, err := range options.Split(err) {
			var mistake *helpdesk.ConfigError
			require.ErrorAs(t, err, &mistake)
			got = append(got, mistake.Field)
		}
		assert.Equal(t, fields, got, config)
	}
}

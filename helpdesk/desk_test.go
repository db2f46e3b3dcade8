package helpdesk_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
)

type config struct {
	Token   string   `json:"token"`
	Account int      `json:"account,omitempty"`
	Secrets []string `json:"secrets"`
	hidden  string
	Skipped string `json:"-"`

	Key  string   `json:"key" secret:"true"`
	Keys []string `json:"keys" secret:"true"`

	Form json.RawMessage `json:"form"` // the desk decodes it itself
}

func TestDecodeConfig_readsEveryField(t *testing.T) {
	var c config
	require.NoError(t, helpdesk.DecodeConfig(json.RawMessage(`{"token":"t","account":7,"secrets":["a","b"],`+
		`"form":{"a":" "}}`), &c))
	assert.Equal(t, config{Token: "t", Account: 7, Secrets: []string{"a", "b"}, Form: json.RawMessage(`{"a":" "}`)}, c)
	require.NoError(t, helpdesk.DecodeConfig(json.RawMessage(`{}`), &c))
	assert.Empty(t, c.hidden)
}

// strict is a configuration that checks itself.
type strict struct {
	Token   string `json:"token"`
	Account int    `json:"account"`
}

func (c *strict) Validate() error {
	var wrong []error
	if c.Token == "" {
		wrong = append(wrong, &helpdesk.ConfigError{Field: "token", Problem: "must be given"})
	}
	if c.Account == 0 {
		wrong = append(wrong, &helpdesk.ConfigError{Field: "account", Problem: "must be given"})
	}
	if c.Account == 13 {
		return errors.New("not that one")
	}
	return errors.Join(wrong...)
}

func TestDecodeConfig_joinsTheMistakesThatValidateFinds(t *testing.T) {
	for config, want := range map[string]string{
		`{"token":"t","account":1}`: "",
		`{"token":"t"}`:             "account: must be given",
		`{"tokn":"t"}`: "tokn: is not a known field; did you mean \"token\"?\ntoken: must be given\naccount: " +
			"must be given",
		`{"token":7}`:                "token: must be a string\naccount: must be given",
		`{"token":"t","account":13}`: "not that one",
		`[]`:                         "must be an object",
	} {
		err := helpdesk.DecodeConfig(json.RawMessage(config), new(strict))
		if want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, want)
	}
}

func TestDecodeConfig_reportsEveryMistakeByFieldWithoutItsValue(t *testing.T) {
	for given, want := range map[string]string{
		`["s3cr3t"]`:         "must be an object",
		`{"token":`:          "line 1, column 10: not valid JSON: it ends too soon",
		`{"tokn":"s3cr3t"}`:  `tokn: is not a known field; did you mean "token"?`,
		`{"Token":"s3cr3t"}`: `Token: is not a known field; did you mean "token"?`,
		`{"hidden":"s3cr3t","Skipped":"s3cr3t","":1,"-":1}`: "hidden: is not a known field\n" +
			"Skipped: is not a known field\nis not a known field\n-: is not a known field",
		`{"token":false,"account":"s3cr3t","secrets":null,"x":1}`: "token: must be a string\n" +
			"account: must be an integer\nsecrets: must be an array\nx: is not a known field",
		`{"token":"a","token":"b"}`: "token: is a duplicate",
		`{"token":"","secrets":[],"key":"","keys":["a",""]}`: "key: must not be empty\n" +
			"keys[1]: must not be empty",
		`{"token":" t","key":"k\n"}`: "key: must not start or end with white space",
		`{"token":3133731337}`:       "token: must be a string",
		`{"account":1e99}`:           "account: must be an integer",
		`{"secrets":[["s3cr3t"]]}`:   "secrets[0]: must be a string",
	} {
		t.Run(given, func(t *testing.T) {
			err := helpdesk.DecodeConfig(json.RawMessage(given), new(config))
			require.EqualError(t, err, want)
			assert.ErrorAs(t, err, new(*helpdesk.ConfigError))
		})
	}
}

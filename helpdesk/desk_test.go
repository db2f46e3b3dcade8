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
	for name, tt := range map[string]struct {
		config string
		want   []helpdesk.ConfigError
	}{
		"not an object": {`["s3cr3t"]`, []helpdesk.ConfigError{{Problem: "must be an object"}}},
		"not JSON": {`{"token":`, []helpdesk.ConfigError{{Field: "line 1, column 10",
			Problem: "not valid JSON: it ends too soon"}}},
		"unknown": {`{"tokn":"s3cr3t"}`, []helpdesk.ConfigError{{Field: "tokn",
			Problem: `is not a known field; did you mean "token"?`}}},
		"other letters": {`{"Token":"s3cr3t"}`,
			[]helpdesk.ConfigError{{Field: "Token", Problem: `is not a known field; did you mean "token"?`}}},
		"no field of JSON's": {`{"hidden":"s3cr3t","Skipped":"s3cr3t","":1,"-":1}`,
			[]helpdesk.ConfigError{{Field: "hidden", Problem: "is not a known field"},
				{Field: "Skipped", Problem: "is not a known field"}, {Problem: "is not a known field"},
				{Field: "-", Problem: "is not a known field"}}},
		"several": {`{"token":false,"account":"s3cr3t","secrets":null,"x":1}`, []helpdesk.ConfigError{
			{Field: "token", Problem: "must be a string"}, {Field: "account", Problem: "must be an integer"},
			{Field: "secrets", Problem: "must be an array"}, {Field: "x", Problem: "is not a known field"}}},
		"twice": {`{"token":"a","token":"b"}`, []helpdesk.ConfigError{{Field: "token", Problem: "is a duplicate"}}},
		"empty": {`{"token":"","secrets":[],"key":"","keys":["a",""]}`, []helpdesk.ConfigError{
			{Field: "key", Problem: "must not be empty"}, {Field: "keys[1]", Problem: "must not be empty"}}},
		"white space": {`{"token":" t","key":"k\n"}`, []helpdesk.ConfigError{
			{Field: "key", Problem: "must not start or end with white space"}}},
		"a number": {`{"token":3133731337}`, []helpdesk.ConfigError{{Field: "token",
			Problem: "must be a string"}}},
		"a large number": {`{"account":1e99}`, []helpdesk.ConfigError{{Field: "account",
			Problem: "must be an integer"}}},
		"inside an array": {`{"secrets":[["s3cr3t"]]}`,
			[]helpdesk.ConfigError{{Field: "secrets[0]", Problem: "must be a string"}}},
	} {
		t.Run(name, func(t *testing.T) {
			err := helpdesk.DecodeConfig(json.RawMessage(tt.config), new(config))
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "s3cr3t")
			assert.NotContains(t, err.Error(), "31337")
			var got []helpdesk.ConfigError
			all := []error{err}
			if joined, ok := err.(interface{ Unwrap() []error }); ok {
				all = joined.Unwrap()
			}
			for _, err := range all {
				var mistake *helpdesk.ConfigError
				require.True(t, errors.As(err, &mistake))
				got = append(got, *mistake)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

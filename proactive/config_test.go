package proactive_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/proactive/proactivetest"
)

// parse returns a configuration as it is in a product file.
func parse(t testing.TB, config string) *proactive.Config {
	t.Helper()
	var c proactive.Config
	require.NoError(t, helpdesk.DecodeConfig(json.RawMessage(config), &c))
	return &c
}

func TestConfig_reportsEveryMistake(t *testing.T) {
	err := parse(t, `{
		"enabled": true, "body": "<b>Hi</b>", "reply_option_labels": ["Yes", " yES ", "", "a\tb"],
		"interaction_timeout_s": 0, "cooldown_s": -1, "assistance_idle_s": 86401, "idle_teardown": "Keep",
		"triggers": [{"id": "telepathy"}, {"page": "pricing"},
			{"id": "dead_end", "body": "a\u202eb", "reply_option_labels": ["<"]}, {"id": "dead_end"}]
	}`).Validate(proactive.Predicate("mine", nil), nil)
	var fields, problems []string
	for _, mistake := range err.(interface{ Unwrap() []error }).Unwrap() {
		var c *helpdesk.ConfigError
		require.ErrorAs(t, mistake, &c)
		fields, problems = append(fields, c.Field), append(problems, c.Error())
	}
	assert.Equal(t, []string{
		"interaction_timeout_s: must be from 1 to 86400",
		"cooldown_s: must be from 0 to 86400",
		"assistance_idle_s: must be from 1 to 86400",
		`idle_teardown: must be "keep", or left out`,
		"body: must be text: < and > are not shown",
		"reply_option_labels: must be at most 3",
		"reply_option_labels[1]: is a duplicate",
		"reply_option_labels[2]: must not be empty",
		"reply_option_labels[3]: must not have control characters",
		`triggers[0].id: "telepathy" is not a trigger; use one of back_on_pricing, canonical_url_ping_pong, dead_click, ` +
			`dead_end, error_seen, mine, rage_clicks, repeated_submits, user_page_dwell`,
		"triggers[1].id: is missing",
		"triggers[1].page: must be a path such as /pricing or a URL, of at most 2048 bytes",
		"triggers[2].body: must not have control characters",
		"triggers[2].reply_option_labels[0]: must be text: < and > are not shown",
		`triggers[3].id: "dead_end" is a duplicate`,
	}, problems)
	assert.Len(t, slices.Compact(fields), len(fields))
}

func TestConfig_boundsEveryField(t *testing.T) {
	long := func(n int) string { return strings.Repeat("é", n) }
	for config, field := range map[string]string{
		`{}`: "", `{"cooldown_s": 0, "interaction_timeout_s": 1, "assistance_idle_s": 1}`: "",
		`{"cooldown_s": 86400, "interaction_timeout_s": 86400, "assistance_idle_s": 86400, "idle_teardown": "keep"}`: "",
		`{"interaction_timeout_s": 86401}`: "interaction_timeout_s", `{"cooldown_s": 86401}`: "cooldown_s",
		`{"assistance_idle_s": 0}`:                      "assistance_idle_s",
		`{"body": "Two\nlines"}`:                        "",
		`{"body": "\ud83d\udc69\u200d\ud83d\udc67"}`:    "",
		`{"body": "` + long(1000) + `"}`:                "",
		`{"body": "` + long(1001) + `"}`:                "body",
		`{"body": "\u0000"}`:                            "body",
		`{"reply_option_labels": []}`:                   "",
		`{"reply_option_labels": ["a\nb"]}`:             "reply_option_labels[0]",
		`{"reply_option_labels": ["\u2066"]}`:           "reply_option_labels[0]",
		`{"reply_option_labels": ["` + long(80) + `"]}`: "",
		`{"reply_option_labels": ["` + long(81) + `"]}`: "reply_option_labels[0]",
		`{"triggers": []}`:                              "triggers",
		`{"triggers": [` + strings.Repeat(`{"id":"dead_end"},`, 20) + `{"id":"dead_end"}]}`: "triggers",
		`{"triggers": [{"id": "back_on_pricing", "page": "https://a.example/plans"}]}`:      "",
		`{"triggers": [{"id": "back_on_pricing", "page": "/` + long(1024) + `"}]}`:          "triggers[0].page",
	} {
		err := parse(t, config).Validate()
		var mistake *helpdesk.ConfigError
		if field == "" {
			require.NoError(t, err, config)
			continue
		}
		require.ErrorAs(t, err, &mistake, config)
		assert.Equal(t, field, mistake.Field, config)
	}
}

func TestConfig_selectRefusesMistakes(t *testing.T) {
	_, err := parse(t, `{"triggers": [{"id": "x"}]}`).Select()
	require.Error(t, err)
	_, err = parse(t, `{"triggers": [{"id": "dead_end"}]}`).Select(nil)
	require.Error(t, err)
}

func TestConfig_asksPingPongAfterCustomTriggersByDefault(t *testing.T) {
	custom := proactive.Predicate("mine", func(c proactive.TriggerContext) bool {
		return proactive.Under(c.Page(), "/help")
	})
	proactivetest.RunConfig(t, `t+0s /a; t+1s /b; t+2s /a → offer canonical_url_ping_pong`, nil, custom)
	proactivetest.RunConfig(t, `t+0s /help → offer mine`, parse(t, `{}`), custom)
	third := proactive.Predicate("third", func(c proactive.TriggerContext) bool { return c.ActionCount == 3 })
	proactivetest.RunConfig(t, `t+0s /a; t+1s /b; t+2s /a → offer third`, parse(t, `{}`), third)
	proactivetest.RunConfig(t, `t+0s /a; t+1s /b; t+2s /a → no offer; t+3s /b; t+4s /a → offer canonical_url_ping_pong`,
		parse(t, `{}`), proactive.PingPong{MinCycles: 2})
	proactivetest.RunConfig(t, `t+0s /help → no offer; t+1s /b; t+2s /help → offer canonical_url_ping_pong
		t+3s finishes → refused
		t+4s click "a"; t+4s click "a"; t+4s click "a"
		t+70s submit "a"; t+70s submit "a"; t+70s submit "a"; t+200s → no offer`, parse(t, `{}`))
}

func TestConfig_listsTriggersInOrder(t *testing.T) {
	config := parse(t, `{"body": "Help?", "reply_option_labels": ["Yes"], "triggers": [
		{"id": "mine", "page": "/docs", "reply_option_labels": []},
		{"id": "rage_clicks", "body": "Stuck?", "reply_option_labels": ["Oh yes"]},
		{"id": "user_page_dwell", "page": "/pricing"},
		{"id": "back_on_pricing", "page": "/plans"}]}`)
	stored, err := json.Marshal(config)
	require.NoError(t, err)
	require.Equal(t, config, parse(t, string(stored)), "as a registered product has it after a restart")
	mine := proactive.Predicate("mine", func(proactive.TriggerContext) bool { return true })
	proactivetest.RunConfig(t, `t+0s /docs → offer mine`, config, mine)
	proactivetest.RunConfig(t, `t+0s /a; t+1s click "x"; t+1s click "x"; t+1s click "x" → offer rage_clicks "Oh yes"; `+
		`t+5s says "OH YES" → guide "Oh yes"`, config, mine)
	proactivetest.RunConfig(t, `t+0s /a; t+60s /pricing; t+120s → offer user_page_dwell "Yes"`, config, mine)
	proactivetest.RunConfig(t, `t+0s /plans; t+1s /b; t+2s /plans → offer back_on_pricing`, config, mine)
	proactivetest.RunConfig(t, `t+0s /a; t+1s /b; t+2s /a → no offer no_match; t+70s → no offer`, config, mine)
}

func TestConfig_takesThePageAsItStandsInTheAddressBar(t *testing.T) {
	mine := proactive.Predicate("mine", func(proactive.TriggerContext) bool { return true })
	for _, page := range []string{"https://APP.example.com/orders/1234?tab=items", "/orders/1234", "/orders/"} {
		config := parse(t, fmt.Sprintf(`{"triggers": [{"id": "mine", "page": %q}]}`, page))
		proactivetest.RunConfig(t, `t+0s https://app.example.com/plans → no offer; t+1s `+
			`https://app.example.com/orders/5678 → offer mine`, config, mine)
	}
}

func TestConfig_setsTimes(t *testing.T) {
	config := parse(t, `{"interaction_timeout_s": 60, "cooldown_s": 0, "assistance_idle_s": 20, "idle_teardown": "keep"}`)
	proactivetest.RunConfig(t, `
		t+0s  /a; t+1s /b; t+2s /a → offer canonical_url_ping_pong
		t+61s → state proactive
		t+62s → state thinking
		t+63s /b; t+64s /a → no offer no_match; t+65s /b → offer canonical_url_ping_pong
		t+66s says "?" → state reactive
		t+86s /a; t+87s /b → state thinking; t+88s /a → offer canonical_url_ping_pong`, config)
}

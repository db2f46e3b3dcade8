package productfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/proactive"
)

// secret marks every secret of these tests: no error may hold it.
const secret = "s3cr3t"

// environment returns a getenv of name, value pairs.
func environment(pairs ...string) func(string) (string, bool) {
	vars := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		vars[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

// productFile writes a product file and returns its path.
func productFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "products.json")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// oneProduct returns a product file of one product with more fields.
func oneProduct(fields string) string {
	return `{"products": [{"product_id": "acme", ` + fields + `}]}`
}

// integration returns a product file of one product with an integration.
func integration(fields string) string {
	return oneProduct(`"integration_config": {` + fields + `}`)
}

// key returns a product file of one product and one key with more fields.
func key(fields string) string {
	return `{"products": [{"product_id": "acme"}], "keys": [{` + fields + `}]}`
}

// fieldsOf returns the fields in an error of Load. Every line must name the file, the field and its fault.
func fieldsOf(t *testing.T, err error, path string) []string {
	t.Helper()
	require.Error(t, err)
	var fields []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		rest, ok := strings.CutPrefix(line, path+": ")
		require.True(t, ok, "the line %q does not name the file", line)
		field, problem, _ := strings.Cut(rest, ": ")
		assert.NotEmpty(t, problem, "the line %q does not say what is wrong", line)
		fields = append(fields, field)
	}
	return fields
}

// requireFields loads files of the texts, by the fields below at of which the error must complain; "" for no error.
func requireFields(t *testing.T, at string, file func(text string) string, tests map[string][]string) {
	t.Helper()
	for want, texts := range tests {
		for _, text := range texts {
			path := productFile(t, file(text))
			_, _, err := Load(path, environment("NEWLINE", secret+"\n", "EMPTY", ""), NewExtensions(nil, nil))
			if want == "" {
				require.NoError(t, err, text)
				continue
			}
			var fields []string
			for field := range strings.SplitSeq(want, ", ") {
				fields = append(fields, at+field)
			}
			assert.ElementsMatch(t, fields, fieldsOf(t, err, path), text)
			assert.NotContains(t, err.Error(), secret)
		}
	}
}

func TestLoad_readsEveryField(t *testing.T) {
	file, _, err := Load("testdata/acme.json",
		environment("ACME_WEBHOOK_SECRET", `quote " and \ and ${ACME_KEY}`, "ACME_ENV", "live", "ACME_KEY", "lak_env"),
		NewExtensions(nil, nil))
	require.NoError(t, err)
	number := func(n int) *int { return &n }
	assert.Equal(t, File{
		Products: []Product{{
			ProductID:      "acme",
			WebhookSecret:  `quote " and \ and ${ACME_KEY}`, // a value is not interpreted
			CaptureTokens:  []string{"phc_acme", "phc_live_acme"},
			AllowedOrigins: []string{"https://*.acme.example", "http://localhost:3000", "null", "capacitor://localhost"},
			LinkHosts:      []string{"help.acme.example", "*.acme.test"},
			Identity:       Identity{Secrets: []string{"id-1", "id-live"}, Unverified: UnverifiedNone},
			IntegrationConfig: IntegrationConfig{
				Desks: map[string]json.RawMessage{
					"zendesk": json.RawMessage(`{"api_token":"zd-api","base_url":"https://acme.zendesk.com",` +
						`"email":"bot@acme.example",` +
						`"oauth_client_id":"zd-client","oauth_client_secret":"zd-client-secret","oauth_token":"zd-oauth",` +
						`"signing_secret":["zd-sign-1","zd-sign-2"]}`),
					"intercom": json.RawMessage(`{"access_token":"ic-access","admin_id":"123","base_url":"https://api.intercom.io",` +
						`"client_secret":"ic-client"}`),
				},
				Notes: &Notes{DebounceMS: number(3000), BinSeconds: number(3), SummaryThreshold: number(20),
					PreLinkWindowS: number(120)},
				Proactive: &proactive.Config{Enabled: true, Body: "Need a hand?", ReplyOptionLabels: []string{"Yes, show me"},
					InteractionTimeoutS: number(10), CooldownS: number(30), AssistanceIdleS: number(300),
					IdleTeardown: proactive.KeepOnIdle},
			},
		}},
		Keys: []Key{{Key: "lak_env", ExternalID: "acme", Scopes: []access.Scope{access.MCP, access.Stream}},
			{Key: "lak_both", ExternalID: "acme"}},
	}, file)

	var stored Product // as a registration keeps it
	value, err := json.Marshal(file.Products[0])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(value, &stored))
	assert.Equal(t, file.Products[0], stored)
}

func TestLoad_readsEvents(t *testing.T) {
	rules := func(events string) string { return oneProduct(`"events": ` + events) }
	requireFields(t, "products[0].", rules, map[string][]string{
		"": {`{}`, `{"Invoice Sent": {"properties": ["plan"], "sentence": "sent an invoice"}, "Checkout *": {},
			"$exception": {}}`},
		"events":                 {`[]`},
		"events.a":               {`{"a": null}`, `{"a": {}, "a": {}}`},
		"events.a*b":             {`{"a*b": {}}`},
		"events.a.colour":        {`{"a": {"colour": 1}}`},
		"events.a.properties":    {`{"a": {"properties": "b"}}`},
		"events.a.properties[0]": {`{"a": {"properties": [1]}}`, `{"a": {"properties": [" "]}}`},
		"events.a.sentence":      {`{"a": {"sentence": 1}}`, `{"a": {"sentence": " b"}}`},
	})
}

func TestLoad_readsSources(t *testing.T) {
	const good = `"name": "a", "kind": "flat", "fields": {"event": "e", "user_id": "u.id"}`
	requireFields(t, "products[0].sources", func(sources string) string {
		return oneProduct(`"sources": [{` + sources + `}]`)
	}, map[string][]string{
		"":                {good},
		"[1].name":        {good + `}, {` + good},
		"[0].actions.x":   {good + `, "actions": {"x": "scrolled"}`},
		"[0].fields.user": {`"name": "a", "kind": "flat", "fields": {"event": "e", "user": "u"}`},
	})
}

// A desk gets its configuration unchanged, except for the variables in its strings, at any depth.
func TestLoad_replacesVariablesInTheConfigurationOfDesks(t *testing.T) {
	var given json.RawMessage
	desk := helpdesk.Kind{Name: "desk", Open: func(config json.RawMessage, _ *helpdesk.Options) (helpdesk.Desk, error) {
		given = config
		return struct{ helpdesk.Desk }{}, nil
	}}
	path := productFile(t, integration(`"desk": {"n": 1e3, "on": true, "a": ["x${A}", ["${A}"], {"b": "${QUOTE}"}], `+
		`"c": {"d": {"e": "$A"}}}`))
	_, warnings, err := Load(path, environment("A", "1", "QUOTE", `"\n`), NewExtensions([]helpdesk.Kind{desk}, nil))
	require.NoError(t, err)
	assert.JSONEq(t, `{"n": 1e3, "on": true, "a": ["x1", ["1"], {"b": "\"\\n"}], "c": {"d": {"e": "$A"}}}`, string(given))
	require.Len(t, warnings, 2)
	assert.Contains(t, warnings[0], "products[0].integration_config.desk.c.d.e: ")
}

// A desk reports the mistakes that it knows. An error of another kind could hold a secret.
func TestLoad_reportsTheMistakesOfADesk(t *testing.T) {
	const at = "products[0].integration_config.desk"
	for name, tt := range map[string]struct {
		err  error
		want []string
	}{
		"one":       {&helpdesk.ConfigError{Field: "a", Problem: "is odd"}, []string{at + ".a"}},
		"the whole": {&helpdesk.ConfigError{Problem: "is odd"}, []string{at}},
		"several": {errors.Join(&helpdesk.ConfigError{Field: "a", Problem: "is odd"},
			errors.Join(&helpdesk.ConfigError{Field: "b", Problem: "is odd"})), []string{at + ".a", at + ".b"}},
		"wrapped":       {fmt.Errorf("desk: %w", &helpdesk.ConfigError{Field: "a", Problem: "is odd"}), []string{at + ".a"}},
		"no desk":       {nil, []string{at}},
		"anything else": {errors.New("bad token " + secret), []string{at}},
		"among mistakes": {errors.Join(errors.New(secret), &helpdesk.ConfigError{Field: "a", Problem: "is odd"}),
			[]string{at, at + ".a"}},
	} {
		t.Run(name, func(t *testing.T) {
			desk := helpdesk.Kind{Name: "desk", Open: func(_ json.RawMessage, o *helpdesk.Options) (helpdesk.Desk, error) {
				assert.Zero(t, *o, "the options are there")
				return nil, tt.err
			}}
			path := productFile(t, integration(`"desk": {}`))
			_, _, err := Load(path, environment(), NewExtensions([]helpdesk.Kind{desk}, nil))
			assert.Equal(t, tt.want, fieldsOf(t, err, path))
			assert.NotContains(t, err.Error(), secret)
		})
	}
}

// A wrong form of a field is reported before the desk's mistakes, because it explains them.
func TestLoad_reportsTheFormOfADesksFieldsFirst(t *testing.T) {
	desk := helpdesk.Kind{Name: "desk", Open: func(json.RawMessage, *helpdesk.Options) (helpdesk.Desk, error) {
		return nil, errors.Join(&helpdesk.ConfigError{Problem: "is odd"},
			&helpdesk.ConfigError{Field: "c", Problem: "is odd"})
	}}
	path := productFile(t, integration(`"desk": {"a": [], "b": {"x": ["", " `+secret+`"]}}`))
	_, _, err := Load(path, environment(), NewExtensions([]helpdesk.Kind{desk}, nil))
	const at = "products[0].integration_config.desk"
	assert.Equal(t, []string{at + ".a", at + ".b.x[0]", at + ".b.x[1]", at + ".c"}, fieldsOf(t, err, path))
	assert.NotContains(t, err.Error(), secret)
}

func TestLoad_listsTheDesksThereAre(t *testing.T) {
	path := productFile(t, integration(`"freshdesk": {}`))
	_, _, err := Load(path, environment(), NewExtensions(nil, nil))
	require.ErrorContains(t, err, "products[0].integration_config.freshdesk: is not a known field; there are intercom, "+
		"notes, proactive, zendesk")
	_, _, err = Load(path, environment(), NewExtensions([]helpdesk.Kind{}, nil))
	require.ErrorContains(t, err, "freshdesk: is not a known field; there are notes, proactive")

	_, _, err = Load(productFile(t, oneProduct(`"webhok_secret": "x"`)), environment(), NewExtensions(nil, nil))
	require.ErrorContains(t, err, `webhok_secret: is not a known field; did you mean "webhook_secret"?`)
}

// The error names all wrong fields of a file, and no secret.
func TestLoad_namesFileAndField(t *testing.T) {
	requireFields(t, "", func(content string) string { return content }, map[string][]string{
		"":                       {`{"products": [], "keys": []}`, " \n\t{ } \n", "\ufeff{}"},
		"the file":               {`[]`, `null`},
		"product":                {`{"product": []}`},
		"Products":               {`{"Products": []}`},
		"products":               {`{"products": [], "products": []}`, `{"products": {}}`},
		"products[0]":            {`{"products": ["acme"]}`},
		"products[0].product_id": {`{"products": [{"product_id": 7}]}`, `{"products": [{}]}`},
		"products[2].product_id": {`{"products": [{"product_id": "acme"}, {"product_id": "b"}, {"product_id": "acme"}]}`},
		"products[1].capture_tokens[0]": {`{"products": [{"product_id": "a", "capture_tokens": ["` + secret + `"]},
			{"product_id": "b", "capture_tokens": ["` + secret + `"]}]}`},
		// Pages publish the token.
		"products[0].webhook_secret, products[1].identity.secrets[1], keys[0].key": {`{"products": [
			{"product_id": "a", "webhook_secret": "` + secret + `"},
			{"product_id": "b", "capture_tokens": ["` + secret + `"], "identity": {"secrets": ["x", "` + secret + `"]}}],
			"keys": [{"key": "` + secret + `", "external_id": "a"}]}`},
		// Mistakes of the contents, of the form, and of both.
		"products[0].product_id, products[1].allowed_origins[0], keys[0].key, keys[0].external_id, keys[0].scopes[0], " +
			"keys[0].scopes[1]": {`{"products": [{"product_id": "a/b"}, {"product_id": "b", "allowed_origins": ["*"]}],
				"keys": [{"external_id": "c", "scopes": ["x", "y"]}]}`},
		"x, products[0].product_id, products[0].webhook_secret, products[0].y, keys[0].key, keys[0].external_id": {
			`{"x": 1, "products": [{"product_id": 1, "webhook_secret": "", "y": 2}],
				"keys": [{"key": "${NOT_SET}", "external_id": "${NOT_SET}"}]}`},
		"x, products[1].product_id, products[1].webhook_secret, keys[0].external_id, keys[0].scopes[0]": {
			`{"x": 1, "products": [{"product_id": "acme"}, {"product_id": "acme", "webhook_secret": ""}],
				"keys": [{"key": "` + secret + `", "external_id": "acne", "scopes": ["x"]}]}`},
	})
}

func TestLoad_namesTheFieldOfAProduct(t *testing.T) {
	requireFields(t, "products[0].", oneProduct, map[string][]string{
		"webhook_secret": {`"webhook_secret": ""`, `"webhook_secret": "${EMPTY}"`, `"webhook_secret": "${NOT_SET}"`,
			`"webhook_secret": null`, `"webhook_secret": " ` + secret + `"`, `"webhook_secret": "${NEWLINE}"`},
		"identity.secrets[0]": {`"identity": {"secrets": ["` + secret + ` "]}`},
		"identity.secrets[1]": {`"identity": {"secrets": ["a", ""]}`},
		"identity.unverified": {`"identity": {"unverified": "` + secret + `"}`},
		"capture_tokens[0]":   {`"capture_tokens": [["` + secret + `"]]`},
		"capture_tokens[1]": {`"capture_tokens": ["phc_a", ""]`, `"capture_tokens": ["a", "${NOT_SET}"]`,
			`"capture_tokens": ["` + secret + `", "` + secret + `"]`,
			`"capture_tokens": ["` + strings.Repeat("a", 256) + `", "` + strings.Repeat("b", 257) + `"]`},
		"link_hosts[1], link_hosts[2], link_hosts[3], link_hosts[4], link_hosts[5]": {
			`"link_hosts": ["a.example", "https://a.example", "a.example/x", "a.example:1", "", "*"]`},
		"integration_config": {`"integration_config": []`},
	})
}

func TestLoad_namesTheFieldOfAnIntegration(t *testing.T) {
	const zendesk = `"zendesk": {"base_url": "https://a.b", "oauth_token": "x", `
	requireFields(t, "products[0].integration_config.", integration, map[string][]string{
		"": {``, `"intercom": {"access_token": "x"}`, // at its default address
			`"zendesk": {"base_url": "http://127.0.0.1:9000/zendesk", "oauth_token": "x"}`,
			`"notes": {"debounce_ms": 0, "pre_link_window_s": 0}`,
			`"proactive": {"interaction_timeout_s": 1, "cooldown_s": 0, "reply_option_labels": ["a", "b", "c"]}`},
		"freshdesk":     {`"freshdesk": {}`},
		"zendesk":       {`"zendesk": "https://acme.zendesk.com"`},
		"zendesk.email": {zendesk + `"email": {}}`},
		"zendesk.x" + strings.Repeat("[0]", 8): { // nested too deep
			zendesk + `"x": ` + strings.Repeat("[", 9) + `1` + strings.Repeat("]", 9) + `}`},
		"intercom.access_token":                    {`"intercom": {"access_token": null}`},
		"intercom.access_token, intercom.admin_id": {`"intercom": {"access_token": "${NOT_SET}", "admin_id": " 1"}`},
		"notes.debounce_ms": {`"notes": {"debounce_ms": "3000"}`, `"notes": {"debounce_ms": 0.5}`,
			`"notes": {"debounce_ms": -1}`, `"notes": {"debounce_ms": 86400001}`},
		"notes.bin_seconds":       {`"notes": {"bin_seconds": 0}`, `"notes": {"bin_seconds": 86401}`},
		"notes.summary_threshold": {`"notes": {"summary_threshold": 0}`, `"notes": {"summary_threshold": 10001}`},
		"notes.pre_link_window_s": {`"notes": {"pre_link_window_s": -1}`, `"notes": {"pre_link_window_s": 86401}`},
		"proactive.enabled":       {`"proactive": {"enabled": "true"}`},
		"proactive.reply_option_labels[1], proactive.reply_option_labels[2]": {
			`"proactive": {"reply_option_labels": ["Yes", " ", "yes "]}`},
	})
}

func TestLoad_namesTheFieldOfAKey(t *testing.T) {
	const good = `"key": "` + secret + `", "external_id": "acme"`
	requireFields(t, "", key, map[string][]string{
		"":                    {good + `, "scopes": ["stream"]`},
		"keys[0].key":         {`"key": "", "external_id": "acme"`, `"external_id": "acme"`},
		"keys[0].external_id": {`"key": "k", "external_id": "acne"`, `"key": "k", "external_id": "ACME"`},
		"keys[0].scopes":      {good + `, "scopes": []`},
		"keys[0].scopes[0]":   {good + `, "scopes": [""]`},
		"keys[0].scopes[1]":   {good + `, "scopes": ["mcp", "admin"]`},
		"keys[0].name":        {good + `, "name": " bot"`},
		"keys[1].key":         {good + `}, {` + good},
	})
}

func TestLoad_saysWhereAFileBreaks(t *testing.T) {
	path := productFile(t, "\ufeff{\n\"products\": \""+secret)
	_, _, err := Load(path, environment(), NewExtensions(nil, nil))
	require.EqualError(t, err, path+": line 2, column 20: not valid JSON: it ends too soon")
}

func TestLoad_namesTheVariableThatIsNotSet(t *testing.T) {
	path := productFile(t, oneProduct(`"webhook_secret": "${ACME_SECRET}"`))
	_, _, err := Load(path, environment("ACME", secret), NewExtensions(nil, nil))
	require.ErrorContains(t, err, "ACME_SECRET")
}

func TestLoad_warnsOfSuspiciousSettings(t *testing.T) {
	const complete = `"webhook_secret": "x", `
	for name, tt := range map[string]struct {
		content string
		want    []string
	}{
		"nothing to report with": {oneProduct(`"capture_tokens": []`), []string{"products[0]"}},
		"a webhook secret":       {oneProduct(`"webhook_secret": "x"`), nil},
		"a capture token":        {oneProduct(`"capture_tokens": ["x"]`), nil},
		"a token with a colon":   {oneProduct(`"capture_tokens": ["a", "b:c"]`), []string{"products[0].capture_tokens[1]"}},
		"a variable without braces": {oneProduct(`"webhook_secret": "$` + secret + `"`),
			[]string{"products[0].webhook_secret"}},
		"a dollar from the environment": {oneProduct(`"webhook_secret": "${DOLLAR}"`), nil},
		"triggers without their events": {oneProduct(complete + `"events": {"*": {}, "$dead_*": {}}, "integration_config":
			{"proactive": {"triggers": [{"id": "dead_click"}, {"id": "dead_end"}, {"id": "error_seen"}]}}`),
			[]string{"products[0].integration_config.proactive.triggers[2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := productFile(t, tt.content)
			file, warnings, err := Load(path, environment("DOLLAR", "$A"), NewExtensions(nil, nil))
			require.NoError(t, err)
			require.NotEmpty(t, file.Products)
			require.Len(t, warnings, len(tt.want))
			for i, field := range tt.want {
				assert.True(t, strings.HasPrefix(warnings[i], path+": "+field+": "), warnings[i])
				assert.NotContains(t, warnings[i], secret, "it may be a secret that holds a $")
			}
		})
	}
}

func TestLoad_namesAFileItCannotRead(t *testing.T) {
	dir := t.TempDir()
	for name, path := range map[string]string{"missing": filepath.Join(dir, "none.json"), "a folder": dir} {
		_, _, err := Load(path, environment(), NewExtensions(nil, nil))
		require.ErrorContains(t, err, path, name)
	}
}

func TestProduct_validatesItsID(t *testing.T) {
	for id, want := range map[string]bool{
		"acme": true, "A": true, "7": true, "acme-2.eu_west": true, strings.Repeat("a", 128): true,
		"": false, ".": false, "..": false, "-a": false, "_a": false, "a/b": false, "a b": false, "a\n": false, "ä": false,
		"a%2Fb":                  false,
		strings.Repeat("a", 129): false,
	} {
		assert.Equal(t, want, Product{ProductID: id}.Validate(Extensions{}) == nil, "%q", id)
	}
}

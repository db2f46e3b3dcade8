package main_test

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// printed returns the text behind a name on stdout.
func printed(t *testing.T, p *proctest.Process, name string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^ +` + name + `  +(\S.*)$`).FindStringSubmatch(p.Stdout.String())
	require.NotNil(t, match, "no %s in %s", name, &p.Stdout)
	return match[1]
}

func TestStart_withoutAnythingServesADemoProduct(t *testing.T) {
	t.Parallel()
	p := launch(t, []string{"LIVEACTIVITY_ADDR=127.0.0.1:0"})
	url := p.URL()
	waittest.Until(t, "it has started", func() bool { return strings.Contains(p.Stdout.String(), "curl ") })
	assert.Equal(t, 1, strings.Count(p.Stdout.String(), "listening on "))
	assert.True(t, strings.HasPrefix(p.Stdout.String(), "listening on http://127.0.0.1:"))
	for name, path := range map[string]string{"console": "/", "live activity": "/users/demo/{user_id}/live-activity",
		"event stream": "/stream/demo", "MCP server": "/mcp", "webhook": "/webhook/demo"} {
		assert.Equal(t, url+path, printed(t, p, name))
	}

	key, secret, token := printed(t, p, "key"), printed(t, p, "webhook secret"), printed(t, p, "capture token")
	assert.Equal(t, "posthog.init('"+token+"', {api_host: '"+url+"', capture_pageview: 'history_change'})",
		printed(t, p, "posthog-js"))
	event := pageview("u1", "https://app.example.com/a")
	for _, r := range [][]string{
		{http.MethodPost, printed(t, p, "webhook"), event, "X-PostHog-Secret: " + secret},
		{http.MethodPost, url + "/e/", `{"api_key":"` + token + `","batch":[` + event + `]}`},
		{http.MethodGet, strings.Replace(printed(t, p, "live activity"), "{user_id}", "ada", 1), "",
			"Authorization: Bearer " + key},
		{http.MethodHead, printed(t, p, "event stream"), "", "Authorization: Bearer " + key},
		{http.MethodPost, printed(t, p, "MCP server"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			"Authorization: Bearer " + key, "Content-Type: application/json"},
	} {
		status, body := proctest.Request(t, r[0], r[1], r[2], r[3:]...)
		assert.Equal(t, http.StatusOK, status, "%s: %s", r[1], body)
	}
	status, body := proctest.Request(t, http.MethodPost, url+"/oauth/register",
		`{"redirect_uris":["https://claude.ai/cb"]}`)
	assert.Equal(t, http.StatusBadRequest, status, "without a public URL clients do not sign in")
	assert.Contains(t, body, "a key of the product as bearer token, and has no sign-in: for that it needs a --public-url")
	status, _ = proctest.Request(t, http.MethodGet, url+"/admin/products", "", "X-Admin-Key: x")
	assert.Equal(t, http.StatusNotFound, status, "without an admin key there are no admin endpoints")

	p.Stop()
	memoryOnly := 0
	for line := range strings.SplitSeq(p.Stdout.String()+p.Stderr.String(), "\n") {
		if strings.Contains(line, "memory only") {
			memoryOnly++
		}
	}
	assert.Equal(t, 1, memoryOnly, "one start-up line says that nothing is kept")
	for _, s := range []string{key, secret, token} {
		assert.NotContains(t, p.Stderr.String(), s, "secrets are printed on stdout only")
	}
}

// Pasting the line records one action.
func TestStart_printsACurlLineThatWorksAsPasted(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]string{"one address": "127.0.0.1:0", "all addresses": ":0",
		"a name": "localhost:0"} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, nil, "--addr="+addr)
			p.URL()
			var line string
			waittest.Until(t, "it prints a curl line", func() bool {
				line = regexp.MustCompile(`(?m)^curl .*\n`).FindString(p.Stdout.String())
				return line != ""
			})
			cmd := exec.Command("bash", "-c", line)
			cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/local/bin", "NO_PROXY=*"}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			type action struct{ Type, Description string }
			var got struct{ Actions []action }
			require.NoError(t, json.Unmarshal(out, &got), "%s", out)
			assert.Equal(t, []action{{"pageview", "User landed on the dashboard page"}}, got.Actions)
		})
	}
}

func TestStart_withAProductFileMakesNoDemo(t *testing.T) {
	t.Parallel()
	p := launch(t, []string{"ACME_KEY=" + key}, anyPort, "--config="+productFile(t,
		`{"products": [{"product_id": "acme"}], "keys": [{"key": "${ACME_KEY}", "external_id": "acme"}]}`))
	url := p.URL()
	status, _ := proctest.Request(t, http.MethodGet, url+"/users/acme/ada/live-activity", "", "Authorization: Bearer "+key)
	assert.Equal(t, http.StatusOK, status)
	for _, request := range []string{"POST /webhook/demo", "GET /demo/", "GET /demo/config", "GET /demo/static/icon.svg"} {
		method, path, _ := strings.Cut(request, " ")
		status, _ = proctest.Request(t, method, url+path, "{}")
		assert.Equal(t, http.StatusNotFound, status, request)
	}
	p.Stop()
	assert.NotContains(t, p.Stdout.String(), "demo")
	assert.NotContains(t, p.Stdout.String(), "s3cr3t")
}

func TestStart_listsTheProducts(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, anyPort, "--config="+productFile(t, `{"products": [
		{"product_id": "acme", "webhook_secret": "x", "integration_config": {"intercom": {}}},
		{"product_id": "globex", "webhook_secret": "x"}], "keys": [{"key": "k", "external_id": "globex"}]}`))
	url := p.URL()
	const warning = "without access_token and client_secret nothing is written to Intercom"
	waittest.Until(t, "it warns of the desk", func() bool { return strings.Contains(p.Stderr.String(), warning) })
	p.Stop()
	_, said, _ := strings.Cut(p.Stdout.String(), "\n")
	assert.Equal(t, "product acme: intercom\nproduct globex: no desk\n"+
		"console at "+url+"/\nthe API is described at "+url+"/openapi.json\n", said)
	assert.Equal(t, 1, strings.Count(p.Stderr.String(), warning))
	assert.Regexp(t, `WARN.*without a key nobody can read the product's activity.* product_id=acme\n`, p.Stderr.String())
	assert.Equal(t, 1, strings.Count(p.Stderr.String(), "without a key"))
}

func TestStart_printsThePublicURL(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, anyPort, "--public-url=https://live.example.com/")
	assert.True(t, strings.HasPrefix(p.URL(), "http://127.0.0.1:"), "the bound address is printed all the same")
	waittest.Until(t, "it has started", func() bool { return strings.Contains(p.Stdout.String(), "curl ") })
	assert.Equal(t, "https://live.example.com/stream/demo", printed(t, p, "event stream"))
	assert.Equal(t, "https://live.example.com/mcp", printed(t, p, "MCP server"))
}

func TestStart_reportsThatThePortIsTaken(t *testing.T) {
	t.Parallel()
	command.CheckPortTaken(t, nil)
}

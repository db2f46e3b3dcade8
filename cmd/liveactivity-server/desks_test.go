package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/proctest"
)

// withZendesk returns a product file of acme with this Zendesk, and of globex
// without any desk.
func withZendesk(t *testing.T, config string) string {
	t.Helper()
	return productFile(t, `{"products": [
		{"product_id": "acme", "webhook_secret": "x", "allowed_origins": ["https://app.acme.example"],
			"integration_config": {"zendesk": `+config+`}},
		{"product_id": "globex", "webhook_secret": "x", "integration_config": {"proactive": {"enabled": true}}}]}`)
}

func zendeskConfig(desk *helpdesktest.Zendesk, signingSecret string) string {
	return `{"base_url": "` + desk.URL() + `", "email": "` + helpdesktest.ZendeskEmail + `", "api_token": "` +
		helpdesktest.ZendeskAPIToken + `"` + signingSecret + `}`
}

func TestCheck_reportsEveryPart(t *testing.T) {
	t.Parallel()
	desk := helpdesktest.NewZendesk(nil)
	t.Cleanup(desk.Close)
	p := ran(t, 0, "check", "--config="+withZendesk(t, zendeskConfig(desk, `, "signing_secret": "x"`)))
	assert.Equal(t, "product acme\n  zendesk\n    ok       The credentials work; they are an administrator's.\n"+
		"    ok       The user may set up webhooks and triggers.\n"+
		"  note     Without a signature, links by /sessions/link lead to notes alone, which are written last: sign the "+
		"users with identity.secrets.\n"+
		"product globex\n  ok       It has no help desk.\n"+
		"  note     Proactive is enabled, and none of the product's desks can show an offer; Intercom can.\n",
		p.Stdout.String())
	assert.Empty(t, p.Stderr.String())
	for _, r := range desk.Requests() {
		assert.Equal(t, "GET", r.Method, "nothing is changed")
	}
}

// With the public URL, check finds every missing step between a desk and the server.
func TestCheck_triesThePublicAddress(t *testing.T) {
	t.Parallel()
	desk := helpdesktest.NewZendesk(nil)
	t.Cleanup(desk.Close)
	check := func(path, url string, status int, product string) string {
		p := ran(t, status, "check", "--config="+path, "--product="+product, "--public-url="+url)
		assert.NotContains(t, p.Stdout.String()+p.Stderr.String(), helpdesktest.ZendeskAPIToken)
		return p.Stdout.String()
	}
	open := withZendesk(t, zendeskConfig(desk, ""))
	url := launch(t, nil, anyPort, "--config="+open).URL()
	said := check(open, url, 1, "acme")
	for _, want := range []string{
		"ok       A server is at " + url + ", and ready.",
		"ok       /webhook/acme is there, and refuses a request without a secret or signature.",
		"missing  /chatbot-webhook/acme takes requests without a signature.",
		`missing  The webhook "liveactivity context: acme" is missing: run liveactivity-server zendesk provision.`,
	} {
		assert.Contains(t, said, want)
	}
	assert.Zero(t, written(desk), "nothing is changed")

	secrets := secretsOf(t, provisioned(t, open, url))
	assert.Contains(t, check(open, url, 1, "acme"), "missing  signing_secret lacks the secret of a webhook")

	signed := withZendesk(t, zendeskConfig(desk, `, "signing_secret": `+secrets))
	again := launch(t, nil, anyPort, "--config="+signed).URL()
	assert.Contains(t, check(signed, again, 1, "acme"),
		`The webhook "liveactivity context: acme" leads to another address`)
	provisioned(t, signed, again)
	assert.NotContains(t, check(signed, again, 0, "acme"), "missing")
	assert.Contains(t, check(signed, again, 0, "globex"), "ok       /webhook/globex is there")

	other := productFile(t, `{"products": [{"product_id": "hooli", "webhook_secret": "x"}]}`)
	assert.Contains(t, check(other, again+"/", 1, "hooli"),
		"missing  /webhook/hooli is not there: the server does not serve this product")
	assert.Contains(t, check(other, "http://127.0.0.1:1", 1, "hooli"),
		"missing  No server that is ready is at http://127.0.0.1:1: nothing answers there.")
}

func TestCheck_namesTheIdentitiesThatGetReplies(t *testing.T) {
	t.Parallel()
	path := productFile(t, `{"products": [{"product_id": "a", "webhook_secret": "x"},
		{"product_id": "b", "webhook_secret": "x", "identity": {"secrets": ["y"]}}]}`)
	const says = "made only from signed and reported identities"
	p := ran(t, 0, "check", "--config="+path)
	assert.NotContains(t, p.Stdout.String(), says, "without a model there are no replies")
	p = ran(t, 0, "check", "--config="+path, "--llm-model=m")
	assert.Equal(t, 1, strings.Count(p.Stdout.String(), says))
	assert.Contains(t, p.Stdout.String(), "identity.unverified")
}

func TestCheck_failsWhereSomethingIsMissing(t *testing.T) {
	t.Parallel()
	desk := helpdesktest.NewZendesk(nil)
	t.Cleanup(desk.Close)
	for name, tt := range map[string]struct {
		config, says, ends string
		args               []string
	}{
		"a signing secret": {zendeskConfig(desk, ""), "    missing  Without signing_secret every webhook is accepted",
			"one thing is missing, see above", nil},
		"right credentials": {strings.Replace(zendeskConfig(desk, ""), helpdesktest.ZendeskAPIToken, apiToken, 1),
			"    missing  Zendesk refuses the credentials.", "missing, see above", nil},
		"an account": {`{"base_url": "http://127.0.0.1:1", "oauth_token": "` + apiToken + `"}`,
			"    missing  Zendesk cannot be reached at base_url.", "missing, see above", []string{"--product=acme"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := ran(t, 1, append([]string{"check", "--config=" + withZendesk(t, tt.config)}, tt.args...)...)
			assert.Contains(t, p.Stdout.String(), tt.says)
			assert.Contains(t, p.Stderr.String(), tt.ends)
			assert.NotContains(t, p.Stdout.String()+p.Stderr.String(), "s3cr3t")
			assert.Equal(t, tt.args == nil, strings.Contains(p.Stdout.String(), "globex"), "only the product that was named")
		})
	}
}

func TestDeskCommands_refuseWrongFlags(t *testing.T) {
	t.Parallel()
	path := withZendesk(t, `{"base_url": "https://acme.zendesk.com", "oauth_token": "x"}`)
	broken := withZendesk(t, `{"base_url": "acme.zendesk.com", "api_token": "`+apiToken+`"}`)
	for name, tt := range map[string]struct {
		args []string
		says []string
	}{
		"check without a file": {[]string{"check"}, []string{"--config: is missing"}},
		"check of nothing":     {[]string{"check", "--config=/none"}, []string{"/none"}},
		"check of a broken file": {[]string{"check", "--config=" + broken},
			[]string{".zendesk.base_url: ", ".zendesk.email: "}},
		"check of another product": {[]string{"check", "--config=" + path, "--product=acne"},
			[]string{"--product: the file has no product acne"}},
		"check of no address": {[]string{"check", "--config=" + path, "--public-url=live.example.com"},
			[]string{"--public-url: must be a URL"}},
		"an argument too many": {[]string{"check", "acme"}, []string{"acme"}},
		"provision without flags": {[]string{"zendesk", "provision"},
			[]string{"--config: ", "--product: ", "--public-url: "}},
		"provision of another": {[]string{"zendesk", "provision", "--config=" + path, "--product=acne",
			"--public-url=https://a.b"}, []string{"--product: the file has no product acne"}},
		"provision of no Zendesk": {[]string{"zendesk", "provision", "--config=" + path, "--product=globex",
			"--public-url=https://a.b"}, []string{"--product: the product globex has no zendesk"}},
		"provision at no URL": {[]string{"zendesk", "provision", "--config=" + path, "--product=acme",
			"--public-url=https://"}, []string{"--public-url: must be a URL"}},
		"test without flags": {[]string{"zendesk", "test"}, []string{"--config: ", "--product: "}},
		"test of no Intercom": {[]string{"intercom", "test", "--config=" + path, "--product=globex"},
			[]string{"--product: the product globex has no intercom"}},
		"a command that is not one": {[]string{"zendesk", "delete"}, []string{"zendesk"}},
	} {
		t.Run(name, func(t *testing.T) {
			words := proctest.Refused(t, launch(t, nil, tt.args...))
			for _, want := range tt.says {
				assert.Contains(t, words, want)
			}
			assert.NotContains(t, words, "s3cr3t")
		})
	}
}

// provisioned runs zendesk provision for acme at an address and returns its output.
func provisioned(t *testing.T, path, url string, flags ...string) string {
	t.Helper()
	p := ran(t, 0, append([]string{"zendesk", "provision", "--config=" + path, "--product=acme",
		"--public-url=" + url}, flags...)...)
	return p.Stdout.String()
}

// secretsOf returns the signing secrets that provision printed, as JSON.
func secretsOf(t *testing.T, printed string) string {
	t.Helper()
	_, line, ok := strings.Cut(printed, `"signing_secret": `)
	require.True(t, ok)
	line, _, _ = strings.Cut(line, "\n")
	return line
}

// written counts the requests of a desk that change something.
func written(desk *helpdesktest.Zendesk) (n int) {
	for _, r := range desk.Requests() {
		if r.Method != "GET" {
			n++
		}
	}
	return n
}

func TestProvision_setsUpAnAccountOnce(t *testing.T) {
	t.Parallel()
	desk := helpdesktest.NewZendesk(nil)
	t.Cleanup(desk.Close)
	path := withZendesk(t, zendeskConfig(desk, ""))
	provisioned := func(flags ...string) string { return provisioned(t, path, "https://live.example.com", flags...) }

	dry := provisioned("--dry-run")
	assert.Equal(t, 4, strings.Count(dry, ": would be created\n"))
	assert.NotContains(t, dry, "signing_secret")
	assert.Zero(t, written(desk))

	first := provisioned()
	assert.Equal(t, 4, strings.Count(first, ": created, id "))
	assert.Contains(t, first, `webhook "liveactivity context: acme": created`)
	assert.Contains(t, first, "Notify assignee of comment update")
	assert.Equal(t, 4, written(desk))

	again := provisioned()
	assert.Equal(t, 4, strings.Count(again, ": is there, id "))
	var list []string
	require.NoError(t, json.Unmarshal([]byte(secretsOf(t, again)), &list))
	assert.Len(t, list, 2)
	assert.Equal(t, 4, strings.Count(provisioned("--remove"), ": removed, id "))
	assert.Equal(t, "nothing to remove for the product acme\n", provisioned("--remove"))
}

func TestProvision_listsItsChangesBeforeAFailure(t *testing.T) {
	t.Parallel()
	desk := helpdesktest.NewZendesk(nil)
	t.Cleanup(desk.Close)
	desk.Fail(helpdesktest.Fault{Method: "POST", Path: "/api/v2/triggers", Status: 503})
	p := ran(t, 1, "zendesk", "provision", "--config="+withZendesk(t, zendeskConfig(desk, "")), "--product=acme",
		"--public-url=https://live.example.com")
	assert.Contains(t, p.Stdout.String(), `webhook "liveactivity context: acme": created`)
	assert.Contains(t, p.Stderr.String(), "create trigger: 503")
	assert.NotContains(t, p.Stderr.String(), helpdesktest.ZendeskAPIToken)
}

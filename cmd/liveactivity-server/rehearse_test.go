package main_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// rehearsed is a server with a fake desk, which reports to it at a public address.
type rehearsed struct {
	*testing.T
	desk      string // its name
	file, url string
	left      func() (conversations, users int)
	server    *helpdesktest.Server // the desk's
}

// withDesk returns a product file of acme with that desk.
func withDesk(t *testing.T, desk, config string) string {
	t.Helper()
	return productFile(t, fmt.Sprintf(`{
		"products": [{"product_id": "acme", "webhook_secret": %q, "integration_config": {%q: %s,
			"notes": {"debounce_ms": 50, "interval_s": 0}}}],
		"keys": [{"key": %q, "external_id": "acme"}]}`, webhookSecret, desk, config, key))
}

// publicAddress returns an address, and a function that makes it lead to a server.
func publicAddress(t *testing.T) (address string, leadTo func(server string)) {
	t.Helper()
	var proxy atomic.Pointer[httputil.ReverseProxy]
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(public.Close)
	return public.URL, func(server string) {
		target := musttest.New(url.Parse(server))
		proxy.Store(httputil.NewSingleHostReverseProxy(target))
	}
}

// withRehearsedZendesk starts a server whose Zendesk account was provisioned, unless secret replaces
// the signing secrets in the file: "" leaves the account as it is.
func withRehearsedZendesk(t *testing.T, provision bool, secret string) rehearsed {
	t.Helper()
	desk := helpdesktest.NewZendesk(nil)
	t.Cleanup(desk.Close)
	public, leadTo := publicAddress(t)
	if provision {
		printed := provisioned(t, withDesk(t, "zendesk", zendeskConfig(desk, "")), public)
		secret = cmp.Or(secret, secretsOf(t, printed))
	}
	file := withDesk(t, "zendesk", zendeskConfig(desk, `, "signing_secret": `+secret))
	server := launch(t, nil, anyPort, "--config="+file).URL()
	leadTo(server)
	return rehearsed{t, "zendesk", file, server, desk.Left, desk.Server}
}

// withRehearsedIntercom starts a server with an Intercom workspace.
func withRehearsedIntercom(t *testing.T, subscribed bool, secret string) rehearsed {
	t.Helper()
	desk := helpdesktest.NewIntercom(nil)
	t.Cleanup(desk.Close)
	config := strings.Replace(string(desk.Config()), helpdesktest.IntercomClientSecret, secret, 1)
	file := withDesk(t, "intercom", config)
	server := launch(t, nil, anyPort, "--config="+file).URL()
	if subscribed {
		desk.Subscribe(server + "/chatbot-webhook/acme")
	}
	return rehearsed{t, "intercom", file, server, desk.Left, desk.Server}
}

func (r rehearsed) start(flags ...string) *proctest.Process {
	return launch(r.T, nil, append([]string{r.desk, "test", "--config=" + r.file, "--product=acme", "--url=" + r.url},
		flags...)...)
}

// ended waits for the command, checks that nothing is left at the desk, and returns its words.
func (r rehearsed) ended(p *proctest.Process, status int) string {
	r.Helper()
	assert.Equal(r, status, p.Wait(waittest.Patience), p.Stdout.String()+p.Stderr.String())
	conversations, users := r.left()
	assert.Zero(r, conversations, "conversations are left")
	assert.Zero(r, users, "users are left")
	assert.NotContains(r, p.Stdout.String()+p.Stderr.String(), "s3cr3t")
	return p.Stdout.String()
}

func TestRehearsal_followsAClickIntoANote(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) rehearsed{
		"Zendesk":  func(t *testing.T) rehearsed { return withRehearsedZendesk(t, true, "") },
		"Intercom": func(t *testing.T) rehearsed { return withRehearsedIntercom(t, true, helpdesktest.IntercomClientSecret) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			assert.Regexp(t, `^ok +account +\d+\.\ds  The .*
ok +activity +\d+\.\ds  The server at .* accepted a click of liveactivity-test-\w+@example\.com, and it was read back\.
ok +conversation +\d+\.\ds  Conversation \d+ of liveactivity-test-\w+@example\.com was created\.
ok +note +\d+\.\ds  The note with the click is there\.
ok +clean-up +\d+\.\ds  The conversation and its user are removed\.
$`, r.ended(r.start(), 0))
		})
	}
}

func TestRehearsal_saysWhyThereIsNoNote(t *testing.T) {
	t.Parallel()
	const refused = "The server refused a webhook with a wrong signature"
	for name, tt := range map[string]struct {
		open func(t *testing.T) rehearsed
		says []string
	}{
		"Zendesk without webhooks": {func(t *testing.T) rehearsed { return withRehearsedZendesk(t, false, `"x"`) },
			[]string{"No webhook of the desk arrived",
				"No webhook of the account leads to /chatbot-webhook/acme: run liveactivity-server zendesk provision."}},
		"Zendesk with another secret": {func(t *testing.T) rehearsed { return withRehearsedZendesk(t, true, `"x"`) },
			[]string{refused, "signing_secret lacks the secret of a webhook"}},
		"Intercom without a topic": {func(t *testing.T) rehearsed { return withRehearsedIntercom(t, false, "x") },
			[]string{"No webhook of the desk arrived", "topic conversation.user.created"}},
		"Intercom with another secret": {func(t *testing.T) rehearsed { return withRehearsedIntercom(t, true, "x") },
			[]string{refused}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tt.open(t)
			said := r.ended(r.start("--timeout=3s"), 1)
			assert.Regexp(t, `(?m)^failed +note +\d+\.\ds  there is no note after 3s$`, said)
			for _, want := range tt.says {
				assert.Contains(t, said, want)
			}
			assert.Contains(t, said, "ok      clean-up")
		})
	}
}

// The test leaves nothing at the desk, however it ends. Where the clean-up fails, it names the
// leftovers.
func TestRehearsal_cleansUp(t *testing.T) {
	t.Parallel()
	r := withRehearsedIntercom(t, false, "x")
	p := r.start()
	waittest.Until(t, "the conversation was created", func() bool {
		return strings.Contains(p.Stdout.String(), "was created")
	})
	p.Signal(os.Interrupt)
	said := r.ended(p, 1)
	assert.Contains(t, said, "interrupted")
	assert.Contains(t, said, "ok      clean-up")

	r.server.Fail(helpdesktest.Fault{Method: "POST", Path: "/conversations", Status: 403})
	said = r.ended(r.start(), 1)
	assert.Contains(t, said, "The credentials must be allowed to create conversations and users, too.")
	assert.Regexp(t, `(?m)^ok +clean-up .*  The user is removed\.$`, said, "the contact was created before")

	r.server.Heal()
	r.server.Fail(helpdesktest.Fault{Method: "DELETE", Status: 503})
	p = r.start("--timeout=1ms")
	assert.Equal(t, 1, p.Wait(ends))
	assert.Regexp(t, `(?s)failed  clean-up .*Delete conversation \d+ and the user liveactivity-test-\w+@example.com by `+
		`hand`, p.Stdout.String())

	r.server.Fail(helpdesktest.Fault{Method: "POST", Path: "/conversations", Status: 403})
	p = r.start()
	assert.Equal(t, 1, p.Wait(ends))
	assert.Regexp(t, `(?s)failed  clean-up .*Delete the user liveactivity-test-\w+@example.com by hand`, p.Stdout.String())
}

// A test that cannot succeed creates nothing at the desk.
func TestRehearsal_endsBeforeItBeginsAConversation(t *testing.T) {
	t.Parallel()
	r := withRehearsedIntercom(t, false, "x")
	content := musttest.New(os.ReadFile(r.file))
	changed := func(from, to string) string {
		return "--config=" + productFile(t, strings.ReplaceAll(string(content), from, to))
	}
	for name, tt := range map[string]struct {
		args []string
		says []string
	}{
		"no server": {[]string{"--url=http://127.0.0.1:1"},
			[]string{"failed  activity", "no server answers at http://127.0.0.1:1", "Start the server"}},
		"another product": {[]string{changed("acme", "globex"), "--product=globex"},
			[]string{"failed  activity", "404 Not Found", "does not serve this product"}},
		"another secret": {[]string{changed(webhookSecret, "x")},
			[]string{"failed  activity", "401 Unauthorized", "another webhook_secret than the file"}},
		"another token": {[]string{changed(helpdesktest.IntercomAccessToken, "x")},
			[]string{"failed  account", "Intercom refuses the access token"}},
	} {
		t.Run(name, func(t *testing.T) {
			said := r.ended(r.start(tt.args...), 1)
			for _, want := range tt.says {
				assert.Contains(t, said, want)
			}
		})
	}
	for _, sent := range r.server.Requests() {
		assert.Equal(t, "GET", sent.Method, sent.Path)
	}
}

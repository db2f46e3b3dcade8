package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/demo"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// The script from the README links the session of posthog-js from a page of another origin. This
// also works when posthog-js loads later and the session is reported only afterwards. A page of a
// foreign origin cannot link a session.
func testSnippet(t *testing.T, browser context.Context) {
	var html string
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, html)
	}))
	t.Cleanup(page.Close)
	foreign := httptest.NewServer(page.Config.Handler)
	t.Cleanup(foreign.Close)

	product, _ := liveactivity.NewProduct(productID)
	product.AllowedOrigins, product.Identity.Secrets = []string{page.URL}, []string{"s3cr3t"}
	product.IntegrationConfig.Desks = map[string]json.RawMessage{"intercom": json.RawMessage(`{"access_token": "x"}`)}
	live := musttest.New(liveactivity.New(&liveactivity.Options{Products: []liveactivity.Product{product},
		Logger: slog.New(slog.DiscardHandler)}))
	unknown := make(chan struct{}, 100)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		live.Handler().ServeHTTP(answer, r)
		if answer.status == http.StatusNotFound {
			unknown <- struct{}{}
		}
	}))
	t.Cleanup(web.Close)
	snippet := musttest.New(connector.Snippet(web.URL, productID, ""))
	html = `<!DOCTYPE html><script>
		posthog = {get_session_id: function () { if (posthog.is_asked) return "s1"; posthog.is_asked = true; }};
	</script>` + snippet +
		`<script>said = {}; function say(name, link) { link.then(function (s) { said[name] = s }, function (e) { ` +
		`said[name] = 'failed' }); }</script>`

	tab := browsertest.Open(t, browser)
	said := func(name, want string) {
		t.Helper()
		tab.Await(name+" is answered", `"`+name+`" in said`)
		assert.Equal(t, want, tab.Eval(`said.`+name))
	}
	tab.Do("open the page", chromedp.Navigate(page.URL))
	tab.Eval(`say("first", liveactivity.link("c1")); ""`)
	waittest.Receive(t, unknown) // the session; now it is reported
	action := activity.Action{Type: activity.TypePageview, Description: "User looked"}
	_, err := live.Record(context.Background(), productID,
		[]activity.Event{{ID: "e1", Time: time.Now(), SessionID: "s1", Action: &action},
			{ID: "e2", Time: time.Now(), SessionID: "s2", UserID: "ada", Action: &action}})
	require.NoError(t, err)
	said("first", "linked")
	tab.Eval(`say("again", liveactivity.link("c1", "s1")); say("other", liveactivity.link(2)); ""`)
	said("again", "already_linked")
	said("other", "refused")
	tab.Eval(`say("signed", liveactivity.link("c3", "s2", {user_hash: "` +
		hex.EncodeToString(intake.Sign("s3cr3t", []byte("ada"))) + `"})); ""`)
	said("signed", "linked")

	tab.Do("open a page of another origin", chromedp.Navigate(foreign.URL))
	tab.Eval(`setTimeout = function (go) { Promise.resolve().then(go) }; say("foreign", liveactivity.link("c1")); ""`)
	said("foreign", "failed")
}

// During a long outage more events gather than a browser sends for a page that may be left. The
// demo's page reports them all afterwards.
func testDemosOutage(t *testing.T, browser context.Context) {
	var isAway atomic.Bool
	var mu sync.Mutex
	seen := map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><link rel="icon" href="/demo/static/icon.svg"><div id="shop"></div>`)
	})
	mux.HandleFunc("POST /i/v0/e/", func(w http.ResponseWriter, r *http.Request) {
		if isAway.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var body struct{ Batch []struct{ UUID string } }
		if !assert.NoError(t, json.NewDecoder(r.Body).Decode(&body)) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, event := range body.Batch {
			seen[event.UUID] = true
		}
	})
	keys := access.NewKeyring()
	require.NoError(t, keys.Add("key", "demo", access.MCP))
	web := httptest.NewServer(demo.New(demo.Product{ID: "demo", Key: "key"}).Handler(mux, keys))
	t.Cleanup(web.Close)
	tab := browsertest.Open(t, browser)
	tab.Do("open the page", chromedp.Navigate(web.URL+"/"), chromedp.WaitReady(chromedp.ID("shop")))
	isAway.Store(true)
	tab.Eval(`import("/demo/static/posthog.js").then(async ({ PostHog }) => {
		const posthog = new PostHog("phc_demo", document.getElementById("shop"));
		for (let i = 0; i < 100; i++) posthog.capture("$pageview", { title: "x".repeat(500) });
		await posthog.flush();
		window.posthog = posthog;
	}); ""`)
	tab.Await("the server was asked in vain", `window.posthog !== undefined`)
	isAway.Store(false)
	waittest.Until(t, "all is reported", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == 100
	})
}

// startPublic starts the real server with one product, at a public URL.
func startPublic(t *testing.T) (address, key string) {
	product, productKey := liveactivity.NewProduct(productID)
	listener := musttest.New(net.Listen("tcp", "127.0.0.1:0"))
	address = "http://" + listener.Addr().String()
	live := musttest.New(liveactivity.New(&liveactivity.Options{Products: []liveactivity.Product{product},
		Keys: []liveactivity.Key{productKey}, PublicURL: address, Logger: slog.New(slog.DiscardHandler)}))
	web := &httptest.Server{Listener: listener, Config: &http.Server{Handler: live.Handler()}}
	web.Start()
	t.Cleanup(web.Close)
	return address, productKey.Key
}

// A user pastes a key in a real browser, and the app gets its code although it sends the browser on
// to another host.
func testSignIn(t *testing.T, browser context.Context) {
	address, key := startPublic(t)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			http.Redirect(w, r, "http://localhost:"+strings.TrimPrefix(r.Host, "127.0.0.1:")+"/done?"+r.URL.RawQuery,
				http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<link rel=icon href='data:,'><p>Done")
	}))
	t.Cleanup(app.Close)
	resp, err := http.Post(address+"/oauth/register", "application/json",
		strings.NewReader(fmt.Sprintf(`{"client_name": "Claude", "redirect_uris": [%q]}`, app.URL+"/callback")))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(body), `"client_id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	q := url.Values{"response_type": {"code"}, "client_id": {id}, "redirect_uri": {app.URL + "/callback"},
		"state":          {`a"b&c'd`},
		"code_challenge": {strings.Repeat("a", 43)}, "code_challenge_method": {"S256"}}

	tab := browsertest.Open(t, browser)
	tab.Do("open", chromedp.Navigate(address+"/oauth/authorize?"+q.Encode()))
	tab.Await("the key is asked for", `document.activeElement.id === "key" && `+
		`getComputedStyle(document.querySelector(".ask")).borderRadius === "16px"`)
	assert.Equal(t, "Connect Claude", tab.Texts("h1"))
	assert.Equal(t, app.Listener.Addr().String(), tab.Texts("p b"))
	tab.Do("paste a wrong key", chromedp.SendKeys(chromedp.CSS("#key"), "lak_wrong"+kb.Enter))
	tab.Await("the page says so", `document.querySelector("[role=alert]").innerText.startsWith("Wrong key")`)
	for _, complaint := range tab.Complaints() {
		assert.Contains(t, complaint, "401", "the browser's own line about the status")
	}
	tab.Do("paste the key", chromedp.SendKeys(chromedp.CSS("#key"), key+kb.Enter))
	tab.Await("the app is done", `location.pathname === "/done"`)
	assert.Equal(t, `a"b&c'd`, tab.Eval(`new URLSearchParams(location.search).get("state")`))
	assert.Contains(t, tab.Eval(`new URLSearchParams(location.search).get("code")`), "lac_shop~")

	tab = browsertest.Open(t, browser)
	tab.Do("cancel", chromedp.Navigate(address+"/oauth/authorize?"+q.Encode()),
		chromedp.Click(chromedp.CSS("[name=cancel]")))
	tab.Await("the app is told", `location.search.includes("error=access_denied")`)
	assert.Empty(t, tab.Complaints())
}

// The SDK behind most MCP clients signs in and renews its token.
func TestSignIn_withTheTypeScriptSDK(t *testing.T) {
	address, key := startPublic(t)
	(&service{t: t, url: address, token: key}).runScript("signin.cjs")
}

// mcp-remote and the MCP Inspector sign in to the built program.
func (c *chain) testSignIn(t *testing.T) {
	address := lowAddr(t)
	p := c.server.Launch(t, nil, "--addr="+address, "--public-url=http://"+address)
	s := service{t: t, url: p.URL()}
	waittest.Until(t, "it prints a key", func() bool { return strings.Contains(p.Stdout.String(), "curl ") })
	_, rest, _ := strings.Cut(p.Stdout.String(), "key ")
	s.token = strings.Fields(rest)[0]
	s.runScript("clients.cjs", "HOME="+t.TempDir(), "CLIENTS="+depstest.Modules(t, depstest.Clients))
}

package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

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

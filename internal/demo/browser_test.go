package demo

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// openScripts opens an empty page in a browser, with the demo's scripts and these endpoints beside
// it.
func openScripts(t *testing.T, endpoints map[string]http.HandlerFunc) *browsertest.Tab {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><link rel="icon" href="/demo/static/icon.svg"><div id="shop"></div>`)
	})
	mux.Handle("GET /demo/static/{file}", httpx.Handler(serveFile))
	for pattern, serve := range endpoints {
		mux.HandleFunc(pattern, serve)
	}
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	tab := browsertest.Open(t, browsertest.Start(t))
	tab.Do("open the page", chromedp.Navigate(web.URL+"/"), chromedp.WaitReady(chromedp.ID("shop")))
	return tab
}

// During a long outage more events gather than a browser sends for a page that may be left. The page
// reports them all afterwards.
func TestPage_reportsALongOutageAfterIt(t *testing.T) {
	var isAway atomic.Bool
	var mu sync.Mutex
	seen := map[string]bool{}
	tab := openScripts(t, map[string]http.HandlerFunc{"POST /i/v0/e/": func(w http.ResponseWriter, r *http.Request) {
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
	}})
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

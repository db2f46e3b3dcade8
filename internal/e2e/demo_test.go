package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/demo"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

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

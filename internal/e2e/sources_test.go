package e2e

import (
	"html/template"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// startSDKShop starts a shop of another origin whose pages load an SDK, and returns its origin.
func (s *service) startSDKShop(sdk, name, strategy string) string {
	page := template.Must(template.ParseFiles("testdata/sdks/browser.html"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{page}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		assert.NoError(s.t, page.Execute(w, map[string]any{"Token": s.token, "Server": s.url, "SDK": name, "Strategy": strategy}))
	})
	mux.HandleFunc("GET /away", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<!doctype html><link rel="icon" href="data:,"><title>away</title>`))
	})
	mux.HandleFunc("GET /sdk.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, depstest.BrowserSDK(s.t, sdk)) })
	shop := httptest.NewServer(mux)
	s.t.Cleanup(shop.Close)
	return shop.URL
}

// The browser SDKs of other sources report a visit to a server of another origin: everything
// once, under the user who identifies in it, and nothing that was typed.
func TestBrowserSDKs_reportAVisit(t *testing.T) {
	const typedText = "typed-s3cr3t"
	for _, sdk := range []struct{ name, strategy, file, clicked string }{
		{"segment", "standard", depstest.Segment, "User did Added on the kettles page"},
		{"segment", "batching", depstest.Segment, "User did Added on the kettles page"},
		{"rudderstack", "", depstest.RudderStack, "User did Added on the kettles page"},
		{"jitsu", "", depstest.Jitsu, "User did Added on the kettles page"},
		{"amplitude", "", depstest.Amplitude, "User clicked Add to cart on the kettles page"},
	} {
		t.Run(sdk.name+" "+sdk.strategy, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			shop := s.startSDKShop(sdk.file, sdk.name, sdk.strategy)
			tab := browsertest.Open(t, browsertest.Start(t))
			tab.Do("come to the shop", chromedp.Navigate(shop+"/kettles"))
			tab.Await("the SDK is there", `document.title === "loaded"`)
			tab.Do("act", chromedp.Evaluate[chromedp.Void](`sdk.page()`),
				chromedp.SendKeys(chromedp.ID("password"), typedText), chromedp.SendKeys(chromedp.ID("note"), typedText),
				chromedp.Click(chromedp.ID("add")))
			waittest.Until(t, "the click is reported", func() bool {
				return slices.ContainsFunc(s.calls(), func(c call) bool { return strings.Contains(c.body, `"Added"`) })
			})
			tab.Do("log in", chromedp.Evaluate[chromedp.Void](`sdk.identify('`+userID+`', '`+email+`')`))
			tab.Do("go on", chromedp.Evaluate[chromedp.Void](`history.pushState({}, '', '/checkout'); sdk.page(); document.getElementById('add').onclick = null`))
			want := []string{"User landed on the kettles page", sdk.clicked, "User landed on the checkout page"}
			if sdk.name == "amplitude" { // the SDK reports the field and the click by itself
				want = []string{want[0], "User changed the #note field on the kettles page", want[1], "User did Added on the kettles page", want[2]}
			}
			s.await(userID, len(want))
			tab.Do("leave", chromedp.Evaluate[chromedp.Void](`sdk.track('Left')`), chromedp.Navigate(shop+"/away"))
			want = append(want, "User did Left on the checkout page")
			if sdk.name == "amplitude" { // sends what is left when the visitor comes back
				tab.Do("come back", chromedp.Navigate(shop+"/kettles"))
				want = append(want, want[0])
			}
			s.await(userID, len(want))
			got, raw := s.lookup(userID)
			var said []string
			for _, a := range got.Actions {
				said = append(said, a.Description)
			}
			assert.Equal(t, want, said)
			assert.NotContains(t, raw, typedText)
			for _, c := range s.calls() {
				assert.Less(t, c.status, 300, "%s %s", c.method, c.path)
				assert.NotContains(t, c.body, typedText)
				assert.NotContains(t, strings.ToLower(c.query), "retry")
			}
			assert.Empty(t, tab.Complaints())
		})
	}
}

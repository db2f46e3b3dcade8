package e2e

import (
	"context"
	"html/template"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/depstest"
)

// The tests of pages share one browser, in which each tab is a new visitor.
func TestPages(t *testing.T) {
	browser := browsertest.Start(t)
	for name, test := range map[string]func(*testing.T, context.Context){
		"posthog-js reports a visit":                         testPostHogJS,
		"the oldest posthog-js reports a visit":              testPostHogJSOldest,
		"posthog-js-lite reports a visit":                    testPostHogJSLite,
		"other browser SDKs report a visit":                  testBrowserSDKs,
		"Amplitude marks clicks":                             testAmplitudesMarks,
		"custom events, errors and marks reach every reader": testBeyondClicks,
		"the snippet links the session of its page":          testSnippet,
		"a user signs an app in":                             testSignIn,
		"the bridge's portal works":                          testBridge,
		"the demo's page reports a long outage after it":     testDemosOutage,
		"a tab asks the next page where one is left":         testNextPage,
	} {
		t.Run(name, func(t *testing.T) { test(t, browser) })
	}
}

// Eval and Await of a tab get their answers while the page keeps moving between two sites.
func testNextPage(t *testing.T, browser context.Context) {
	site := startSite(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<body><p id=here>here</p><script>setTimeout(() => { location.hostname = location.hostname ` +
			`=== "localhost" ? "127.0.0.1" : "localhost" }, 10)</script>`))
	})
	tab := browsertest.Open(t, browser)
	tab.Do("open the page", chromedp.Navigate(site))
	for range 8 {
		assert.Equal(t, "3", tab.Eval(`(function () { for (const end = Date.now() + 5; Date.now() < end;); return String(1 `+
			`+ 2) })()`))
		tab.Await("the text is there", `document.getElementById("here").innerText === "here"`)
	}
}

// typed is the text that the visitor types and chooses in the order form. The wrapping is chosen by
// its name, Golden paper.
var typed = struct{ Address, Passphrase, Wrapping, Gift string }{
	Address: "12 Acacia Avenue", Passphrase: "correct-horse-battery", Wrapping: "wrap-golden-77", Gift: "for-aunt-may",
}

// secrets must never come out of the server.
var secrets = []string{typed.Address, "Acacia", typed.Passphrase, typed.Wrapping, "Golden paper", typed.Gift}

// shop is a small web shop with posthog-js, on an origin of its own.
type shop struct {
	t      *testing.T
	url    string
	page   *template.Template
	token  string
	config map[string]any // of posthog.init

	mu     sync.Mutex
	orders []url.Values
}

func startShop(t *testing.T, version, token string, config map[string]any) *shop {
	s := &shop{t: t, page: template.Must(template.ParseFiles("testdata/shop.html")), token: token, config: config}
	script := depstest.File(t, "posthog-js/"+version+"/dist/array.js")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /array.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, script) })
	mux.HandleFunc("GET /{$}", s.serve("home"))
	mux.HandleFunc("GET /products/{id}", s.serve("product"))
	mux.HandleFunc("POST /orders", s.order)
	mux.HandleFunc("GET /orders/{id}/thanks", s.serve("thanks"))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	s.url = "http://shop.localhost:" + port // Chromium looks for it on this machine
	return s
}

func (s *shop) serve(page string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		data := map[string]any{"Page": page, "Token": s.token, "Config": s.config, "Typed": typed}
		if err := s.page.Execute(w, data); err != nil {
			s.t.Errorf("page %s: %v", page, err)
		}
	}
}

// order takes an order and sends the visitor on to a page that says thanks.
func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.t.Errorf("order: %v", err)
	}
	s.mu.Lock()
	s.orders = append(s.orders, r.PostForm)
	s.mu.Unlock()
	http.Redirect(w, r, "/orders/1001/thanks", http.StatusSeeOther)
}

func (s *shop) taken() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders
}

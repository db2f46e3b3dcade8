package demo_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/contracts"
	"github.com/liveactivity/liveactivity/internal/contracts/contractstest"
	"github.com/liveactivity/liveactivity/internal/demo"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const host = "127.0.0.1:8080"

// shop is a service with the demo before it.
type shop struct {
	t       *testing.T
	service *liveactivity.Service
	product liveactivity.Product
	key     string
	cookie  *http.Cookie // set by the page's address
	handler http.Handler
}

// newShop returns a shop whose service is not running.
func newShop(t *testing.T) *shop {
	t.Helper()
	product, key := liveactivity.NewProduct("demo")
	d := demo.New(demo.Product{ID: "demo", Key: key.Key, Token: product.CaptureTokens[0]})
	product.IntegrationConfig = liveactivity.IntegrationConfig{
		Notes: &liveactivity.Notes{DebounceMS: new(0), IntervalS: new(0)},
		Desks: map[string]json.RawMessage{demo.Name: json.RawMessage("{}")}}
	service, err := liveactivity.New(&liveactivity.Options{Products: []liveactivity.Product{product},
		Keys:  []liveactivity.Key{key},
		Desks: []helpdesk.Kind{d.Kind()}, Reply: demo.Reply, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s := &shop{t: t, service: service, product: product, key: key.Key}
	s.show(d, service.Handler())
	return s
}

// run runs the service until the test ends.
func (s *shop) run() {
	stop := waittest.Run(s.t, s.service.Run)
	s.t.Cleanup(func() { require.NoError(s.t, stop()) })
}

// request is one of the demo's own page, on this machine.
func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:50123", host
	if method == http.MethodPost {
		r.Header.Set("Origin", "http://"+host)
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// show opens the address of a demo before a service.
func (s *shop) show(d *demo.Demo, service http.Handler) {
	s.t.Helper()
	s.handler = d.Handler(service, s.service.Keys())
	w := s.serveStranger(request(http.MethodGet, d.Path(), ""))
	require.Equal(s.t, http.StatusOK, w.Code)
	cookies := w.Result().Cookies()
	require.Len(s.t, cookies, 1)
	s.cookie = cookies[0]
}

// serve answers a browser that has opened the page's address.
func (s *shop) serve(r *http.Request) *httptest.ResponseRecorder {
	r.AddCookie(s.cookie)
	return s.serveStranger(r)
}

func (s *shop) serveStranger(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// get returns the body of an answer that must be 200.
func (s *shop) get(path string) string {
	s.t.Helper()
	w := s.serve(request(http.MethodGet, path, ""))
	require.Equal(s.t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

const message = `{"text":"Where is my order?","contact":{"email":"","user_id":"visitor-1"}}`

// write posts a body, which must be accepted, and returns the conversation's ID.
func (s *shop) write(path, body string) string {
	s.t.Helper()
	w := s.serve(request(http.MethodPost, path, body))
	require.Equal(s.t, http.StatusCreated, w.Code, w.Body)
	var answer struct{ ID string }
	require.NoError(s.t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer.ID
}

// visit records page views of the session s1.
func (s *shop) visit(pages ...string) {
	s.t.Helper()
	for _, page := range pages {
		a := activity.NewAction(activity.TypePageview, activity.Target{}, "https://shop.example/"+page)
		_, err := s.service.Record(s.t.Context(), "demo",
			[]activity.Event{{ID: page, Time: time.Now(), ServerTime: true, SessionID: "s1", UserID: "visitor-1", Action: &a}})
		require.NoError(s.t, err)
	}
}

func TestDemo_showsTheAgentTheVisitorsActionsAndAnswers(t *testing.T) {
	s := newShop(t)
	s.run()
	s.visit("lamps", "cart")
	id := s.write("/demo/desk/conversations", message)
	s.visit("checkout")
	shows := func(what ...string) {
		t.Helper()
		waittest.Until(t, "the conversation says all of it", func() bool {
			conversation := s.get("/demo/desk/conversations")
			for _, text := range what {
				if !strings.Contains(conversation, text) {
					return false
				}
			}
			return true
		})
	}
	shows("[1] User landed on the lamps page", "[2] User landed on the cart page", "User landed on the checkout page",
		"built into the demo")
	assert.Equal(t, id, s.write("/demo/desk/conversations/"+id+"/messages", message))
	waittest.Until(t, "it is answered twice", func() bool {
		return strings.Count(s.get("/demo/desk/conversations"), "built into the demo") == 2
	})
}

func TestDemo_keepsNothingOfAMessageThatTheServiceDidNotTake(t *testing.T) {
	s := newShop(t)
	away := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	d := demo.New(demo.Product{ID: "demo", Key: s.key})
	s.show(d, away)
	w := s.serve(request(http.MethodPost, "/demo/desk/conversations", message))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Contains(t, s.get("/demo/desk/conversations"), `"conversations":[]`)

	silent := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	s.handler = d.Handler(silent, s.service.Keys())
	id := s.write("/demo/desk/conversations", message)
	s.handler = d.Handler(away, s.service.Keys())
	w = s.serve(request(http.MethodPost, "/demo/desk/conversations/"+id+"/messages", message))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, 1, strings.Count(s.get("/demo/desk/conversations"), "Where is my order?"))
}

// requests are all that a page asks of a demo with that conversation.
func requests(id string) (all []*http.Request) {
	for _, line := range []string{"GET /demo", "GET /demo/", "GET /demo/shop", "GET /demo/shop/products/halo-lamp",
		"GET /demo/config", "GET /demo/desk/conversations",
		"POST /demo/desk/conversations", "POST /demo/desk/conversations/" + id + "/messages"} {
		method, path, _ := strings.Cut(line, " ")
		all = append(all, request(method, path, message))
	}
	return all
}

func TestDemo_opensOnItsOwnMachineOnly(t *testing.T) {
	s := newShop(t)
	id := s.write("/demo/desk/conversations", message)
	for name, tt := range map[string]struct {
		peer, host string
		header     string
		opens      bool
	}{
		"this machine":                {opens: true},
		"by its name":                 {host: "localhost:8080", opens: true},
		"IPv6":                        {peer: "[::1]:50123", host: "[::1]:8080", opens: true},
		"IPv4 in IPv6":                {peer: "[::ffff:127.0.0.1]:50123", opens: true},
		"another peer":                {peer: "192.0.2.7:50123"},
		"another peer by IPv6":        {peer: "[2001:db8::7]:50123"},
		"a peer that is none":         {peer: "@"},
		"a name that leads here":      {host: "evil.example:8080"},
		"another loopback address":    {peer: "127.1.2.3:50123", host: "127.1.2.3:8080", opens: true},
		"an address of the network":   {host: "192.0.2.2:8080"},
		"all addresses":               {host: "0.0.0.0:8080"},
		"no host":                     {host: "-"},
		"a proxy":                     {header: "X-Forwarded-For"},
		"a proxy that names the host": {header: "X-Forwarded-Host"},
		"a proxy by the standard":     {header: "Forwarded"},
		"a proxy of another kind":     {header: "X-Real-IP"},
		"a proxy that says so":        {header: "Via"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range requests(id) {
				if tt.peer != "" {
					r.RemoteAddr = tt.peer
				}
				if tt.host != "" {
					r.Host = strings.Trim(tt.host, "-")
					r.Header.Set("Origin", "http://"+r.Host)
				}
				if tt.header != "" {
					r.Header.Set(tt.header, "127.0.0.1")
				}
				w := s.serve(r)
				assert.Equal(t, tt.opens, w.Code/100 == 2, "%s %s: %d", r.Method, r.URL, w.Code)
				if !tt.opens {
					assert.Equal(t, http.StatusForbidden, w.Code)
					for _, secret := range []string{s.key, s.product.CaptureTokens[0], "Where is my order?"} {
						assert.NotContains(t, w.Body.String(), secret)
					}
				}
			}
		})
	}
}

// Behind a proxy on this machine that adds no header, such as a default nginx, every
// visitor looks local.
func TestDemo_opensWithItsSecretOnly(t *testing.T) {
	s := newShop(t)
	id := s.write("/demo/desk/conversations", message)
	cookie := s.cookie
	assert.True(t, cookie.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	for name, change := range map[string]func(r *http.Request){
		"nothing":        func(*http.Request) {},
		"another secret": func(r *http.Request) { r.URL.RawQuery = "secret=" + strings.Repeat("A", len(cookie.Value)) },
		"an empty one":   func(r *http.Request) { r.URL.RawQuery = "secret=" },
		"another cookie": func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: cookie.Name, Value: "x" + cookie.Value[1:]})
		},
		"the cookie under another": func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: "liveactivity_demo", Value: cookie.Value})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range requests(id) {
				change(r)
				w := s.serveStranger(r)
				assert.Equal(t, http.StatusForbidden, w.Code, "%s %s", r.Method, r.URL)
				assert.Contains(t, w.Body.String(), "address that the server printed")
				assert.Empty(t, w.Result().Cookies())
				for _, secret := range []string{s.key, cookie.Value, s.product.CaptureTokens[0], "Where is my order?"} {
					assert.NotContains(t, w.Body.String(), secret)
				}
			}
		})
	}
}

func TestDemo_saysElsewhereHowToOpenIt(t *testing.T) {
	s := newShop(t)
	r := request(http.MethodGet, "/demo/", "")
	r.Host = "<b>evil.example"
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4zero, Port: 9123}))
	w := s.serve(r)
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	assert.Contains(t, w.Body.String(), "ssh -L 9123:127.0.0.1:9123")
	assert.NotContains(t, w.Body.String(), "evil")
}

// The server's OpenAPI document describes the answers of the page's address. The demo ends with its product.
func TestDemo_isAnsweredAsDocumented(t *testing.T) {
	s := newShop(t)
	c := contractstest.Parse(t, contracts.OpenAPI(""))
	documented := c.Operations(t)
	at := slices.IndexFunc(documented, func(op contractstest.Operation) bool { return op.ID == "getDemo" })
	require.GreaterOrEqual(t, at, 0)
	op := documented[at]
	statuses := op.Statuses(t)
	ask := func(status int, change func(r *http.Request)) {
		t.Helper()
		r := request(op.Method, op.Path, "")
		change(r)
		w := s.serveStranger(r)
		assert.Equal(t, status, w.Code)
		require.NoError(t, c.ValidateAnswer(t, op, w.Code, w.Header(), w.Body.Bytes()))
		statuses = slices.DeleteFunc(statuses, func(documented int) bool { return documented == status })
	}
	ask(http.StatusOK, func(r *http.Request) { r.AddCookie(s.cookie) })
	ask(http.StatusForbidden, func(r *http.Request) { r.Host = "live.example.com" })
	s.service.Keys().RemoveProduct("demo")
	ask(http.StatusNotFound, func(*http.Request) {})
	assert.Empty(t, statuses)
	for _, path := range []string{"/demo", "/demo/config", "/demo/desk/conversations", "/demo/static/icon.svg"} {
		assert.Equal(t, http.StatusNotFound, s.serve(request(http.MethodGet, path, "")).Code, path)
	}
}

func TestOpensAt_isTrueForLocalAddresses(t *testing.T) {
	for ip, want := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "0.0.0.0": true, "::": true,
		"192.0.2.2": false, "2001:db8::1": false} {
		assert.Equal(t, want, demo.OpensAt(&net.TCPAddr{IP: net.ParseIP(ip), Port: 80}), ip)
	}
	assert.False(t, demo.OpensAt(&net.UnixAddr{Name: "@"}))
}

func TestDemo_takesWritesOfItsOwnPageOnly(t *testing.T) {
	s := newShop(t)
	for name, tt := range map[string]struct {
		method, path, header, body string // other than its own page's
		want                       int
	}{
		"its own page":            {want: 201},
		"another origin":          {header: "Origin: https://evil.example", want: 403},
		"another port":            {header: "Origin: http://127.0.0.1:9999", want: 403},
		"an opaque origin":        {header: "Origin: null", want: 403},
		"no origin":               {header: "Origin", want: 403},
		"a form":                  {header: "Content-Type: text/plain", want: 415},
		"a type in capitals":      {header: "Content-Type: APPLICATION/JSON", want: 201},
		"a type with a parameter": {header: "Content-Type: application/json; charset=utf-8", want: 201},
		"no JSON":                 {body: `{`, want: 400},
		"another type":            {body: `{"text":7}`, want: 400},
		"no text":                 {body: `{"text":" \n\u0000 "}`, want: 400},
		"a long text":             {body: fmt.Sprintf(`{"text":%q}`, strings.Repeat("é", 1001)), want: 400},
		"the longest text":        {body: fmt.Sprintf(`{"text":%q}`, strings.Repeat("é", 1000)), want: 201},
		"a long address": {body: fmt.Sprintf(`{"text":"Hi","contact":{"email":%q}}`, strings.Repeat("e", 321)),
			want: 400},
		"a long id": {body: fmt.Sprintf(`{"text":"Hi","contact":{"user_id":%q}}`, strings.Repeat("e", 321)),
			want: 400},
		"a large body":            {body: fmt.Sprintf(`{"text":"Hi","x":%q}`, strings.Repeat("x", 20<<10)), want: 413},
		"an unknown conversation": {path: "/demo/desk/conversations/7/messages", want: 404},
		"another method":          {method: http.MethodPut, want: 405},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(http.MethodPost, cmp.Or(tt.path, "/demo/desk/conversations"), cmp.Or(tt.body, message))
			r.Method = cmp.Or(tt.method, r.Method)
			header, value, _ := strings.Cut(tt.header, ": ")
			r.Header.Set(header, value)
			w := s.serve(r)
			assert.Equal(t, tt.want, w.Code, w.Body)
		})
	}
}

func TestDemo_keepsTextsAsText(t *testing.T) {
	s := newShop(t)
	s.write("/demo/desk/conversations", `{"text":"<img src=x>\u0007\n{{x}}"}`)
	var list struct {
		Conversations []struct{ Parts []struct{ Text string } }
	}
	require.NoError(t, json.Unmarshal([]byte(s.get("/demo/desk/conversations")), &list))
	assert.Equal(t, "<img src=x> \n{{x}}", list.Conversations[0].Parts[0].Text)
}

func TestDemo_itsFilesAreUnderAStrictPolicy(t *testing.T) {
	s := newShop(t)
	for path, kind := range map[string]string{"/demo/": "text/html; charset=utf-8",
		"/demo/static/app.js":   "text/javascript; charset=utf-8",
		"/demo/static/demo.css": "text/css; charset=utf-8", "/demo/static/icon.svg": "image/svg+xml"} {
		w := s.serve(request(http.MethodGet, path, ""))
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, kind, w.Header().Get("Content-Type"))
		assert.Contains(t, w.Header().Get("Content-Security-Policy"), "script-src 'self'")
	}
	assert.Equal(t, "no-store", s.serve(request(http.MethodGet, "/demo/", "")).Header().Get("Cache-Control"))
	assert.Equal(t, "no-store", s.serve(request(http.MethodGet, "/demo/config", "")).Header().Get("Cache-Control"))
	for _, path := range []string{"/demo/static/none.js", "/demo/static/..%2findex.html", "/demo/static/",
		"/demo/index.html"} {
		assert.Equal(t, http.StatusNotFound, s.serve(request(http.MethodGet, path, "")).Code, path)
	}
}

func TestDemo_leavesTheServiceItsOwnPaths(t *testing.T) {
	s := newShop(t)
	assert.Equal(t, http.StatusOK, s.serve(request(http.MethodGet, "/healthz", "")).Code)
	w := s.serve(request(http.MethodPost, "/demo/chat/demo", `{}`))
	assert.Equal(t, http.StatusUnauthorized, w.Code, "the desk's chat is the service's; this is not signed")
}

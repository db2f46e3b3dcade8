package e2e

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/depstest"
)

// The visitor logs in as this user.
const (
	userID = "user_42"
	email  = "ada@example.com"
)

// logIn has posthog-js identify the visitor.
var logIn = chromedp.Evaluate[chromedp.Void](`posthog.identify('` + userID + `', {email: '` + email + `'})`)

// setup is a way to use posthog-js.
type setup struct {
	version string
	prefix  string         // of the path of api_host
	options map[string]any // of posthog.init, besides api_host
	forms   []string       // the forms of its requests
}

func testPostHogJS(t *testing.T, browser context.Context) {
	for name, setup := range map[string]setup{
		"current version": {version: depstest.PostHogJSCurrent, forms: []string{"gzip batch"}},
		"old version":     {version: depstest.PostHogJSOld, forms: []string{"gzip array", "gzip event"}},
		"without compression, below a prefix": {version: depstest.PostHogJSCurrent, prefix: "/ingest",
			options: map[string]any{"disable_compression": true}, forms: []string{"form batch", "json batch"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := makeVisit(t, browser, setup)
			t.Run("live activity", v.checkLiveActivity)
			t.Run("stream", v.checkStream)
			t.Run("nothing typed comes out", v.checkSecrecy)
			t.Run("browser has no complaints", v.checkBrowser)
			t.Run("every call is answered once", func(t *testing.T) { v.checkCalls(t, setup) })
		})
	}
}

// visit is a visit to the shop, from the first page view to the page's unload.
type visit struct {
	service   *service
	shop      *shop
	stream    *reader
	tab       *browsertest.Tab
	began     time.Time
	anonymous string // the visitor's id at first
	session   string
}

// makeVisit sends a visitor through the shop and returns when every event has arrived. Before every
// change of document it waits for requests under way, because posthog-js loses unsent events when a
// document goes away.
func makeVisit(t *testing.T, browser context.Context, setup setup) *visit {
	service := startService(t)
	options := map[string]any{"api_host": service.url + setup.prefix, "capture_pageview": "history_change"}
	maps.Copy(options, setup.options)
	v := &visit{service: service, stream: service.startReader(), began: time.Now(),
		shop: startShop(t, setup.version, service.token, options), tab: browsertest.Open(t, browser)}

	v.tab.Do("come to the shop", chromedp.Navigate(v.shop.url+"/"), chromedp.Poll[chromedp.Void](autocaptures))
	v.anonymous, v.session = v.tab.Eval("posthog.get_distinct_id()"), v.tab.Eval("posthog.get_session_id()")
	service.await(v.anonymous, 1)
	v.tab.Do("click inside a button", chromedp.Click(chromedp.ID("add-text")))
	service.await(v.anonymous, 2)
	v.follow("follow a link", chromedp.Click(chromedp.ID("product")), chromedp.WaitVisible(chromedp.ID("checkout")))
	service.await(v.anonymous, 4)
	v.tab.Do("go on within the document", chromedp.Click(chromedp.ID("checkout")),
		chromedp.WaitVisible(chromedp.ID("order")))
	v.tab.Do("log in", logIn)
	service.awaitEvent("$identify")
	service.await(userID, 6) // the visitor's earlier actions are the user's now
	v.tab.Do("fill in the form",
		chromedp.SendKeys(chromedp.CSS("[name=address]"), typed.Address),
		chromedp.SendKeys(chromedp.CSS("[name=passphrase]"), typed.Passphrase),
		chromedp.SendKeys(chromedp.CSS("[name=wrapping]"), "G"), chromedp.Click(chromedp.CSS("[name=gift]")))
	service.await(userID, 11)
	v.follow("send the form", chromedp.Click(chromedp.ID("place")), chromedp.WaitVisible(chromedp.ID("rate")))
	require.Equal(t, []url.Values{{"address": {typed.Address}, "passphrase": {typed.Passphrase},
		"wrapping": {typed.Wrapping}, "gift": {typed.Gift}}}, v.shop.taken(), "what the shop was sent")
	service.await(userID, 14)
	v.tab.Do("click and leave at once", chromedp.Evaluate[chromedp.Void](`void addEventListener('click', () => `+
		`location.assign('about:blank'))`), chromedp.Click(chromedp.ID("rate")))
	service.await(userID, 15)
	return v
}

// autocaptures reports whether posthog-js has its remote configuration, from this document or an
// earlier one.
const autocaptures = `posthog.get_property('$autocapture_disabled_server_side') === false`

// follow takes steps to another document and waits until posthog-js has its configuration there.
// Before that, posthog-js may capture nothing.
func (v *visit) follow(what string, does ...chromedp.Action[chromedp.Void]) {
	v.tab.Do("forget the configuration",
		chromedp.Evaluate[chromedp.Void](`posthog.unregister('$autocapture_disabled_server_side')`))
	v.tab.Do(what, does...)
	v.tab.Await("the next document is configured", autocaptures)
}

// before returns the actions of the visit before the visitor logs in.
func (v *visit) before() []activity.Action {
	home, product, checkout := v.page("/", "/"), v.page("/products/42?ref=home#reviews", "/products/:id"),
		v.page("/checkout", "/checkout")
	return numbered(
		home(activity.TypePageview, "Page Load: Home", "User landed on the home page"),
		home(activity.TypeClick, "Click Add to cart", "User clicked Add to cart on the home page"),
		home(activity.TypeClick, "Click Blue kettle", "User clicked Blue kettle on the home page"),
		product(activity.TypePageview, "Page Load: Products detail", "User landed on the products detail page"),
		product(activity.TypeClick, "Click Checkout", "User clicked Checkout on the products detail page"),
		checkout(activity.TypePageview, "Page Load: Checkout", "User landed on the checkout page"),
	)
}

// after returns the actions after the login.
func (v *visit) after() []activity.Action {
	checkout, thanks := v.page("/checkout", "/checkout"), v.page("/orders/1001/thanks", "/orders/:id/thanks")
	return numbered(
		checkout(activity.TypeChange, "Change address field", "User changed the address field on the checkout page"),
		checkout(activity.TypeChange, "Change passphrase field", "User changed the passphrase field on the checkout page"),
		checkout(activity.TypeChange, "Change wrapping field", "User changed the wrapping field on the checkout page"),
		checkout(activity.TypeClick, "Click gift", "User clicked gift on the checkout page"),
		checkout(activity.TypeChange, "Change gift field", "User changed the gift field on the checkout page"),
		checkout(activity.TypeClick, "Click Place order", "User clicked Place order on the checkout page"),
		checkout(activity.TypeSubmit, "Submit checkout form", "User submitted the checkout form on the checkout page"),
		thanks(activity.TypePageview, "Page Load: Thanks", "User landed on the thanks page"),
		thanks(activity.TypeClick, "Click Rate five stars", "User clicked Rate five stars on the thanks page"),
	)
}

// page returns a function that makes the actions on a page of the shop.
func (v *visit) page(raw, canonical string) func(typ, title, description string) activity.Action {
	return func(typ, title, description string) activity.Action {
		return activity.Action{Type: typ, Title: title, Description: description, RawURL: v.shop.url + raw,
			CanonicalURL: v.shop.url + canonical}
	}
}

// numbered gives the actions their indexes.
func numbered(actions ...activity.Action) []activity.Action {
	for i := range actions {
		actions[i].Index = i
	}
	return actions
}

// timeless returns the actions without their times.
func timeless(actions []activity.Action) []activity.Action {
	actions = slices.Clone(actions)
	for i := range actions {
		actions[i].TimestampStart, actions[i].TimestampEnd = 0, 0
	}
	return actions
}

func (v *visit) checkLiveActivity(t *testing.T) {
	anonymous, _ := v.service.lookup(v.anonymous)
	user, _ := v.service.lookup(userID)
	assert.Empty(t, anonymous.Actions, "before the login the session was the user's, too")
	assert.Equal(t, numbered(slices.Concat(v.before(), v.after())...), timeless(user.Actions))

	all := user.Actions
	assert.GreaterOrEqual(t, all[0].TimestampStart, activity.Seconds(v.began))
	assert.LessOrEqual(t, all[len(all)-1].TimestampStart, user.AsOf)
	for i, a := range all {
		next := all[min(i+1, len(all)-1)]
		assert.LessOrEqual(t, a.TimestampStart, next.TimestampStart, "%s is before %s", a.Title, next.Title)
		if a.TimestampStart < next.TimestampStart || i == len(all)-1 {
			assert.Equal(t, next.TimestampStart, a.TimestampEnd, "%s ends where %s starts", a.Title, next.Title)
		}
	}
}

func (v *visit) checkStream(t *testing.T) {
	actions := v.stream.await(t, "", len(v.before())+len(v.after()))
	for i, a := range actions {
		assert.Equal(t, i, a.Index, "indexes count over the session")
	}
	batches, _ := v.stream.read()
	for _, b := range batches {
		v.checkBatch(t, b)
	}
	slices.SortStableFunc(actions, func(a, b activity.BatchAction) int {
		return cmp.Compare(a.TimestampStart, b.TimestampStart)
	})
	var got, want []string
	for _, a := range actions {
		got = append(got, a.UserID+": "+a.Title)
	}
	for _, a := range v.before() {
		want = append(want, v.anonymous+": "+a.Title)
	}
	for _, a := range v.after() {
		want = append(want, userID+": "+a.Title)
	}
	assert.Equal(t, want, got)
}

// checkBatch checks the user of a batch. Before the login no batch has the email.
func (v *visit) checkBatch(t *testing.T, b activity.Batch) {
	last := b.Actions[len(b.Actions)-1]
	assert.Equal(t, activity.BatchType, b.Type)
	assert.Equal(t, productID, b.ProductID)
	assert.Equal(t, v.session, b.SessionID)
	assert.Len(t, b.Actions, b.Count)
	if last.UserID == userID {
		assert.Equal(t, userID, b.UserID)
		assert.Equal(t, email, b.Email)
	}
	for _, a := range b.Actions {
		assert.Equal(t, b.SessionID, a.SessionID)
		assert.Equal(t, b.Email, a.Email)
	}
	if last.CanonicalURL == v.shop.url+"/" {
		assert.Equal(t, v.anonymous, b.UserID)
		assert.Empty(t, b.Email)
	}
}

func (v *visit) checkSecrecy(t *testing.T) {
	_, before := v.service.lookup(v.anonymous)
	_, after := v.service.lookup(userID)
	_, stream := v.stream.read()
	for _, secret := range secrets {
		assert.NotContains(t, before+after, secret)
		assert.NotContains(t, stream, secret)
	}
}

func (v *visit) checkBrowser(t *testing.T) { assert.Empty(t, v.tab.Complaints()) }

// checkCalls checks that posthog-js got 200 every time. After any other answer it would send its
// events again.
func (v *visit) checkCalls(t *testing.T, setup setup) {
	forms := map[string]bool{}
	for _, c := range v.service.calls() {
		want := http.StatusOK
		if c.method == http.MethodOptions {
			want = http.StatusNoContent
		}
		assert.Equal(t, want, c.status, "%s %s", c.method, c.path)
		assert.True(t, strings.HasPrefix(c.path, setup.prefix+"/"), "%s is below the prefix", c.path)
		if form := c.form(); form != "" {
			forms[form] = true
		}
	}
	v.service.checkOnce(t)
	if setup.version == depstest.PostHogJSOld { // compresses nothing until it has its remote configuration
		delete(forms, "json array")
		delete(forms, "json event")
	}
	assert.Equal(t, setup.forms, slices.Sorted(maps.Keys(forms)))
}

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

package e2e

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// runScript runs a script of testdata/sdks in Node.js, which must print nothing.
func (s *service) runScript(script string, environment ...string) {
	s.t.Helper()
	assert.Empty(s.t, s.outputOf(script, environment...))
}

// outputOf runs a script of testdata/sdks in Node.js and returns its output and its errors.
func (s *service) outputOf(script string, environment ...string) string {
	s.t.Helper()
	path := musttest.New(filepath.Abs(filepath.Join("testdata", "sdks", script)))
	modules := []string{depstest.Modules(s.t, depstest.NPM), depstest.Modules(s.t, depstest.Sources)}
	environment = append(environment, "NODE_PATH="+strings.Join(modules, string(os.PathListSeparator)))
	return node(s.t, environment, path, s.url, s.token)
}

// module runs a module in Node.js that finds its packages beside it, and returns its output.
func module(t *testing.T, source string, environment []string, args ...string) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.Symlink(depstest.Modules(t, depstest.NPM), filepath.Join(folder, "node_modules")))
	path := filepath.Join(folder, "program.mjs")
	require.NoError(t, os.WriteFile(path, []byte(source), 0o600))
	return node(t, environment, append([]string{path}, args...)...)
}

// node runs Node.js, which must end without an error, and returns its output.
func node(t *testing.T, environment []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*waittest.Patience) // some scripts start programs of their own
	defer cancel()
	cmd := exec.CommandContext(ctx, depstest.Command(t, "node"), args...)
	cmd.Env = append(os.Environ(), environment...)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", args, said)
	return string(said)
}

// checkRequests checks that events came to that path in so many requests, and that all requests got
// 200.
func (s *service) checkRequests(path string, want int) {
	s.t.Helper()
	captures := 0
	for _, c := range s.calls() {
		if c.method != http.MethodOptions {
			assert.Equal(s.t, http.StatusOK, c.status, "%s %s", c.method, c.path)
		}
		if c.method == http.MethodPost && c.path == path {
			captures++
		}
	}
	assert.Equal(s.t, want, captures, path)
}

// checkActions checks the actions of user_42. The stream must have the last so many of them, those
// since the login, under the user's email.
func (s *service) checkActions(stream *reader, fromLogin int, want ...activity.Action) {
	s.t.Helper()
	s.await(userID, len(want))
	got, raw := s.lookup(userID)
	assert.Equal(s.t, numbered(want...), timeless(got.Actions))
	assert.NotContains(s.t, raw, typed.Address)
	var streamed, titles []string
	for _, a := range stream.await(s.t, userID, fromLogin) {
		streamed = append(streamed, a.Email+" "+a.Title)
	}
	for _, a := range want[len(want)-fromLogin:] {
		titles = append(titles, email+" "+a.Title)
	}
	assert.Equal(s.t, titles, streamed)
}

// kettles are the actions that the scripts report of a visit to the shop at that origin.
func kettles(origin string) []activity.Action {
	return []activity.Action{activity.NewAction(activity.TypePageview, activity.Target{}, origin+"/kettles"),
		activity.NewAction(activity.TypeClick, activity.Target{Label: "Add to cart"}, origin+"/kettles"),
		activity.NewAction(activity.TypePageview, activity.Target{}, origin+"/checkout")}
}

func TestPostHogNode_reportsAVisit(t *testing.T) {
	for name, tt := range map[string]struct {
		environment []string
		path        string
	}{
		"as it comes": {nil, "/batch/"},
		"capture v1":  {[]string{"POSTHOG_CAPTURE_MODE=v1"}, "/i/v1/analytics/events"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			stream := s.startReader()
			s.runScript("node.cjs", tt.environment...)
			s.checkActions(stream, 3, kettles("https://shop.example")...)
			s.checkRequests(tt.path, 1)
		})
	}
}

// The server SDKs of other vendors report a visit to the host that the docs name. The server has
// each event that they report as sent, once, and no other.
func TestServerSDKs_reportAVisit(t *testing.T) {
	s := startService(t)
	stream := s.startReader()
	said := strings.Fields(s.outputOf("sources.cjs"))
	slices.Sort(said)
	assert.Len(t, said, 9)
	assert.Equal(t, said, s.eventIDs())
	added := kettles("https://shop.example")[0]
	added.Type, added.Title, added.Description = activity.TypeEvent, "Added", "User did Added on the kettles page"
	var want []string
	for user, tt := range map[string]struct {
		path     string
		requests int
	}{"of-segment": {"/segment/v1/batch", 1}, "of-rudderstack": {"/rudderstack/v1/batch", 2},
		"of-amplitude": {"/amplitude/2/httpapi", 1}} {
		got, _ := s.lookup(user)
		assert.Equal(t, numbered(kettles("https://shop.example")[0], added), timeless(got.Actions), user)
		s.checkRequests(tt.path, tt.requests)
		want = append(want, user+" "+email+" Page Load: Kettles", user+" "+email+" Added")
	}
	var streamed []string
	for _, a := range stream.await(t, "", len(want)) {
		streamed = append(streamed, a.UserID+" "+a.Email+" "+a.Title)
	}
	assert.ElementsMatch(t, want, streamed)
	_, raw := stream.read()
	assert.NotContains(t, raw, "typed-s3cr3t")
}

func TestPostHogReactNative_reportsAVisit(t *testing.T) {
	s := startService(t)
	stream := s.startReader()
	s.runScript("phone.cjs")
	on := func(typ, title, description string) activity.Action {
		return activity.Action{Type: typ, Title: title, Description: description, RawURL: "app://screen/order-details",
			CanonicalURL: "app://screen/order-details"}
	}
	s.checkActions(stream, 3,
		on(activity.TypePageview, "Page Load: Order details", "User landed on the order details page"),
		on(activity.TypeClick, "Click Reorder", "User clicked Reorder on the order details page"),
		on(activity.TypeClick, "Click field", "User clicked a field on the order details page"),
	)
	s.checkRequests("/e/", 1)
}

// posthog-js-lite sends forms in a way that hides the answer from pages of another origin. It takes
// any answer for a failure and sends the forms again. The server records them once.
func testPostHogJSLite(t *testing.T, browser context.Context) {
	for name, tt := range map[string]struct {
		path      string // of the events
		proxied   bool   // by the page's own origin
		options   map[string]any
		requests  int
		complains bool
	}{
		"form, of its own origin": {path: "/ingest/e/", proxied: true, requests: 1},
		"JSON, of another origin": {path: "/batch/", options: map[string]any{"captureMode": "json"}, requests: 1},
		"form, of another origin": {path: "/e/", options: map[string]any{"fetchRetryCount": 2, "fetchRetryDelay": 10},
			requests: 3, complains: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			stream := s.startReader()
			config := map[string]any{"host": s.url, "persistence": "memory"}
			if tt.proxied {
				config["host"] = "/ingest"
			}
			maps.Copy(config, tt.options)
			origin := s.startLiteShop(config)
			tab := browsertest.Open(t, browser)
			tab.Do("come to the shop", chromedp.Navigate(origin+"/kettles"),
				chromedp.Poll[chromedp.Void](`document.title === 'reported'`))
			s.checkActions(stream, 3, kettles(origin)...)
			s.checkRequests(tt.path, tt.requests)
			assert.Equal(t, tt.complains, len(tab.Complaints()) > 0, tab.Complaints())
		})
	}
}

// startLiteShop starts a shop with posthog-js-lite and returns its origin. The shop passes on the
// paths below /ingest.
func (s *service) startLiteShop(config map[string]any) string {
	page := template.Must(template.ParseFiles("testdata/sdks/lite.html"))
	ingest := proxyTo(s.t, s.url)
	files := map[string]string{"/posthog-js-lite.js": filepath.Join(depstest.Modules(s.t, depstest.NPM),
		"posthog-js-lite", "lib", "index.esm.js")}
	return startSite(s.t, files, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/ingest/") {
			ingest.ServeHTTP(w, r)
			return
		}
		assert.NoError(s.t, page.Execute(w, map[string]any{"Token": s.token, "Config": config}))
	})
}

// posthog-js up to 1.121 captures clicks only if /decide/ asks for it.
func testPostHogJSOldest(t *testing.T, browser context.Context) {
	s := startService(t)
	stream := s.startReader()
	shop := startShop(t, depstest.PostHogJSOldest, s.token, map[string]any{"api_host": s.url})
	tab := browsertest.Open(t, browser)
	home, thanks := shop.url+"/", shop.url+"/orders/1001/thanks"

	tab.Do("come to the shop", chromedp.Navigate(home), chromedp.Poll[chromedp.Void](autocaptures))
	tab.Do("log in", logIn)
	s.awaitEvent("$identify")
	tab.Do("click inside a button", chromedp.Click(chromedp.ID("add-text")))
	s.await(userID, 2)
	tab.Do("go on", chromedp.Navigate(thanks), chromedp.WaitVisible(chromedp.ID("rate")))
	s.checkActions(stream, 2, activity.NewAction(activity.TypePageview, activity.Target{}, home),
		activity.NewAction(activity.TypeClick, activity.Target{Label: "Add to cart"}, home),
		activity.NewAction(activity.TypePageview, activity.Target{}, thanks))
	for _, c := range s.calls() {
		assert.Contains(t, []int{http.StatusOK, http.StatusNoContent}, c.status, "%s %s", c.method, c.path)
	}
	s.checkOnce(t)
	assert.Empty(t, tab.Complaints())
}

// startSDKShop starts a shop of another origin whose pages load an SDK, but for the page away, and
// returns its origin.
func (s *service) startSDKShop(sdk, name, strategy string) string {
	page := template.Must(template.ParseFiles("testdata/sdks/browser.html"))
	files := map[string]string{"/sdk.js": depstest.File(s.t, sdk)}
	return startSite(s.t, files, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			_, _ = w.Write([]byte(`<!doctype html><link rel="icon" href="data:,"><title>away</title>`))
			return
		}
		assert.NoError(s.t, page.Execute(w, map[string]any{"Token": s.token, "Server": s.url, "SDK": name,
			"Strategy": strategy}))
	})
}

// eventID is the ID that an SDK gives an event.
var eventID = regexp.MustCompile(`"(?:messageId|insert_id)":"([^"]+)"`)

// eventIDs returns the IDs of the events that have arrived, sorted.
func (s *service) eventIDs() (ids []string) {
	for _, c := range s.calls() {
		ids = append(ids, values(eventID, c.body)...)
	}
	slices.Sort(ids)
	return ids
}

// The browser SDKs of other sources report a visit to a server of another origin. The server has
// each reported event once, under the user who identifies in the visit, and has no typed text.
func testBrowserSDKs(t *testing.T, browser context.Context) {
	const typedText = "typed-s3cr3t"
	for _, sdk := range []struct {
		name, strategy, file string
		clicks               []string // the clicks and changes of the first page
		sent                 int      // at least, before the visitor leaves, with identities and events that nobody listed
	}{
		{"segment", "standard", depstest.Segment, []string{"User did Added"}, 4},
		{"segment", "batching", depstest.Segment, []string{"User did Added"}, 4},
		{"rudderstack", "", depstest.RudderStack, []string{"User did Added"}, 4},
		{"jitsu", "", depstest.Jitsu, []string{"User did Added"}, 4},
		{"amplitude", "", depstest.Amplitude, // reports fields and clicks by itself
			[]string{"User changed the #note field", "User clicked #pad", "User clicked Add to cart", "User did Added"}, 10},
	} {
		t.Run(sdk.name+" "+sdk.strategy, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			stream := s.startReader()
			shop := s.startSDKShop(sdk.file, sdk.name, sdk.strategy)
			tab := browsertest.Open(t, browser)
			tab.Do("come to the shop", chromedp.Navigate(shop+"/kettles"))
			tab.Await("the SDK is there", `document.title === "loaded"`)
			tab.Do("act", chromedp.Evaluate[chromedp.Void](`sdk.page()`),
				chromedp.SendKeys(chromedp.ID("password"), typedText), chromedp.SendKeys(chromedp.ID("note"), typedText),
				chromedp.SendKeys(chromedp.ID("pad"), typedText), chromedp.Click(chromedp.ID("pad")),
				chromedp.Click(chromedp.ID("add")))
			waittest.Until(t, "the click is reported", func() bool {
				return slices.ContainsFunc(s.calls(), func(c call) bool { return strings.Contains(c.body, `"Added"`) })
			})
			tab.Do("log in", chromedp.Evaluate[chromedp.Void](`sdk.identify('`+userID+`', '`+email+`')`))
			tab.Do("go on", chromedp.Evaluate[chromedp.Void](`history.pushState({}, '', '/checkout'); sdk.page(); `+
				`document.getElementById('add').onclick = null`))
			want := []string{"User landed on the kettles page"}
			for _, click := range sdk.clicks {
				want = append(want, click+" on the kettles page")
			}
			want = append(want, "User landed on the checkout page")
			s.await(userID, len(want))
			waittest.Until(t, "what the SDK says it has sent has arrived, once", func() bool {
				arrived := s.eventIDs()
				said := strings.Fields(tab.Eval(`said.sort().join(' ')`))
				return len(said) >= sdk.sent && slices.Equal(said, arrived)
			})

			tab.Do("leave", chromedp.Evaluate[chromedp.Void](`sdk.track('Left')`), chromedp.Navigate(shop+"/away"))
			want = append(want, "User did Left on the checkout page")
			if sdk.name == "amplitude" { // sends the remaining events when the visitor comes back
				tab.Do("come back", chromedp.Navigate(shop+"/kettles"))
				want = append(want, want[0])
			}
			s.await(userID, len(want))
			s.checkVisit(stream, want)
			_, streamed := stream.read()
			_, found := s.lookup(userID)
			assert.NotContains(t, streamed+found, typedText)
			// Amplitude, and Segment in batches, repeat the requests under way when the visitor
			// leaves.
			if arrived := s.eventIDs(); sdk.name != "amplitude" && sdk.strategy != "batching" {
				assert.Equal(t, slices.Compact(slices.Clone(arrived)), arrived, "nothing is sent twice")
			}
			for _, c := range s.calls() {
				assert.Less(t, c.status, 300, "%s %s", c.method, c.path)
				assert.NotContains(t, strings.ToLower(c.query), "retry")
			}
			assert.Empty(t, tab.Complaints())
		})
	}
}

// Amplitude's rage and dead clicks mark their own clicks.
func testAmplitudesMarks(t *testing.T, browser context.Context) {
	s := startService(t, func(o *liveactivity.Options) {
		o.Products[0].Events = liveactivity.EventRules{"$rageclick": {}, "$dead_click": {}}
	})
	shop := s.startSDKShop(depstest.Amplitude, "amplitude", "frustration")
	tab := browsertest.Open(t, browser)
	tab.Do("come to the shop", chromedp.Navigate(shop+"/kettles"))
	tab.Await("the SDK is there", `document.title === "loaded"`)
	tab.Do("lose patience", chromedp.Evaluate[chromedp.Void](`sdk.identify('`+userID+`', '`+email+`')
		for (let i = 0; i < 5; i++) { // by script, as a busy machine clicks too slowly
			add.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))
			add.click()
		}`))
	var marks []string
	waittest.Until(t, "a rage click and a dead one", func() bool {
		got, _ := s.lookup(userID)
		marks = nil
		for _, a := range got.Actions {
			if len(a.Marks) > 0 {
				assert.Equal(t, "Click Add to cart", a.Title)
				marks = append(marks, a.Marks...)
			}
		}
		return slices.Contains(marks, activity.MarkRage) && slices.Contains(marks, activity.MarkDead)
	})
	got, _ := s.lookup(userID)
	assert.Equal(t, 5, len(slices.DeleteFunc(got.Actions, func(a activity.Action) bool {
		return a.Type != activity.TypeClick
	})), "each click once")
	assert.Empty(t, tab.Complaints())
}

// checkVisit checks that live activity and the stream have these actions, each once and in
// this order.
func (s *service) checkVisit(stream *reader, want []string) {
	s.t.Helper()
	got, _ := s.lookup(userID)
	var found []string
	for _, a := range got.Actions {
		found = append(found, a.Description)
	}
	assert.Equal(s.t, want, found)
	streamed := stream.await(s.t, "", len(want))
	slices.SortStableFunc(streamed, func(a, b activity.BatchAction) int {
		return cmp.Compare(a.TimestampStart, b.TimestampStart)
	})
	found = nil
	for _, a := range streamed {
		found = append(found, a.Description)
	}
	assert.Equal(s.t, want, found)
}

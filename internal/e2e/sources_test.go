package e2e

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

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

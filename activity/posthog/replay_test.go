package posthog_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// captured is a request as it was recorded.
type captured struct {
	number  string // as in the name of its files
	body    []byte
	arrival time.Time
	Method  string
	URL     string
	Headers map[string]string
	T       int64 // milliseconds since the epoch
}

func (c captured) request() *http.Request {
	r := httptest.NewRequest(c.Method, c.URL, bytes.NewReader(c.body))
	for key, value := range c.Headers {
		r.Header.Set(key, value)
	}
	return r
}

// capturedRequests returns a scenario's requests in the order of their arrival.
func capturedRequests(t testing.TB, scenario string) []captured {
	t.Helper()
	metas, err := filepath.Glob(filepath.Join("testdata", "raw", scenario, "*.meta.json"))
	require.NoError(t, err)
	require.NotEmpty(t, metas)
	requests := make([]captured, len(metas))
	for i, meta := range metas {
		c := &requests[i]
		b, err := os.ReadFile(meta)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, c))
		c.number, _, _ = strings.Cut(filepath.Base(meta), "_")
		c.arrival = time.UnixMilli(c.T)
		c.body, err = os.ReadFile(strings.TrimSuffix(meta, ".meta.json") + ".body")
		if c.Method == http.MethodPost {
			require.NoError(t, err)
		}
	}
	return requests
}

// page is the page of an action: its URL, raw and canonical.
type page struct{ raw, canonical string }

// visitor is the session and the user ID of an action.
type visitor struct{ session, user string }

// did is an action as its readers see it.
type did struct {
	typ, title, description string
	page
	visitor
}

// knows is an event's knowledge of its session.
type knows struct {
	visitor
	email string
}

// brought is the expected result of a request to an event endpoint.
type brought struct {
	ignored    int
	actions    []did
	identities []knows
}

func doing(typ string) func(p page, v visitor, title, description string) did {
	return func(p page, v visitor, title, description string) did { return did{typ, title, description, p, v} }
}

var landed, clicked, changed, submitted = doing("pageview"), doing("click"), doing("change"), doing("submit")

// replays are the scenarios, each with the expected results of its requests by number. The calls to
// /flags bring nothing and are not listed.
var replays = map[string]map[string]brought{
	"main": func() map[string]brought {
		const origin = "http://shop.localhost:33649"
		home := page{origin + "/", origin + "/"}
		settings := page{origin + "/account/settings?tab=billing#card", origin + "/account/settings"}
		pricing := page{origin + "/pricing?plan=pro#faq", origin + "/pricing"}
		thanks := page{origin + "/thanks", origin + "/thanks"}
		anonymous := visitor{"01a1f851-28a4-7a18-a7a3-677ced3213df", "01a1f851-2859-75c3-8820-b15ed2acefcb"}
		ada := visitor{anonymous.session, "user_42"}
		afterReset := visitor{"01a1f851-5f54-7463-91b5-9f6ae248d3e6", "01a1f851-5f1b-72e1-a8ea-ff42e2174850"}
		return map[string]brought{
			"003": {actions: []did{landed(home, anonymous, "Page Load: Home", "User landed on the home page")}},
			"005": {ignored: 1, actions: []did{ // the custom event add_to_cart
				clicked(home, anonymous, "Click Buy now", "User clicked Buy now on the home page"),
				clicked(home, anonymous, "Click Close dialog", "User clicked Close dialog on the home page"),
				clicked(home, anonymous, `Click Say "hi"; then: go`, `User clicked Say "hi"; then: go on the home page`),
				clicked(home, anonymous, "Click Add to cart", "User clicked Add to cart on the home page"),
				clicked(home, anonymous, "Click Größe wählen 日本語 🛒", "User clicked Größe wählen 日本語 🛒 on the home page"),
				clicked(home, anonymous, "Click Div button", "User clicked Div button on the home page"),
				clicked(home, anonymous, "Click Loose submit", "User clicked Loose submit on the home page"),
			}},
			"006": {identities: []knows{{ada, "ada@example.com"}}},
			"009": {ignored: 2, actions: []did{ // $rageclick and $groupidentify
				clicked(home, anonymous, "Click Buy now", "User clicked Buy now on the home page"),
				clicked(home, anonymous, "Click Buy now", "User clicked Buy now on the home page"),
				clicked(home, anonymous, "Click Buy now", "User clicked Buy now on the home page"),
				clicked(home, anonymous, "Click Buy now", "User clicked Buy now on the home page"),
				changed(home, anonymous, "Change plan field", "User changed the plan field on the home page"),
				changed(home, anonymous, "Change email field", "User changed the email field on the home page"),
				clicked(home, anonymous, "Click tos", "User clicked tos on the home page"),
				changed(home, anonymous, "Change tos field", "User changed the tos field on the home page"),
				changed(home, anonymous, "Change password field", "User changed the password field on the home page"),
				changed(home, anonymous, "Change msg field", "User changed the msg field on the home page"),
				clicked(home, anonymous, "Click Sign up", "User clicked Sign up on the home page"),
				submitted(home, anonymous, "Submit signup form", "User submitted the signup form on the home page"),
				landed(settings, anonymous, "Page Load: Settings", "User landed on the settings page"),
				clicked(settings, ada, "Click Buy now", "User clicked Buy now on the settings page"),
			}, identities: []knows{{ada, ""}, {ada, ""}}}, // $set of a plan, $create_alias
			"010": {ignored: 1, actions: []did{ // $pageleave
				clicked(settings, ada, "Click See plans", "User clicked See plans on the settings page"),
			}},
			"014": {actions: []did{landed(pricing, ada, "Page Load: Pricing", "User landed on the pricing page")}},
			"015": {ignored: 1, actions: []did{ // $pageleave
				changed(pricing, ada, "Change email field", "User changed the email field on the pricing page"),
				clicked(pricing, ada, "Click Sign up", "User clicked Sign up on the pricing page"),
				submitted(pricing, ada, "Submit signup form", "User submitted the signup form on the pricing page"),
			}},
			"018": {actions: []did{landed(thanks, ada, "Page Load: Thanks", "User landed on the thanks page")}},
			"021": {actions: []did{clicked(thanks, afterReset, "Click Buy now", "User clicked Buy now on the thanks page")}},
		}
	}(),
	"base64": shortVisit("http://shop.localhost:43971", "01a1f84c-d76c-7242-9782-2bfa9b0a85fb",
		"01a1f84c-d72b-7d1e-ae44-3c834be08d25", "003", "005", "006", "008", "011"),
	"no_compression": shortVisit("http://shop.localhost:35813", "01a1f84c-acf2-7002-972c-21b7cf5dcdc5",
		"01a1f84c-acc6-792c-bb38-44749b27b9fe", "004", "006", "007", "009", "012"),
	"old_1.297.2": func() map[string]brought {
		const origin = "http://shop.localhost:43249"
		spa := page{origin + "/spa", origin + "/spa"}
		anonymous := visitor{"01a1f851-c14e-75fd-831f-b507c65c4d4b", "01a1f851-c12b-77f3-8e5d-2127e2b3816e"}
		ada := visitor{anonymous.session, "user_42"}
		visit := shortVisit(origin, anonymous.session, anonymous.user, "004", "006", "007", "009", "013")
		visit["009"] = brought{ignored: 1, actions: []did{ // $pageleave
			landed(spa, anonymous, "Page Load: Spa", "User landed on the spa page"),
			clicked(spa, ada, "Click Sign up", "User clicked Sign up on the spa page"),
			submitted(spa, ada, "Submit signup form", "User submitted the signup form on the spa page"),
			clicked(spa, ada, "Click See plans", "User clicked See plans on the spa page"),
		}}
		return visit
	}(),
	// A custom event; and an identity without a session to know it of.
	"posthog_node": {"001": {ignored: 2, identities: []knows{{visitor{"", "user_42"}, "ada@example.com"}}}},
}

// shortVisit returns the expected results that the shorter browser scenarios share, by the numbers
// of their requests: load the page, click, identify, click and leave, land.
func shortVisit(origin, session, anonymousID, load, click, identify, leave, land string) map[string]brought {
	home := page{origin + "/", origin + "/"}
	spa := page{origin + "/spa", origin + "/spa"}
	pricing := page{origin + "/pricing?plan=pro#faq", origin + "/pricing"}
	anonymous, ada := visitor{session, anonymousID}, visitor{session, "user_42"}
	return map[string]brought{
		load:     {actions: []did{landed(home, anonymous, "Page Load: Home", "User landed on the home page")}},
		click:    {actions: []did{clicked(home, anonymous, "Click Buy now", "User clicked Buy now on the home page")}},
		identify: {identities: []knows{{ada, "ada@example.com"}}},
		leave: {ignored: 1, actions: []did{ // $pageleave
			landed(spa, anonymous, "Page Load: Spa", "User landed on the spa page"),
			clicked(spa, ada, "Click See plans", "User clicked See plans on the spa page"),
		}},
		land: {actions: []did{landed(pricing, ada, "Page Load: Pricing", "User landed on the pricing page")}},
	}
}

// seen sorts events into actions and identities.
func seen(events []activity.Event) (actions []did, identities []knows) {
	for _, e := range events {
		v := visitor{e.SessionID, e.UserID}
		if e.Action == nil {
			identities = append(identities, knows{v, e.Email})
			continue
		}
		a := e.Action
		actions = append(actions, did{a.Type, a.Title, a.Description, page{a.RawURL, a.CanonicalURL}, v})
	}
	return actions, identities
}

// Every captured request is sent byte for byte, at its original time.
func TestReplay_capturedTraffic(t *testing.T) {
	scenarios, err := os.ReadDir(filepath.Join("testdata", "raw"))
	require.NoError(t, err)
	require.Len(t, scenarios, len(replays))
	for _, scenario := range scenarios {
		t.Run(scenario.Name(), func(t *testing.T) {
			want := replays[scenario.Name()]
			require.NotNil(t, want)
			synctest.Test(t, func(t *testing.T) {
				s := newService(intake.Options{})
				s.sink.ttl = 100 * 365 * 24 * time.Hour
				events := 0
				for _, c := range capturedRequests(t, scenario.Name()) {
					time.Sleep(time.Until(c.arrival))
					if s.replay(t, c, want[c.number]) {
						events++
					}
				}
				assert.Len(t, want, events, "every expectation was met by a request")
			})
		})
	}
}

// replay sends a captured request, asserts its result, and reports whether it was for an event
// endpoint.
func (s *service) replay(t *testing.T, c captured, want brought) bool {
	t.Helper()
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, c.request())
	if origin := c.Headers["origin"]; origin != "" {
		assert.Equal(t, origin, w.Header().Get("Access-Control-Allow-Origin"), c.number)
		assert.Equal(t, "true", w.Header().Get("Access-Control-Allow-Credentials"), c.number)
	}
	switch {
	case c.Method == http.MethodOptions:
		assert.Equal(t, http.StatusNoContent, w.Code, c.number)
		assert.Equal(t, c.Headers["access-control-request-headers"], w.Header().Get("Access-Control-Allow-Headers"))
		return false
	case strings.HasPrefix(c.URL, "/flags/"):
		requireFlags(t, w)
		assert.Empty(t, s.sink.take(shop), c.number)
		return false
	}
	assert.EqualValues(t, 1, requireOK(t, w).Status, c.number)
	requireCounts(t, w, len(want.actions)+len(want.identities), want.ignored)
	events := s.sink.take(shop)
	actions, identities := seen(events)
	assert.Equal(t, want.actions, actions, c.number)
	assert.Equal(t, want.identities, identities, c.number)
	for _, e := range events {
		assert.NoError(t, uuid.Validate(e.ID), c.number)
		assert.WithinRange(t, e.Time, c.arrival.Add(-4*time.Second), c.arrival, c.number) // batches leave every 3 s
	}
	return true
}

func requireFlags(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code)
	var flags object
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &flags))
	for _, field := range []string{"flags", "featureFlags", "featureFlagPayloads"} {
		assert.Equal(t, object{}, flags[field], field)
	}
	assert.Equal(t, false, flags["errorsWhileComputingFlags"])
	assert.Equal(t, false, flags["autocapture_opt_out"], "autocapture stays off without it")
	assert.Equal(t, []any{"gzip-js"}, flags["supportedCompression"])
	assert.Equal(t, object{"enable_collect_everything": true}, flags["config"], "nor does it start in old versions")
	assert.NotContains(t, flags, "surveys")
	assert.NotContains(t, flags, "quota_limited")
}

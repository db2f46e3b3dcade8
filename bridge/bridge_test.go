package bridge_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/bridge"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// post reports the body.
func post(b *bridge.Bridge, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/demo/actions", strings.NewReader(body)))
	return w
}

// click reports a click in the session and returns the count of the answer.
func click(t testing.TB, b *bridge.Bridge, session, label string) int {
	t.Helper()
	return accepted(t, post(b, fmt.Sprintf(`{"session_id":%q,"title":%q}`, session, "Click "+label)))
}

// accepted requires that a report was taken and returns the count of the answer.
func accepted(t testing.TB, w *httptest.ResponseRecorder) int {
	t.Helper()
	require.Equal(t, http.StatusAccepted, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var answer struct {
		Status string
		Count  int
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.JSONEq(t, fmt.Sprintf(`{"status":"accepted","count":%d}`, answer.Count), w.Body.String())
	return answer.Count
}

// get requests a path, which is escaped already.
func get(b *bridge.Bridge, target string, header http.Header) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)
	maps.Copy(r.Header, header)
	b.Handler().ServeHTTP(w, r)
	return w
}

// ask returns the answer of GET /context for the session.
func ask(t testing.TB, b *bridge.Bridge, escapedID string) bridge.Context {
	t.Helper()
	w := get(b, "/context/"+escapedID, nil)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"), "activity is personal")
	var c bridge.Context
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &c))
	return c
}

// requireDetail requires an error of that status with one sentence in it, and
// returns the sentence.
func requireDetail(t testing.TB, status int, w *httptest.ResponseRecorder) string {
	t.Helper()
	detail := httpxtest.Detail(t, status, w.Result())
	require.Regexp(t, `^[A-Z].*\.$`, detail)
	return detail
}

func titles(c bridge.Context) []string {
	titles := make([]string, len(c.Actions))
	for i, a := range c.Actions {
		titles[i] = a.Title
	}
	return titles
}

func TestContext_hasExactlyTheFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(nil)
		start := activity.Seconds(time.Now())
		accepted(t, post(b, `{"session_id":"s","type":"pageview","title":"Page Load: `+
			`Vendors","url":"https://Portal.example:443/vendors?a=1&b=<2>"}`))
		time.Sleep(1500 * time.Millisecond)
		accepted(t, post(b, `{"session_id":"s","title":"Click Approve vendor","description":"User clicked Approve",
			"url":"https://portal.example/vendors/42",
			"vendor":{"id":"42","name":"Acme Supplies","status":"blocked","missing_documents":["W-9 form"]}}`))

		b.Context("s").Actions[0].Title = "changed" // it is a copy
		w := get(b, "/context/s", nil)
		var got map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		assert.Equal(t, map[string]any{
			"session_id": "s",
			"summary": "Hi! I can see you visited vendors and clicked Approve vendor. Acme Supplies is blocked. " +
				"Missing documents: W-9 form.",
			"actions": []any{
				map[string]any{"type": "pageview", "title": "Page Load: Vendors", "description": "User visited vendors",
					"timestamp_start": start, "timestamp_end": start + 1.5, "index": 0.0,
					"raw_url": "https://Portal.example:443/vendors?a=1&b=<2>", "canonical_url": "https://portal.example/vendors"},
				map[string]any{"type": "click", "title": "Click Approve vendor", "description": "User clicked Approve",
					"timestamp_start": start + 1.5, "timestamp_end": start + 1.5, "index": 1.0,
					"raw_url": "https://portal.example/vendors/42", "canonical_url": "https://portal.example/vendors/:id"},
			},
			"vendor": map[string]any{"id": "42", "name": "Acme Supplies", "status": "blocked",
				"missing_documents": []any{"W-9 form"}},
		}, got)
		assert.Contains(t, w.Body.String(), "?a=1&b=<2>", "URLs stay readable")
	})
}

func TestContext_ofAnUnknownSessionIsEmptyAndFriendly(t *testing.T) {
	b := newBridge(nil)
	click(t, b, "known", "Save")
	w := get(b, "/context/unknown", nil)
	require.Equal(t, http.StatusOK, w.Code)
	var got map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	assert.Contains(t, got["summary"], "Hi!")
	delete(got, "summary")
	assert.Equal(t, map[string]any{"session_id": "unknown", "actions": []any{}, "vendor": nil}, got)
}

func TestWindow_rollsAfter30(t *testing.T) {
	for name, tt := range map[string]struct {
		opts *bridge.Options
		want int
	}{
		"default": {nil, 30},
		"zero":    {&bridge.Options{}, 30},
		"one":     {&bridge.Options{MaxEvents: 1}, 1},
		"five":    {&bridge.Options{MaxEvents: 5}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(tt.opts)
			for i := range 75 {
				assert.Equal(t, min(i+1, tt.want), click(t, b, "s", fmt.Sprint(i)), "the count of the answer")
			}
			c := ask(t, b, "s")
			require.Len(t, c.Actions, tt.want)
			for i, a := range c.Actions {
				assert.Equal(t, fmt.Sprint("Click ", 75-tt.want+i), a.Title, "the newest are kept, oldest first")
				assert.Equal(t, i, a.Index)
			}
		})
	}
}

func TestSessions_leastRecentlyHeardOfAreForgottenFirst(t *testing.T) {
	b := newBridge(&bridge.Options{MaxSessions: 3})
	for _, session := range []string{"a", "b", "c"} {
		click(t, b, session, "Save")
	}
	click(t, b, "a", "Save") // is heard of again
	ask(t, b, "b")           // being asked for does not count
	click(t, b, "d", "Save")
	assert.Equal(t, 3, b.Sessions())
	for session, want := range map[string]int{"a": 2, "b": 0, "c": 1, "d": 1} {
		assert.Len(t, ask(t, b, session).Actions, want, session)
	}
}

func TestSessions_areBoundedByDefault(t *testing.T) {
	b := newBridge(nil)
	for i := range bridge.DefaultMaxSessions + 10 {
		require.NoError(t, b.Add(t.Context(), activitytest.NewBatch("acme", fmt.Sprint(i), "",
			activitytest.Click(time.Now(), "Save", "https://a.example/"))))
	}
	assert.Equal(t, 10_000, b.Sessions())
}

func TestSessions_areBoundedInBytes(t *testing.T) {
	const limit = 512 << 10
	long := strings.Repeat("word ", 100)
	grown := heaptest.After(func() {
		b := newBridge(&bridge.Options{MaxBytes: limit})
		for i := range 750 {
			accepted(t, post(b, fmt.Sprintf(`{"session_id":"s%d","title":"t","description":%q,"url":"https://a.example/`+
				`%[2]s","vendor":{"id":%[2]q,"status":"blocked","missing_documents":[%[2]q]}}`, i, long)))
		}
		assert.Less(t, b.Sessions(), 500)
		assert.Len(t, ask(t, b, "s749").Actions, 1, "the one heard of last")
		for i := range 750 {
			e := activity.BatchAction{Action: activity.Action{Title: "t", TimestampStart: activity.Seconds(time.Now())}}
			e.Properties = map[string]string{long[:60]: long[:60], long[5:65]: long[:50], long[10:60]: long[:40]}
			require.NoError(t, b.Add(t.Context(), activity.Batch{SessionID: fmt.Sprint("e", i),
				Actions: []activity.BatchAction{e}}))
		}
		assert.Empty(t, ask(t, b, "s0").Actions)
		kept = b
	})
	assert.Less(t, grown, int64(limit+limit/4))
	assert.Greater(t, grown, int64(limit/2), "what is promised is used")
	kept = nil
}

// kept keeps a bridge alive while the heap is measured.
var kept *bridge.Bridge

const vendor = `"vendor":{"id":"7","name":"Acme","status":"blocked"}`

func TestSessions_areForgottenAfterTheTTL(t *testing.T) {
	for name, tt := range map[string]struct {
		opts *bridge.Options
		ttl  time.Duration
	}{
		"default":    {nil, 4 * time.Hour},
		"one minute": {&bridge.Options{TTL: time.Minute}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBridge(tt.opts)
				accepted(t, post(b, `{"session_id":"s","title":"Click Save",`+vendor+`}`))
				time.Sleep(tt.ttl)
				c := ask(t, b, "s")
				require.Len(t, c.Actions, 1)
				require.NotNil(t, c.Vendor)

				time.Sleep(time.Microsecond)
				c = ask(t, b, "s")
				assert.Empty(t, c.Actions)
				assert.Nil(t, c.Vendor)
				assert.Equal(t, 1, click(t, b, "s", "Save"), "it begins anew")
				assert.Nil(t, ask(t, b, "s").Vendor)
			})
		})
	}
}

func TestSessions_thatGoOnLoseOnlyOldActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(&bridge.Options{TTL: time.Hour})
		accepted(t, post(b, `{"session_id":"s","title":"Click First",`+vendor+`}`))
		time.Sleep(40 * time.Minute)
		assert.Equal(t, 2, click(t, b, "s", "Second"))
		time.Sleep(40 * time.Minute)
		c := ask(t, b, "s")
		assert.Equal(t, []string{"Click Second"}, titles(c))
		assert.NotNil(t, c.Vendor, "it is that of the session")
		assert.Equal(t, 2, click(t, b, "s", "Third"))
	})
}

func TestSessions_expiredOnesAreFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(&bridge.Options{TTL: time.Hour})
		for i := range 100 {
			click(t, b, fmt.Sprint(i), "Save")
		}
		time.Sleep(30 * time.Minute)
		click(t, b, "50", "Save")
		assert.Equal(t, 100, b.Sessions())
		time.Sleep(31 * time.Minute)
		click(t, b, "new", "Save")
		assert.Equal(t, 2, b.Sessions())
	})
}

func TestVendor_isTheOneReportedLast(t *testing.T) {
	b := newBridge(nil)
	report := func(session, rest string) {
		accepted(t, post(b, fmt.Sprintf(`{"session_id":%q,"title":"Click Save"%s}`, session, rest)))
	}
	report("s", "")
	assert.Nil(t, ask(t, b, "s").Vendor)
	report("s", `,"vendor":{"id":"1","name":"Acme","status":"blocked","missing_documents":["W-9 form","permit"]}`)
	report("s", "")
	report("s", `,"vendor":null`)
	report("other", `,"vendor":{"id":"3","name":"Other","status":"pending"}`)
	assert.Equal(t, &bridge.Vendor{ID: "1", Name: "Acme", Status: bridge.Blocked,
		MissingDocuments: []string{"W-9 form", "permit"}}, ask(t, b, "s").Vendor)
	report("s", `,"vendor":{"id":"2","status":"approved"}`)
	assert.Equal(t, &bridge.Vendor{ID: "2", Status: bridge.Approved, MissingDocuments: []string{}}, ask(t, b, "s").Vendor,
		"nothing of the one before is left")
}

const page = "https://app.acme.example/vendors/42"

func TestAdd_filesActionsOfTheStreamInTimeOrder(t *testing.T) {
	b := newBridge(nil)
	now := time.Now()
	later := activitytest.Click(now.Add(-time.Second), "Export", page)
	require.NoError(t, b.Add(t.Context(), activitytest.NewBatch("acme", "s", "ada", later)))
	click(t, b, "s", "Approve")
	earlier := activitytest.NewBatch("acme", "s", "ada", activitytest.Pageview(now.Add(-time.Minute), page),
		activitytest.Click(now.Add(-30*time.Second), "Open", page))
	require.NoError(t, b.Add(t.Context(), earlier))

	c := ask(t, b, "s")
	assert.Equal(t, []string{"Page Load: Vendors detail", "Click Open", "Click Export", "Click Approve"}, titles(c))
	for i, a := range c.Actions {
		assert.Equal(t, i, a.Index)
		if i > 0 {
			assert.Equal(t, a.TimestampStart, c.Actions[i-1].TimestampEnd, "an action ends where the next one starts")
		}
	}
	assert.Equal(t, "Hi! I can see you visited vendors detail, and clicked Open, Export and Approve.", c.Summary)

	later.Marks = []string{activity.MarkDead}
	require.NoError(t, b.Add(t.Context(), activitytest.NewBatch("acme", "s", "ada", later)))
	c = ask(t, b, "s")
	require.Len(t, c.Actions, 4, "a click that comes again with marks is there once")
	assert.Equal(t, later.Marks, c.Actions[2].Marks)
}

func TestAdd_changesNothing(t *testing.T) {
	now := time.Now()
	have := activitytest.NewBatch("acme", "s", "", activitytest.Click(now, "Save", page),
		activitytest.Click(now, "Send", page))
	for name, batch := range map[string]activity.Batch{
		"the same again":    have,
		"without a session": activitytest.NewBatch("acme", "", "ada", activitytest.Click(now, "Other", page)),
		"too old":           activitytest.NewBatch("acme", "s", "", activitytest.Click(now.Add(-5*time.Hour), "Other", page)),
		"nothing":           activitytest.NewBatch("acme", "s", ""),
		"a new session, but only what is too old": activitytest.NewBatch("acme", "new", "",
			activitytest.Click(now.Add(-5*time.Hour), "Other", page)),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(nil)
			require.NoError(t, b.Add(t.Context(), have))
			require.NoError(t, b.Add(t.Context(), batch))
			assert.Equal(t, []string{"Click Save", "Click Send"}, titles(b.Context("s")))
			assert.Equal(t, 1, b.Sessions())
			assert.Empty(t, b.Context("").Actions)
		})
	}
}

func TestAdd_olderThanAFullWindowChangesNothing(t *testing.T) {
	b := newBridge(&bridge.Options{MaxEvents: 2})
	now := time.Now()
	at := func(seconds int) activity.Action {
		return activitytest.Click(now.Add(time.Duration(seconds)*time.Second), fmt.Sprint(seconds), page)
	}
	require.NoError(t, b.Add(t.Context(), activitytest.NewBatch("acme", "s", "", at(-20), at(-10), at(-30))))
	assert.Equal(t, []string{"Click -20", "Click -10"}, titles(b.Context("s")))
}

func TestAdd_boundsItsMemory(t *testing.T) {
	b := newBridge(nil)
	long := strings.Repeat("long words ", 1000)
	a := activitytest.Click(time.Now(), "Save", page)
	a.Title, a.Description, a.RawURL, a.CanonicalURL = long, long, page+"?"+long, page+"/"+long
	require.NoError(t, b.Add(t.Context(), activitytest.NewBatch("acme", "s", "", a)))
	got := b.Context("s").Actions[0]
	assert.Less(t, len(got.Title), 90)
	assert.Less(t, len(got.Description), 510)
	assert.LessOrEqual(t, len(got.RawURL), 2<<10)
	assert.LessOrEqual(t, len(got.CanonicalURL), 2<<10)
}

func TestBridge_concurrentSessionsDoNotMix(t *testing.T) {
	const sessions, reports = 8, 100
	b := newBridge(nil)
	var wg sync.WaitGroup
	for s := range sessions {
		id := fmt.Sprint("session-", s)
		wg.Go(func() {
			for i := range reports {
				w := post(b, fmt.Sprintf(`{"session_id":%q,"title":"Click %s `+
					`%d","vendor":{"id":%q,"status":"pending","missing_documents":[%q]}}`, id, id, i, id, id))
				assert.Equal(t, http.StatusAccepted, w.Code)
			}
		})
		wg.Go(func() {
			for i := range reports {
				batch := activitytest.NewBatch("acme", id, "", activitytest.Click(time.Now(), fmt.Sprint(id, " stream ", i), page))
				assert.NoError(t, b.Add(t.Context(), batch))
			}
		})
		wg.Go(func() {
			for range reports {
				c := b.Context(id)
				for i, a := range c.Actions {
					assert.Contains(t, a.Title, id)
					assert.Equal(t, i, a.Index)
				}
				if c.Vendor != nil {
					assert.Equal(t, id, c.Vendor.ID)
				}
			}
		})
	}
	wg.Wait()
	for s := range sessions {
		c := b.Context(fmt.Sprint("session-", s))
		assert.Len(t, c.Actions, 30)
		assert.True(t, slices.IsSortedFunc(c.Actions, func(a, b activity.Action) int {
			return a.Start().Compare(b.Start())
		}))
	}
}

// newBridge returns a bridge with valid options.
func newBridge(opts *bridge.Options) *bridge.Bridge { return musttest.New(bridge.New(opts)) }

func TestNew_reportsEverythingThatIsWrong(t *testing.T) {
	_, err := bridge.New(&bridge.Options{MaxSessions: -1, MaxEvents: -1, MaxBytes: -1, TTL: -1,
		AllowedOrigins: []string{"https://portal.example", "portal.example", "https://portal.example/path"}})
	assert.Equal(t, []string{"bridge.MaxSessions", "bridge.MaxEvents", "bridge.MaxBytes", "bridge.TTL",
		"bridge.AllowedOrigins", "bridge.AllowedOrigins"}, musttest.Mistakes(t, err))
}

// A bridge keeps the words of a report, not its bytes: a report may be padded to any size.
func TestBridge_keepsNothingOfARequestButItsWords(t *testing.T) {
	b := newBridge(nil)
	pad := strings.Repeat(" ", 60<<10)
	grown := heaptest.After(func() {
		for i := range 30 {
			accepted(t, post(b, fmt.Sprintf(`{"session_id":"s%d","title":"%sok"}`, i, pad)))
			accepted(t, post(b, fmt.Sprintf(`{"session_id":"s%d","title":"t","description":"%sok"}`, i, pad)))
			accepted(t, post(b, fmt.Sprintf(`{"session_id":"s%d","title":"t","vendor":{"id":"v","status":"blocked",`+
				`"name":"%sok"}}`, i, pad)))
			accepted(t, post(b, fmt.Sprintf(`{"session_id":"t%d","title":"t","vendor":{"id":"v","status":"blocked",`+
				`"missing_documents":["%sok"]}}`, i, pad)))
			var batch activity.Batch
			batch.SessionID = fmt.Sprint("u", i)
			a := activity.BatchAction{}
			a.Title, a.TimestampStart = (pad + "ok")[len(pad):], activity.Seconds(time.Now()) // of a text of its own
			batch.Actions = append(batch.Actions, a)
			require.NoError(t, b.Add(t.Context(), batch))
		}
	})
	assert.Less(t, grown, int64(1<<20))
	assert.Equal(t, 90, b.Sessions())
}

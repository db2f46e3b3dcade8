package recent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// newLookup mounts a lookup as its documentation says.
func newLookup(store recent.Store, maxEvents int) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", musttest.New(recent.NewLookup(store, maxEvents)))
	return mux
}

func request(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// lookUp requires an answer with activity.
func lookUp(t *testing.T, h http.Handler, target string) recent.LiveActivity {
	t.Helper()
	w := request(h, target)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"), "activity is personal")
	var live recent.LiveActivity
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &live))
	require.Equal(t, len(live.Actions), live.Count)
	return live
}

func TestLookup_answersWithExactlyTheFields(t *testing.T) {
	m := musttest.New(recent.NewMemory(nil))
	start := time.Now().Add(-time.Minute).Truncate(time.Second)
	b := activitytest.NewBatch("acme", "s", "ada",
		activitytest.Pageview(start, "https://app.acme.example/projects/42?a=1&b=<2>"),
		activitytest.Click(start.Add(1500*time.Millisecond), "Export CSV", "https://app.acme.example/projects/42"))
	b.Email = "ada@example.com"
	require.NoError(t, m.Add(t.Context(), b))

	before := activity.Seconds(time.Now())
	w := request(newLookup(m, 0), "/users/acme/ada/live-activity")
	require.Equal(t, http.StatusOK, w.Code)

	var got map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	asOf, ok := got["as_of"].(float64)
	require.True(t, ok)
	assert.GreaterOrEqual(t, asOf, before)
	assert.LessOrEqual(t, asOf, activity.Seconds(time.Now()))
	delete(got, "as_of")
	first := activity.Seconds(start)
	assert.Equal(t, map[string]any{
		"product_id": "acme", "user_id": "ada", "count": 2.0,
		"actions": []any{
			map[string]any{"type": "pageview", "title": "Page Load: Projects detail",
				"description": "User landed on the projects detail page", "timestamp_start": first, "timestamp_end": first + 1.5,
				"index": 0.0, "raw_url": "https://app.acme.example/projects/42?a=1&b=<2>",
				"canonical_url": "https://app.acme.example/projects/:id"},
			map[string]any{"type": "click", "title": "Click Export CSV",
				"description":     "User clicked Export CSV on the projects detail page",
				"timestamp_start": first + 1.5, "timestamp_end": first + 1.5, "index": 1.0,
				"raw_url": "https://app.acme.example/projects/42", "canonical_url": "https://app.acme.example/projects/:id"},
		},
	}, got)
	assert.Contains(t, w.Body.String(), "?a=1&b=<2>", "URLs stay readable")
}

func TestLookup_capsItsLimit(t *testing.T) {
	m := musttest.New(recent.NewMemory(&recent.MemoryOptions{MaxEvents: 100}))
	addClicks(t, m, "ada", "s", time.Now().Add(-time.Hour), 80)
	h := newLookup(m, 60)
	for query, want := range map[string]int{"": 60, "?limit=1": 1, "?limit=7": 7, "?limit=%2B7": 7, "?limit=60": 60,
		"?limit=0": 60, "?limit=-1": 60, "?limit=61": 60, "?limit=9223372036854775807": 60,
		"?limit=99999999999999999999999": 60, "?a=b&limit=2&c": 2} {
		t.Run(query, func(t *testing.T) {
			live := lookUp(t, h, "/users/acme/ada/live-activity"+query)
			assert.Len(t, live.Actions, want)
			for i, a := range live.Actions {
				assert.Equal(t, i, a.Index)
			}
			all := musttest.New(m.Recent(t.Context(), "acme", recent.Subject{UserID: "ada"}, 1))
			newest := live.Actions[want-1].Start().UnixMicro()
			assert.Equal(t, all.Records[0].Start, newest, "the newest are returned, oldest first")
		})
	}
	assert.Len(t, lookUp(t, newLookup(m, 0), "/users/acme/ada/live-activity").Actions, 50, "by default")
}

func TestLookup_refusesALimitThatIsNoInteger(t *testing.T) {
	h := newLookup(musttest.New(recent.NewMemory(nil)), 0)
	for _, limit := range []string{"", "&limit=3", "abc", "1.5", "5.0", "1e3", "0x10", "1_000", "%201", "+1", "1%20",
		"--1", "-", "%00", "%EF%BC%95", "null", "NaN", "%zz", "5;", "5%"} {
		w := request(h, "/users/acme/ada/live-activity?limit="+limit)
		assert.Contains(t, httpxtest.Detail(t, http.StatusBadRequest, w.Result()), "limit", limit)
	}
}

func TestLookup_takesAnyID(t *testing.T) {
	const product, user = "a/b é", "../\x00\"%\\\u2028"
	m := musttest.New(recent.NewMemory(nil))
	click := activitytest.Click(time.Now(), "Save", page)
	require.NoError(t, m.Add(t.Context(), activitytest.NewBatch(product, "s", user, click)))
	live := lookUp(t, newLookup(m, 0), "/users/"+url.PathEscape(product)+"/"+url.PathEscape(user)+"/live-activity")
	assert.Equal(t, product, live.ProductID)
	assert.Equal(t, user, live.UserID)
	assert.Len(t, live.Actions, 1)
}

// failing is a store that cannot be reached.
type failing struct {
	recent.Store
	err error
}

func (s failing) Recent(context.Context, string, recent.Subject, int) (recent.Snapshot, error) {
	return recent.Snapshot{Records: recent.Records{{JSON: "half an answer"}}}, s.err
}

func TestLookup_withoutItsStoreIs503(t *testing.T) {
	const secret = "dial tcp 10.0.0.7:6379: connect: connection refused, password hunter2"
	store := failing{err: errors.New(secret)}
	w := request(newLookup(store, 0), "/users/acme/ada/live-activity")
	detail := httpxtest.Detail(t, http.StatusServiceUnavailable, w.Result())
	for _, word := range strings.Fields(secret) {
		assert.NotContains(t, detail, word)
	}
	assert.NotContains(t, w.Body.String(), "half an answer")
	assert.Regexp(t, `^[1-9]\d*$`, w.Header().Get("Retry-After"))

	l := musttest.New(recent.NewLookup(store, 0))
	_, err := l.Get(t.Context(), "acme", "ada", 0)
	require.ErrorIs(t, err, store.err)
	got, err := l.AppendJSON(t.Context(), []byte("before"), "acme", "ada", 0)
	require.ErrorIs(t, err, store.err)
	require.Equal(t, "before", string(got))
}

func TestLookup_getAgreesWithTheJSON(t *testing.T) {
	m := musttest.New(recent.NewMemory(nil))
	addClicks(t, m, "ada", "s", time.Now().Add(-time.Minute), 5)
	l := musttest.New(recent.NewLookup(m, 4))
	for _, c := range []struct {
		user        string
		limit, want int
	}{{"ada", 0, 4}, {"ada", -1, 4}, {"ada", 3, 3}, {"ada", 5, 4}, {"bob", 0, 0}} {
		t.Run(fmt.Sprint(c.user, c.limit), func(t *testing.T) {
			live := musttest.New(l.Get(t.Context(), "acme", c.user, c.limit))
			assert.Len(t, live.Actions, c.want)
			assert.NotNil(t, live.Actions)

			data := musttest.New(l.AppendJSON(t.Context(), []byte("before"), "acme", c.user, c.limit))
			rest, ok := strings.CutPrefix(string(data), "before")
			require.True(t, ok)
			var decoded recent.LiveActivity
			require.NoError(t, json.Unmarshal([]byte(rest), &decoded))
			assert.GreaterOrEqual(t, decoded.AsOf, live.AsOf)
			decoded.AsOf = live.AsOf
			assert.Equal(t, live, decoded)
		})
	}
}

func TestLookup_concurrentAnswersAreNotMixed(t *testing.T) {
	const users = 8
	m := musttest.New(recent.NewMemory(nil))
	for i := range users {
		addClicks(t, m, fmt.Sprint("user", i), fmt.Sprint("s", i), time.Now().Add(-time.Minute), i+1)
	}
	h := newLookup(m, 0)
	waittest.Together(users, func(i int) {
		for range 20 {
			w := request(h, fmt.Sprintf("/users/acme/user%d/live-activity", i))
			var live recent.LiveActivity
			assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &live))
			assert.Equal(t, fmt.Sprint("user", i), live.UserID)
			assert.Len(t, live.Actions, i+1)
		}
	})
}

// BenchmarkLookup is a lookup of 50 actions of one of 1,000 users over a loopback connection, beside
// the least that net/http can do to send as many bytes. The median ratio is to be at least 0.75.
func BenchmarkLookup(b *testing.B) {
	m := musttest.New(recent.NewMemory(nil))
	for range recent.DefaultMaxEvents { // the users act in turn, so that their actions are not together by chance
		fill(b, m, 1000, 1)
	}
	lookup, requests := newLookup(m, 0), atomic.Int64{}
	httpxtest.Compare(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = id("/users/acme/user", int(requests.Add(1)%1000)) + "/live-activity"
		lookup.ServeHTTP(w, r)
	}), "/users/acme/user7/live-activity", nil)
}

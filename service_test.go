package liveactivity_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/internal/leaktest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

func TestValidate_namesEveryOptionThatIsWrong(t *testing.T) {
	good := liveactivity.Options{MaxEvents: 1, Heartbeat: time.Second,
		Retention: eventlog.Retention{TTL: time.Second, MaxBytes: 1 << 20}}
	tests := map[string]struct {
		change func(*liveactivity.Options)
		want   []string
	}{
		"nothing":            {func(*liveactivity.Options) {}, nil},
		"a public URL":       {func(o *liveactivity.Options) { o.PublicURL = "https://live.example.com/base/" }, nil},
		"public URL: a host": {func(o *liveactivity.Options) { o.PublicURL = "live.example.com" }, []string{"PublicURL"}},
		"the least": {func(o *liveactivity.Options) {
			o.Retention, o.Heartbeat = eventlog.Retention{TTL: time.Second, MaxBytes: 65536, StateMaxBytes: 65536},
				100*time.Millisecond
		}, nil},
		"everything": {func(o *liveactivity.Options) {
			*o = liveactivity.Options{PublicURL: "x", AdminKey: " x", MaxEvents: -1, Heartbeat: -1,
				Views:     []liveactivity.View{nil},
				Retention: eventlog.Retention{TTL: -1, MaxBytes: -1, StateMaxBytes: -1, TotalBytes: -1},
				Products: []liveactivity.Product{{ProductID: "a/b", WebhookSecret: " x"},
					{ProductID: "a", CaptureTokens: []string{""}, Identity: liveactivity.Identity{Secrets: []string{""}}}},
				Keys: []liveactivity.Key{{ExternalID: "b"}, {Key: "x ", ExternalID: "a"}}}
		}, []string{"products[0].product_id", "products[0].webhook_secret", "products[1].capture_tokens[0]",
			"products[1].identity.secrets[0]", "keys[0].key", "keys[0].external_id", "keys[1].key",
			"Retention.TTL", "MaxEvents", "Retention.MaxBytes", "Retention.StateMaxBytes", "Retention.TotalBytes", "AdminKey",
			"PublicURL", "Heartbeat", "Views[0]"}},
		"a nil engine": {func(o *liveactivity.Options) { o.Log = (*memorylog.Log)(nil) }, []string{"Log"}},
		"too little of everything": {func(o *liveactivity.Options) {
			*o = liveactivity.Options{Retention: eventlog.Retention{TTL: 999 * time.Millisecond, MaxBytes: 65535,
				StateMaxBytes: 65535}, Heartbeat: 99 * time.Millisecond}
		}, []string{"Retention.TTL", "Retention.MaxBytes", "Retention.StateMaxBytes", "Heartbeat"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			opts := good
			tt.change(&opts)
			err := opts.Validate()
			_, newErr := liveactivity.New(&opts)
			require.Equal(t, err, newErr)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			var named []string
			for _, mistake := range musttest.Mistakes(t, err) {
				named = append(named, strings.TrimPrefix(mistake, "liveactivity."))
			}
			assert.Equal(t, tt.want, named)
		})
	}
}

func TestLoadFile_takesSecretsFromTheEnvironmentByDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "products.json")
	const config = `{"products": [{"product_id": "acme", "webhook_secret": "${ACME}"}]}`
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	t.Setenv("ACME", acmeSecret)
	got, _, err := liveactivity.LoadFile(file, nil, nil)
	require.NoError(t, err)
	require.Equal(t, acmeSecret, got.Products[0].WebhookSecret)
}

func TestNew_withoutOptionsServesNothingYet(t *testing.T) {
	s, err := liveactivity.New(nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, ask(s, http.MethodGet, "/readyz", "").Code)
	assert.Equal(t, http.StatusNotFound, ask(s, http.MethodPost, "/webhook/acme", "{}").Code)
	assert.Equal(t, "/webhook/acme", s.URLs().Webhook("acme"), "without a public URL, addresses are paths")
}

func TestRun_underAContextThatIsOverReturnsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newService(&logtest.Buffer{})
	assert.NoError(t, s.Run(ctx))
	leaktest.NoneOf(t, ofServer...)
	assert.Error(t, s.Run(ctx), "a service runs once")
}

func TestServe_needsAListenerAndAHandler(t *testing.T) {
	err := musttest.New(liveactivity.New(nil)).ServeHandler(t.Context(), nil, nil)
	require.Equal(t, []string{"liveactivity.listener", "liveactivity.handler"}, musttest.Mistakes(t, err))
}

// Before it has caught up with its log, a service takes events and is not ready. Its readers wait for that, but not
// once it stops.
func TestReads_waitUntilTheServiceHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(io.Discard, func(o *liveactivity.Options) { o.Log = musttest.New(memorylog.New(nil)) })
		assert.Equal(t, http.StatusServiceUnavailable, ask(s, http.MethodGet, "/readyz", "").Code)
		assert.Equal(t, http.StatusOK, ask(s, http.MethodPost, "/webhook/acme",
			pageview("u1", "s1", "https://app.example.com/a"), "X-PostHog-Secret: "+acmeSecret).Code)
		for _, wait := range []time.Duration{inTime, 0} {
			for _, path := range []string{"/users/acme/ada/live-activity", "/context/acme?user_id=ada", "/sessions/acme",
				"/sessions/acme/s1", "/mcp"} {
				method := map[bool]string{true: http.MethodPost, false: http.MethodGet}[path == "/mcp"]
				began := time.Now()
				w := ask(s, method, path, toolsList, bearer(acmeKey), asJSON)
				assert.Equal(t, http.StatusServiceUnavailable, w.Code, path)
				assert.NotEmpty(t, w.Header().Get("Retry-After"), path)
				assert.LessOrEqual(t, time.Since(began), wait, path)
			}
			began := time.Now()
			_, err := s.LiveActivity(t.Context(), "acme", "ada", 0)
			require.ErrorIs(t, err, liveactivity.ErrNotReady)
			assert.InDelta(t, wait, time.Since(began), float64(wait)/10)
			began = time.Now()
			_, err = s.Sessions(t.Context(), "acme", sessions.Query{})
			require.ErrorIs(t, err, liveactivity.ErrNotReady)
			assert.LessOrEqual(t, time.Since(began), wait)
			s.Stopping()
		}
	})
}

func TestMetrics_countEventsAndReaders(t *testing.T) {
	s := start(t)
	s.stream("/stream/acme?last_event_id=none", bearer(acmeKey))
	s.webhook(pageview("u1", "session-1", "https://app.example.com/a"))
	s.webhook(pageview("u1", "session-1", "https://app.example.com/a"))
	s.webhook(`{"event":"custom","distinct_id":"ada"}`)
	s.do(http.MethodGet, "/users/acme/"+mail+"/live-activity", "")
	s.do(http.MethodGet, "/none/"+mail, "")
	s.do(http.MethodPost, "/e/", `{"api_key":"`+acmeToken+`","batch":[]}`)
	var text string
	waittest.Until(t, "the entry is counted as sent", func() bool {
		text = s.do(http.MethodGet, "/metrics", "").body
		return strings.Contains(text, "liveactivity_stream_sent_total 1\n")
	})
	for _, line := range []string{
		`liveactivity_events_total{outcome="accepted",product_id="acme",reason=""} 1`,
		`liveactivity_actions_total{product_id="acme",type="pageview"} 1`,
		`liveactivity_users 1`,
		`liveactivity_log_entries{product_id="acme"} 1`,
		`liveactivity_log_dropped_total{product_id="acme"} 0`,
		`liveactivity_stream_gaps_total{product_id="acme"} 1`,
		`liveactivity_stream_lag_seconds_count 1`,
		`liveactivity_http_request_duration_seconds_count{code="200",route="POST /webhook/{product_id}"} 3`,
		`liveactivity_http_request_duration_seconds_count{code="404",route="none"} 1`,
		`liveactivity_http_request_duration_seconds_count{code="200",route="/e/{$}"} 1`,
	} {
		assert.Contains(t, text, line+"\n")
	}
	for _, family := range []string{"liveactivity_log_bytes", "go_goroutines"} {
		assert.Contains(t, text, "# TYPE "+family+" ")
	}
	for line := range strings.SplitSeq(text, "\n") {
		if name, ok := strings.CutPrefix(line, "# HELP "); ok {
			_, help, _ := strings.Cut(name, " ")
			assert.NotEmpty(t, help, line)
		}
	}
	assertSilent(t, text)
	assert.NotContains(t, text, "session-1")
	assert.NotContains(t, text, `"ada"`)
}

// The log is bounded per product, and the metrics count the dropped entries.
func TestMetrics_countDroppedEntries(t *testing.T) {
	s := start(t, func(c *liveactivity.Options) { c.Retention.MaxBytes = 65536 })
	for n := range 60 {
		s.webhook(pageview(fmt.Sprint(n), "s", "https://app.example.com/"+strings.Repeat("x", 1000)))
	}
	assert.NotContains(t, s.do(http.MethodGet, "/metrics", "").body, `liveactivity_log_dropped_total{product_id="acme"} 0`)
}

// REST, MCP and the stream say the same of an event in the same words, whichever way it came in.
func TestEvent_isVisibleEverywhere(t *testing.T) {
	s := start(t)
	const captured = `{"api_key":"` + acmeToken + `","batch":[%s]}`
	for name, way := range map[string]struct{ path, body string }{
		"webhook":                         {"/webhook/acme", "%s"},
		"webhook, PostHog's default body": {"/webhook/acme", `{"event":%s,"person":{}}`},
		"capture by a pattern":            {"/e?ip=1", captured},
		"capture where none matches":      {"/some/prefix/i/v0/e/?ip=1", captured},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			session, user := "session of "+name, "user/"+name
			stream := s.stream("/stream/acme?session_id="+url.QueryEscape(session), bearer(acmeStream))
			const page = "https://App.example.com/projects/42?tab=1#top"
			event := strings.Replace(pageview(name, session, page), `"ada"`, `"`+user+`"`, 1)
			r := s.takes(1, way.path, fmt.Sprintf(way.body, event), "X-PostHog-Secret: "+acmeSecret)
			assert.Equal(t, 0.0, r.json(t)["ignored"])

			rest := s.lookup(url.PathEscape(user))
			action := rest["actions"].([]any)[0].(map[string]any)
			assert.Equal(t, map[string]any{"product_id": "acme", "user_id": user, "count": 1.0, "as_of": rest["as_of"],
				"actions": []any{action}}, rest)
			assert.Equal(t, map[string]any{"type": "pageview", "title": "Page Load: Projects detail",
				"description":     "User landed on the projects detail page",
				"timestamp_start": action["timestamp_start"], "timestamp_end": action["timestamp_end"],
				"raw_url": action["raw_url"], "canonical_url": "https://app.example.com/projects/:id", "index": 0.0}, action)

			tool := s.callTool(user)
			delete(rest, "as_of")
			delete(tool, "as_of")
			assert.Equal(t, rest, tool, "MCP answers the object of REST")

			b := stream.nextBatch()
			assert.Equal(t, batch{"actions", "acme", session, user, mail, 1, b.Actions}, b)
			maps.Copy(action, map[string]any{"session_id": session, "user_id": user, "email": mail})
			assert.Equal(t, []map[string]any{action}, b.Actions, "the stream has the fields of REST and these")
		})
	}
}

func assertFields(t *testing.T, object map[string]any, want ...string) {
	t.Helper()
	var got []string
	for field := range object {
		got = append(got, field)
	}
	assert.ElementsMatch(t, want, got)
}

const crowdSize = 9000

// crowd returns a request of page views of about 300 bytes, each of its own user and session: the
// costliest events for their size.
func crowd() []byte {
	var body bytes.Buffer
	body.WriteString(`{"batch":[`)
	padding := strings.Repeat("x", 130)
	for i := range crowdSize {
		fmt.Fprintf(&body, `{"event":"$pageview","uuid":"u%[1]d","distinct_id":"user%[1]d",`+
			`"properties":{"$session_id":"s%[1]d","$current_url":"https://app.example.com/p/%[1]d","x":%[2]q}},`, i, padding)
	}
	fmt.Fprintf(&body, `{}],"api_key":%q}`, acmeToken)
	return body.Bytes()
}

// Allocations are the largest cost of an event: they take time, and memory until it is collected.
func TestService_allocatesLittleForAnEvent(t *testing.T) {
	service := newService(io.Discard)
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/e/", bytes.NewReader(zip(t, crowd())))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	service.Handler().ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	require.JSONEq(t, fmt.Sprintf(`{"status":1,"accepted":%d,"ignored":1,"reasons":{"malformed":1}}`, crowdSize),
		w.Body.String())
	allocations, bytes := (after.Mallocs-before.Mallocs)/crowdSize, (after.TotalAlloc-before.TotalAlloc)/crowdSize
	t.Logf("%d allocations, %d bytes", allocations, bytes)
	assert.LessOrEqual(t, allocations, uint64(33)) // one of them the race detector's
	assert.LessOrEqual(t, bytes, uint64(5_700))    // 300 of them its JSON, some 700 the race detector's
}

func zip(t testing.TB, body []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(body)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return packed.Bytes()
}

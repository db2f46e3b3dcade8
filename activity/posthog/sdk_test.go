package posthog_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/logtest"
)

// sdkPaths are paths that SDKs call.
var sdkPaths = []string{"/e", "/capture", "/batch", "/track", "/engage", "/i/v0/e", "/flags", "/decide", "/s",
	"/api/surveys", "/api/early_access_features", "/api/feature_flag/local_evaluation", "/flags/definitions",
	"/i/v1/analytics/events", "/array/phc_x/config", "/array/phc_x/config.js", "/api/web_experiments",
	"/api/product_tours", "/i/v1/logs"}

func TestIsSDKPath(t *testing.T) {
	for _, path := range append(sdkPaths, "/api/projects/@current/feature_flags/beta/remote_config") {
		for _, prefix := range []string{"", "/ingest", "/a/b/c", "/array", "/e"} {
			for _, slash := range []string{"", "/"} {
				assert.True(t, posthog.IsSDKPath(prefix+path+slash), prefix+path+slash)
			}
		}
	}
	for _, path := range []string{"", "/", "//", "e", "e/", "/e//", "/E", "/e/x", "/ex", "/xe", "/.e", "/e.js",
		"/captures", "/flags.js", "/static/array.js",
		"/static/recorder.js", "/static/1.434.18/surveys.js", "/static/", "/api/remote_config", "/array", "/array/",
		"/array/phc_x", "/array/phc_x/", "/array/phc_x/config.json", "/array/phc_x/config.js/x",
		"/array//config.js", "/array/config.js", "/array/config", "/config.js", "/config", "/array/a/b/config.js",
		"/xarray/phc_x/config.js",
		"array/phc_x/config.js", "/webhook/shop", "/users/shop/user_42/live-activity", "/mcp", "/healthz", "/e/..",
		"/e?x", "/e%2f"} {
		assert.False(t, posthog.IsSDKPath(path), path)
	}
}

// The patterns match every path of the SDKs at the root of a host, with and without a trailing
// slash, and nothing else.
func TestSDKPatterns_leadWhereSDKsCall(t *testing.T) {
	mux := http.NewServeMux()
	for _, pattern := range posthog.SDKPatterns() {
		mux.Handle(pattern, http.NotFoundHandler())
	}
	matches := func(path string) bool {
		_, pattern := mux.Handler(httptest.NewRequest("GET", path, nil))
		return pattern != ""
	}
	for _, path := range sdkPaths {
		assert.True(t, matches(path), path)
		if !strings.HasPrefix(path, "/array/") { // whose slash no SDK writes
			assert.True(t, matches(path+"/"), path)
		}
	}
	for _, path := range []string{"/", "/e/x", "/array", "/array/phc_x", "/static/array.js", "/ingest/e"} {
		assert.False(t, matches(path), path)
	}
}

// call sends a request without a body to ServeSDK.
func (s *service) call(method, target string, header ...string) *httptest.ResponseRecorder {
	return s.send(method, door{path: target}, nil, header...)
}

func TestSDK_servesOnlyItsMethods(t *testing.T) {
	s := newService(intake.Options{})
	for _, path := range []string{"/e/", "/i/v0/e/", "/batch", "/flags/", "/decide", "/s/"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH"} {
			w := s.call(method, path)
			assert.Equal(t, http.StatusMethodNotAllowed, w.Code, method+path)
			assert.Equal(t, "POST, OPTIONS", w.Header().Get("Allow"), method+path)
		}
	}
	for _, path := range []string{"/array/phc_x/config", "/array/phc_x/config.js"} {
		assert.Equal(t, http.StatusOK, s.call("GET", path).Code)
		assert.Equal(t, http.StatusOK, s.call("HEAD", path).Code)
		w := s.call("POST", path)
		requireError(t, w, http.StatusMethodNotAllowed)
		assert.Equal(t, "GET, OPTIONS", w.Header().Get("Allow"))
	}
	for _, path := range []string{"/", "/static/array.js", "/array/phc_x", "/e/x"} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			requireError(t, s.call(method, path), http.StatusNotFound)
		}
	}
}

// A preflight passes from any origin, because the token that decides comes with the request.
func TestSDK_passesPreflights(t *testing.T) {
	s := newService(intake.Options{})
	for _, path := range []string{"/e/", "/i/v0/e/", "/flags/?v=2", "/decide/", "/s/", "/i/v1/analytics/events",
		"/static/array.js",
		"/array/phc_x/config", "/array/" + bankToken + "/config.js"} {
		t.Run(path, func(t *testing.T) {
			w := s.call("OPTIONS", path, "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "content-type,x-posthog-distinct-id")
			assert.Equal(t, http.StatusNoContent, w.Code)
			assert.Empty(t, w.Body.String())
			h := w.Header()
			assert.Equal(t, "https://app.example.com", h.Get("Access-Control-Allow-Origin"))
			assert.Equal(t, "true", h.Get("Access-Control-Allow-Credentials"))
			assert.Equal(t, "content-type,x-posthog-distinct-id", h.Get("Access-Control-Allow-Headers"))
			method := "POST"
			if strings.HasPrefix(path, "/array/") {
				method = "GET"
			}
			assert.Contains(t, h.Get("Access-Control-Allow-Methods"), method)
			assert.Contains(t, h.Values("Vary"), "Origin")
		})
	}
}

// Errors are included, because posthog-js decides by the status whether to retry.
func TestSDK_everyAnswerMayBeReadByThePage(t *testing.T) {
	event := string(marshal(t, click(nil)))
	cases := []struct {
		name, method, path, body string
		header                   []string
		status                   int
	}{
		{"taken", "POST", "/e/", event, nil, 200},
		{"malformed", "POST", "/e/", "{", nil, 400},
		{"no token", "POST", "/e/", "{}", nil, 401},
		{"no such path", "GET", "/static/array.js", "", nil, 404},
		{"no such method", "GET", "/e/", "", nil, 405},
		{"too large", "POST", "/e/", strings.Repeat(" ", 1<<20+1), nil, 413},
		{"wrong encoding", "POST", "/e/", event, []string{"Content-Encoding", "br"}, 415},
		{"storage away", "POST", "/e/", event, nil, 503},
		{"capture v1, storage away", "POST", "/i/v1/analytics/events", `{"batch":[` + event + `]}`,
			[]string{"Authorization", "Bearer " + shopToken}, 503},
	}
	for _, c := range cases {
		for _, origin := range []string{"https://app.example.com", "null", ""} {
			t.Run(c.name+"/"+origin, func(t *testing.T) {
				s := newService(intake.Options{})
				if c.status == http.StatusServiceUnavailable {
					s.sink.fail(errors.New("away"))
				}
				header := append([]string{"Origin", origin}, c.header...)
				w := s.send(c.method, door{path: c.path}, strings.NewReader(c.body), header...)
				require.Equal(t, c.status, w.Code)
				assert.Equal(t, origin, w.Header().Get("Access-Control-Allow-Origin"))
				assert.Equal(t, origin != "", w.Header().Get("Access-Control-Expose-Headers") == "Retry-After")
				assert.Equal(t, c.status == http.StatusServiceUnavailable, w.Header().Get("Retry-After") != "")
				assert.Equal(t, origin != "", w.Header().Get("Access-Control-Allow-Credentials") == "true")
				assert.Contains(t, w.Header().Values("Vary"), "Origin", "also without an origin, or a cache mixes the answers up")
			})
		}
	}
}

// PostHog's servers call the webhook, and pages do not.
func TestWebhook_isNotForPages(t *testing.T) {
	s := newService(intake.Options{})
	w := s.post(webhookDoor, marshal(t, click(nil)), "Origin", "https://app.example.com")
	requireCounts(t, w, 1, 0)
	assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
}

func TestSDK_answersFlagsToAnyBody(t *testing.T) {
	s := newService(intake.Options{})
	for _, path := range []string{"/flags/?v=2", "/flags/?v=2&config=true", "/decide/?v=3", "/flags", "/decide",
		"/ingest/flags/"} {
		for _, body := range []string{"", "{}", `{"token":"phc_unknown"}`, "\x1f\x8b", "data=e30%3D", "not JSON"} {
			requireFlags(t, s.post(door{path: path}, []byte(body)))
		}
	}
}

func requireRemoteConfig(t *testing.T, body []byte, token string) {
	t.Helper()
	var config object
	require.NoError(t, json.Unmarshal(body, &config))
	assert.Equal(t, object{"token": token, "autocapture_opt_out": false, "supportedCompression": []any{"gzip-js"},
		"hasFeatureFlags": true}, config)
}

// assignment is the only statement the script may hold.
var assignment = regexp.MustCompile(`^\(window\._POSTHOG_REMOTE_CONFIG=window\._POSTHOG_REMOTE_CONFIG\|\|\{\}\)` +
	`\[("(?:[^"\\]|\\.)*")\]=(\{.*\});\n$`)

// requireAssignment asserts that a script is that one assignment, and returns
// the key and the object.
func requireAssignment(t *testing.T, script string) (key string, value object) {
	t.Helper()
	for _, bad := range []string{"<", ">", "\u2028", "\u2029", "\r", "\x00"} {
		require.NotContains(t, script, bad)
	}
	m := assignment.FindStringSubmatch(script)
	require.NotNil(t, m, script)
	require.NoError(t, json.Unmarshal([]byte(m[1]), &key))
	require.NoError(t, json.Unmarshal([]byte(m[2]), &value), "one object and nothing behind it")
	return key, value
}

// The token in the URL is any text that somebody put there, and it comes back in a script.
func TestSDK_configurationOfAnyToken(t *testing.T) {
	s := newService(intake.Options{})
	for name, token := range map[string]string{
		"script":              `<script>alert(1)<script>`,
		"double quote":        `"];alert(1);x["`,
		"backslash and quote": `\"];alert(1);x["`,
		"line separator":      "a\u2028alert(1)",
		"paragraph separator": "a\u2029alert(1)",
		"percent":             "%22",
		"dots":                "...",
		"like the file":       "config.js",
		"a token":             "phc_test_token",
	} {
		t.Run(name, func(t *testing.T) {
			w := s.call("GET", "/array/"+url.PathEscape(token)+"/config.js")
			require.Equal(t, http.StatusOK, w.Code)
			key, object := requireAssignment(t, w.Body.String())
			assert.Equal(t, token, key)
			assert.Equal(t, []any{}, object["siteApps"])
			config, err := json.Marshal(object["config"])
			require.NoError(t, err)
			requireRemoteConfig(t, config, token)
			assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			assert.Regexp(t, `^(application|text)/javascript`, w.Header().Get("Content-Type"))

			w = s.call("GET", "/array/"+url.PathEscape(token)+"/config")
			requireRemoteConfig(t, w.Body.Bytes(), token)
		})
	}
	t.Run("a slash ends a token", func(t *testing.T) {
		requireError(t, s.call("GET", "/array/"+url.PathEscape("</script>")+"/config.js"), http.StatusNotFound)
	})
	t.Run("invalid UTF-8", func(t *testing.T) {
		w := s.call("GET", "/array/a%ff%22b/config.js")
		require.Equal(t, http.StatusOK, w.Code)
		key, _ := requireAssignment(t, w.Body.String())
		assert.Equal(t, "a\ufffd\"b", key)
	})
}

func TestMetrics_countEventsByOutcome(t *testing.T) {
	at(t, noon, func(t *testing.T) {
		var metered tracing.Flow
		s := newService(intake.Options{Meter: func(productID string, f tracing.Flow) {
			assert.Equal(t, shop, productID)
			metered = metered.Plus(f)
		}})
		requireCounts(t, s.post(captureDoor, marshal(t, object{"token": shopToken, "batch": []any{
			click(nil), click(object{"event": "$identify"}), // accepted
			click(object{"event": "order paid"}), click(object{"event": "$rageclick"}),
			click(object{"timestamp": "2026-11-19T12:00:00Z"}),
			click(object{"timestamp": "soon"}), nil, object{},
			click(object{"properties.token": bankToken}),
			click(object{"event": "$identify", "properties.$session_id": nil}),
		}})), 2, 8)
		assert.Equal(t, map[string]float64{"accepted": 2, "duplicate": 0, "ignored other_event": 2, "ignored expired": 1,
			"ignored malformed": 3, "ignored other_token": 1, "ignored no_identity": 1}, s.counted(t))
		assert.Equal(t, tracing.Flow{Ignored: 7}, metered, "the sink has the others")
		requireError(t, s.post(captureDoor, []byte("{")), http.StatusBadRequest)
		assert.Len(t, s.counted(t), 7, "a request that was refused brought no events")
	})
}

// posthog-js and server SDKs ask for more than events. They get empty answers in their own form, so
// that they log no errors and keep calling.
func TestSDK_answersEmptyLists(t *testing.T) {
	s := newService(intake.Options{})
	for _, c := range []struct{ method, path, answer string }{
		{"GET", "/api/surveys/?token=phc_x", `{"surveys":[]}`},
		{"GET", "/api/early_access_features/?token=phc_x", `{"earlyAccessFeatures":[]}`},
		{"GET", "/api/web_experiments/?token=phc_x", `{"experiments":[]}`},
		{"GET", "/ingest/api/product_tours/?token=phc_x", `{"product_tours":[]}`},
		{"POST", "/i/v1/logs", `{}`},
		{"GET", "/api/projects/@current/feature_flags/beta/remote_config/", `null`},
		{"GET", "/flags/definitions?token=phc_x&send_cohorts", `{"flags":[],"group_type_mapping":{},"cohorts":{}}`},
		{"GET", "/ingest/a/flags/definitions/", `{"flags":[],"group_type_mapping":{},"cohorts":{}}`},
		{"GET", "/api/feature_flag/local_evaluation/?token=none", `{"flags":[],"group_type_mapping":{},"cohorts":{}}`},
	} {
		w := s.call(c.method, c.path, "Origin", "https://app.example.com", "Authorization", "Bearer phx_personal")
		require.Equal(t, http.StatusOK, w.Code, c.path)
		if c.method == "GET" {
			requireError(t, s.post(door{path: c.path}, nil), http.StatusMethodNotAllowed)
		}
		assert.JSONEq(t, c.answer, w.Body.String(), c.path)
		assert.Equal(t, "https://app.example.com", w.Header().Get("Access-Control-Allow-Origin"), c.path)
	}
}

func TestIgnored_isExplainedAtDebugLevel(t *testing.T) {
	var log logtest.Buffer
	s := newService(intake.Options{Logger: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	requireCounts(t, s.post(webhookDoor, marshal(t, []any{click(object{"event": "$pageleave"}), 7})), 0, 2)
	assert.Contains(t, log.String(), "reason=other_event")
	assert.Contains(t, log.String(), "reason=malformed")
	assert.NotContains(t, log.String(), "Export CSV")
}

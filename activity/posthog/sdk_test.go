package posthog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	"github.com/liveactivity/liveactivity/internal/httpxtest"
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

// The patterns match every path of the SDKs at the root of a host, with and without a trailing slash, and nothing else.
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
	s := newService()
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
		httpxtest.Detail(t, http.StatusMethodNotAllowed, w.Result())
		assert.Equal(t, "GET, OPTIONS", w.Header().Get("Allow"))
	}
	for _, path := range []string{"/", "/static/array.js", "/array/phc_x", "/e/x"} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			httpxtest.Detail(t, http.StatusNotFound, s.call(method, path).Result())
		}
	}
}

func TestSDK_passesPreflights(t *testing.T) {
	s := newService()
	for path, method := range map[string]string{"/e/": "POST", "/flags/?v=2": "POST", "/i/v1/analytics/events": "POST",
		"/static/array.js": "POST", "/array/phc_x/config": "GET", "/array/" + bankToken + "/config.js": "GET"} {
		w := s.call("OPTIONS", path, "Origin", "https://app.example.com", "Access-Control-Request-Headers", "x-posthog-id")
		assert.Equal(t, http.StatusNoContent, w.Code)
		assert.Equal(t, "https://app.example.com", w.Header().Get("Access-Control-Allow-Origin"))
		assert.Equal(t, "x-posthog-id", w.Header().Get("Access-Control-Allow-Headers"))
		assert.Contains(t, w.Header().Get("Access-Control-Allow-Methods"), method)
	}
}

func TestSDK_answersFlagsToAnyBody(t *testing.T) {
	s := newService()
	for _, path := range []string{"/flags/?v=2", "/flags/?v=2&config=true", "/decide/?v=3", "/flags", "/decide",
		"/ingest/flags/"} {
		for _, body := range []string{"", "{}", `{"token":"phc_unknown"}`, "\x1f\x8b", "data=e30%3D", "not JSON"} {
			t.Run(path+" "+body, func(t *testing.T) { requireFlags(t, s.post(door{path: path}, []byte(body))) })
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

// requireAssignment asserts that a script is that one assignment, and returns the key and the object.
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
	s := newService()
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
		httpxtest.Detail(t, http.StatusNotFound, s.call("GET", "/array/"+url.PathEscape("</script>")+"/config.js").Result())
	})
	t.Run("invalid UTF-8", func(t *testing.T) {
		w := s.call("GET", "/array/a%ff%22b/config.js")
		require.Equal(t, http.StatusOK, w.Code)
		key, _ := requireAssignment(t, w.Body.String())
		assert.Equal(t, "a\ufffd\"b", key)
	})
}

// SDKs ask for more than events. They get empty answers in their own form, so they log no errors and keep calling.
func TestSDK_answersEmptyLists(t *testing.T) {
	s := newService()
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
			httpxtest.Detail(t, http.StatusMethodNotAllowed, s.post(door{path: c.path}, nil).Result())
		}
		assert.JSONEq(t, c.answer, w.Body.String(), c.path)
		assert.Equal(t, "https://app.example.com", w.Header().Get("Access-Control-Allow-Origin"), c.path)
	}
}

func TestToken_isTakenFromWhereSDKsPutIt(t *testing.T) {
	bare := func() object { return click(object{"properties.token": nil}) }
	with := func(key string) object {
		e := bare()
		e[key] = shopToken
		return e
	}
	for name, body := range map[string]any{
		"api_key of a batch":                        object{"api_key": shopToken, "batch": []any{bare()}},
		"token of a batch":                          object{"token": shopToken, "batch": []any{bare()}},
		"api_key of an event":                       with("api_key"),
		"token of an event":                         []any{with("token")},
		"properties.token of an event":              object{"batch": []any{click(nil)}},
		"properties.token of an event in a webhook": object{"event": click(nil)},
		"beside an event of a webhook":              []any{object{"event": bare(), "token": shopToken}},
	} {
		s := newService()
		requireCounts(t, s.post(captureDoor, marshal(body)), 1, 0)
		assert.Len(t, s.sink.take(shop), 1, name)
	}
	w := newService().post(door{path: "/e/?api_key=" + shopToken + "&token=" + shopToken}, marshal(bare()),
		"Authorization", "Bearer "+shopToken)
	httpxtest.Detail(t, http.StatusUnauthorized, w.Result())
}

const evil = "https://evil.example"

// passes are tokens, each with an origin that may use it.
var passes = [][2]string{{bankToken, bankOrigin}, {bankToken, ""}, {shopToken, evil}, {"phc_unknown", evil}}

// Pages of unlisted origins send nothing to a product, wherever the token is, and read nothing of its answers.
func TestOrigins_holdForEveryToken(t *testing.T) {
	s := newService()
	for _, path := range []string{"/array/%s/config", "/array/%s/config.js", "/ingest/array/%s/config",
		"/api/surveys/?token=%s", "/api/early_access_features/?token=%s", "/flags/definitions?token=%s",
		"/api/feature_flag/local_evaluation/?token=%s&x"} {
		w := s.call("GET", fmt.Sprintf(path, bankToken), "Origin", evil)
		httpxtest.Detail(t, http.StatusForbidden, w.Result())
		for _, ok := range passes {
			assert.Equal(t, http.StatusOK, s.call("GET", fmt.Sprintf(path, ok[0]), "Origin", ok[1]).Code)
		}
	}
	body := func(token string) []byte {
		return marshal(object{"token": token, "batch": []object{click(object{"token": token})}})
	}
	recording := func(token string) []byte {
		return gzipped(marshal([]any{object{"event": "$snapshot", "properties": object{"token": token}}}))
	}
	for _, path := range []string{"/e/", "/batch", v1Door.path, "/flags/?v=2", "/decide/?v=3", "/s/", "/ingest/s"} {
		for _, encode := range []func(string) []byte{body, recording} {
			for _, ok := range passes[:3] {
				w := s.post(door{path: path}, encode(ok[0]), "Origin", ok[1], "Authorization", "Bearer "+ok[0])
				assert.Equal(t, http.StatusOK, w.Code, path)
			}
			w := s.post(door{path: path}, encode(bankToken), "Origin", evil, "Authorization", "Bearer "+bankToken)
			httpxtest.Detail(t, http.StatusForbidden, w.Result())
		}
	}
}

// A recording may be larger than the limit of a body of events.
func TestSDK_takesLargeRecordings(t *testing.T) {
	s := newService()
	large := bytes.Repeat([]byte(" "), intake.DefaultMaxBody+1)
	for _, origin := range []string{"", evil} {
		assert.Equal(t, http.StatusOK, s.post(door{path: "/s/"}, large, "Origin", origin).Code)
		httpxtest.Detail(t, http.StatusRequestEntityTooLarge, s.post(door{path: "/flags/"}, large, "Origin", origin).Result())
	}
	large = append(large, large...)
	httpxtest.Detail(t, http.StatusRequestEntityTooLarge, s.post(door{path: "/s/"}, large).Result())
}

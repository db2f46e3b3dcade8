package posthog

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Handler takes the calls of SDKs and hands their events to a sink. Its methods are
// safe for concurrent use. Every answer is JSON; 200 means that the sink has
// recorded the events.
type Handler struct{ in *intake.Intake }

// New returns a handler that shares the intake with other sources.
func New(in *intake.Intake) *Handler { return &Handler{in} }

// sdkAnswer is the body of a 200. posthog-js expects the status 1.
type sdkAnswer struct {
	Status int `json:"status"`
	intake.Counts
}

// route is a path that SDKs call below their host.
type route struct {
	method string
	serve  func(*Handler, http.ResponseWriter, *http.Request) error
}

// sdkRoutes are the paths of SDKs, without a trailing slash.
var sdkRoutes = map[string]route{
	"/e":                                 {http.MethodPost, (*Handler).capture},
	"/capture":                           {http.MethodPost, (*Handler).capture},
	"/batch":                             {http.MethodPost, (*Handler).capture},
	"/track":                             {http.MethodPost, (*Handler).capture},
	"/engage":                            {http.MethodPost, (*Handler).capture},
	"/i/v1/analytics/events":             {http.MethodPost, (*Handler).captureV1},
	"/i/v0/e":                            {http.MethodPost, (*Handler).capture},
	"/flags":                             {http.MethodPost, discarding((*intake.Intake).MaxBody, flags)},
	"/decide":                            {http.MethodPost, discarding((*intake.Intake).MaxBody, flags)},
	"/s":                                 {http.MethodPost, discarding((*intake.Intake).MaxDecoded, object{"status": 1})},
	"/api/surveys":                       {http.MethodGet, always(map[string][]string{"surveys": none})},
	"/api/early_access_features":         {http.MethodGet, always(map[string][]string{"earlyAccessFeatures": none})},
	"/api/web_experiments":               {http.MethodGet, always(map[string][]string{"experiments": none})},
	"/api/product_tours":                 {http.MethodGet, always(map[string][]string{"product_tours": none})},
	"/i/v1/logs":                         {http.MethodPost, discarding((*intake.Intake).MaxBody, object{})},
	"/api/feature_flag/local_evaluation": {http.MethodGet, always(noFlags)},
	"/flags/definitions":                 {http.MethodGet, always(noFlags)},
}

// maxRoute is the most segments that a path of sdkRoutes has.
const maxRoute = 4

// IsSDKPath reports whether [Handler.ServeSDK] answers a URL path: an SDK's
// call, with or without a trailing slash, below any prefix that the SDK's host
// was given. ServeSDK answers any other path with a 404.
func IsSDKPath(path string) bool {
	_, ok := routeOf(path)
	return ok
}

// SDKPatterns returns the patterns, as [http.ServeMux] takes them, of the paths
// that [Handler.ServeSDK] answers at the root of a host.
func SDKPatterns() []string {
	patterns := []string{"/array/{token}/config", "/array/{token}/config.js"}
	for path := range sdkRoutes {
		patterns = append(patterns, path, path+"/{$}")
	}
	return patterns
}

// routeOf returns the route that a path ends in, the longest if there are several. The prefix
// may be anything, because an SDK's host can have a path.
func routeOf(path string) (route, bool) {
	path = strings.TrimSuffix(path, "/")
	switch {
	case tokenInPath(path) != "": // "/array/{token}/config", "/array/{token}/config.js"
		return route{http.MethodGet, (*Handler).remoteConfig}, true
	case strings.HasSuffix(path, "/remote_config") && strings.Contains(path, "/feature_flags/"):
		return route{http.MethodGet, always(nil)}, true // the value of a flag, for server SDKs
	}
	found, ok := route{}, false
	for i, n := len(path), 0; n < maxRoute; n++ {
		if i = strings.LastIndexByte(path[:i], '/'); i < 0 {
			break
		}
		if longer, is := sdkRoutes[path[i:]]; is {
			found, ok = longer, true
		}
	}
	return found, ok
}

// tokenInPath returns the token in the path of a remote configuration, "" for any other path.
func tokenInPath(path string) string {
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")
	n := len(segments)
	if n < 4 || segments[n-3] != "array" || segments[n-1] != "config" && segments[n-1] != "config.js" {
		return ""
	}
	return segments[n-2]
}

// ServeSDK handles the calls of posthog-js and of PostHog's other SDKs on the
// paths of [IsSDKPath], from pages of any origin that the product named in the
// call does not exclude. Events must carry a capture token of one of the
// products. Session recordings are discarded. Every other path gets a 404,
// which pages can read as well.
func (h *Handler) ServeSDK(w http.ResponseWriter, r *http.Request) {
	to, ok := routeOf(r.URL.Path)
	if !ok {
		intake.Route{}.ServeHTTP(w, r)
		return
	}
	intake.Route{Method: to.method, Serve: func(w http.ResponseWriter, r *http.Request) error {
		token := cmp.Or(tokenInPath(r.URL.Path), r.URL.Query().Get("token"))
		if err := h.in.CheckToken(w, r, token); err != nil {
			return err
		}
		return to.serve(h, w, r)
	}}.ServeHTTP(w, r)
}

// capture takes events.
func (h *Handler) capture(w http.ResponseWriter, r *http.Request) error {
	counts, err := h.in.Capture(w, r, Source, intake.Call{QuerySentAt: sentAt(r)})
	if err == nil {
		httpx.WriteJSON(w, http.StatusOK, sdkAnswer{1, counts})
	}
	return err
}

// sentAt returns the time of sending that SDKs before 1.407.3, whose bodies have none,
// put into the query, in milliseconds. PostHog reads it in the same way: see EventQuery
// in rust/capture of https://github.com/PostHog/posthog. A time that is off by more than
// a day comes from a recording, not from a clock.
func sentAt(r *http.Request) string {
	s := r.URL.Query().Get("_")
	if t, ok := intake.ParseTime(s); !ok || time.Since(t).Abs() > 24*time.Hour {
		return ""
	}
	return s
}

// discarding answers requests with a fixed value and discards their bodies. A session recording may
// be as large as the largest decoded body.
func discarding(limit func(*intake.Intake) int64, answer any) func(*Handler, http.ResponseWriter, *http.Request) error {
	return func(h *Handler, w http.ResponseWriter, r *http.Request) error {
		err := h.in.Discard(w, r, Source, limit(h.in))
		if err == nil {
			httpx.WriteJSON(w, http.StatusOK, answer)
		}
		return err
	}
}

type object = map[string]any

// sdkConfig returns the remote configuration that lets posthog-js run with
// autocapture and nothing else. It claims that there are feature flags: otherwise
// posthog-js, from some version after 1.345 on, never calls onFeatureFlags back.
func sdkConfig() object {
	return object{"autocapture_opt_out": false, "supportedCompression": []string{"gzip-js"}, "hasFeatureFlags": true}
}

// always answers requests with a fixed value.
func always(v any) func(*Handler, http.ResponseWriter, *http.Request) error {
	return func(_ *Handler, w http.ResponseWriter, _ *http.Request) error {
		httpx.WriteJSON(w, http.StatusOK, v)
		return nil
	}
}

var none = []string{}

// noFlags are the feature flags of a server SDK, which evaluates them itself.
var noFlags = object{"flags": none, "group_type_mapping": object{}, "cohorts": object{}}

// flags says that there are no feature flags. It also has the configuration, for the versions of
// posthog-js that ask for it here.
var flags = func() object {
	answer := sdkConfig()
	maps.Copy(answer, object{"flags": object{}, "featureFlags": object{}, "featureFlagPayloads": object{},
		"errorsWhileComputingFlags": false, "isAuthenticated": false, "sessionRecording": false,
		"toolbarParams": object{}, "siteApps": none,
		"config": object{"enable_collect_everything": true}}) // autocapture, up to 1.121
	return answer
}()

// remoteConfig answers /array/{token}/config and /array/{token}/config.js. The token need not be
// known: CheckToken has already refused a page that may not report.
func (h *Handler) remoteConfig(w http.ResponseWriter, r *http.Request) error {
	token := tokenInPath(r.URL.Path)
	config := sdkConfig()
	config["token"] = token
	if !strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), ".js") {
		httpx.WriteJSON(w, http.StatusOK, config)
		return nil
	}
	// Texts and booleans always have JSON. <, > and & are escaped as well, so the token cannot leave its string.
	quoted, _ := json.Marshal(token)
	object, _ := json.Marshal(object{"config": config, "siteApps": none})
	header := w.Header() // it lets a browser run the script, but never show it as a page
	header.Set("Content-Type", "application/javascript; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, "(window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{})["+
		string(quoted)+"]="+string(object)+";\n")
	return nil
}

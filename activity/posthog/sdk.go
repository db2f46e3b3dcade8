package posthog

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// sdkPaths are the paths that SDKs call below their host, without a trailing
// slash, and who answers them.
var sdkPaths = map[string]func(*Handler, http.ResponseWriter, *http.Request) error{
	"/e":       (*Handler).capture,
	"/capture": (*Handler).capture,
	"/batch":   (*Handler).capture,
	"/track":   (*Handler).capture,
	"/engage":  (*Handler).capture,
	"/i/v0/e":  (*Handler).capture,
	"/flags":   (*Handler).flags,
	"/decide":  (*Handler).flags,
	"/s":       (*Handler).replay,
}

// IsSDKPath reports whether a URL path is one that [Handler.ServeSDK] answers:
// an SDK's call, with or without a trailing slash, below any prefix that the
// SDK's host was given.
func IsSDKPath(path string) bool {
	route, _ := sdkRoute(path)
	return route != ""
}

// SDKPatterns returns the patterns, as [http.ServeMux] takes them, of the paths
// that [Handler.ServeSDK] answers at the root of a host.
func SDKPatterns() []string {
	patterns := []string{"/array/{token}/config", "/array/{token}/config.js"}
	for path := range sdkPaths {
		patterns = append(patterns, path, path+"/{$}")
	}
	return patterns
}

// sdkRoute returns the key of sdkPaths that path ends in, or "/array" and the
// token for the remote configuration.
func sdkRoute(path string) (route, token string) {
	path = strings.TrimSuffix(path, "/")
	if before, ok := strings.CutSuffix(path, "/i/v0/e"); ok {
		return path[len(before):], ""
	}
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", ""
	}
	if _, ok := sdkPaths[path[i:]]; ok {
		return path[i:], ""
	}
	if file := path[i:]; file == "/config" || file == "/config.js" {
		rest := path[:i]
		j := strings.LastIndexByte(rest, '/')
		if j >= 0 && strings.HasSuffix(rest[:j], "/array") && j+1 < len(rest) {
			return "/array", rest[j+1:]
		}
	}
	return "", ""
}

// ServeSDK takes the calls of posthog-js and of PostHog's server SDKs on the
// paths that [IsSDKPath] names, from pages of any origin. Events must carry a
// project token of one of the products. Session recordings are discarded.
func (h *Handler) ServeSDK(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(h.sdk).ServeHTTP(w, r)
}

func (h *Handler) sdk(w http.ResponseWriter, r *http.Request) error {
	allowOrigin(w.Header(), r)
	route, token := sdkRoute(r.URL.Path)
	serve, method := sdkPaths[route], http.MethodPost
	if route == "/array" {
		method = http.MethodGet
		serve = func(h *Handler, w http.ResponseWriter, r *http.Request) error {
			return remoteConfig(w, r, token)
		}
	}
	switch {
	case serve == nil:
		return httpx.NotFound("There is nothing at this path.")
	case r.Method == http.MethodOptions:
		return preflight(w, r, method)
	case r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead):
		return httpx.MethodNotAllowed(method + ", OPTIONS")
	}
	return serve(h, w, r)
}

// allowOrigin lets the page that calls read the answer. Old versions of
// posthog-js send credentials, so the origin is named instead of "*".
func allowOrigin(header http.Header, r *http.Request) {
	header.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Credentials", "true")
	}
}

func preflight(w http.ResponseWriter, r *http.Request, method string) error {
	header := w.Header()
	header.Set("Access-Control-Allow-Methods", method+", OPTIONS")
	if requested := r.Header.Get("Access-Control-Request-Headers"); requested != "" {
		header.Set("Access-Control-Allow-Headers", requested)
	}
	header.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// capture takes events.
func (h *Handler) capture(w http.ResponseWriter, r *http.Request) error {
	body, err := httpx.ReadBody(w, r, h.opts.MaxBody)
	if err != nil {
		return err
	}
	if body, err = plain(body, r.Header.Get("Content-Encoding"), h.opts.MaxDecoded); err != nil {
		return err
	}
	req, err := readRequest(body)
	if err != nil {
		return err
	}
	productID, ok, err := h.products.ProductOfToken(req.token())
	if err != nil {
		return httpx.Unavailable(err)
	}
	if !ok {
		return httpx.Unauthorized("The project token is missing or unknown.", "")
	}
	for i := range req.events {
		p := &req.events[i]
		if p.token != "" && p.reason == "" {
			if other, _, err := h.products.ProductOfToken(p.token); err != nil {
				return httpx.Unavailable(err)
			} else if other != productID {
				p.reason = reasonToken
			}
		}
	}
	counts, err := h.record(r, productID, req)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, answer{Status: 1, counts: counts})
	return nil
}

// replay discards a session recording.
func (h *Handler) replay(w http.ResponseWriter, r *http.Request) error {
	if err := httpx.DiscardBody(w, r, h.opts.MaxDecoded); err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, map[string]int{"status": 1})
	return nil
}

// sdkConfig is the remote configuration that lets posthog-js run with
// autocapture and nothing else.
type sdkConfig struct {
	Token                string   `json:"token,omitempty"`
	AutocaptureOptOut    bool     `json:"autocapture_opt_out"`
	SupportedCompression []string `json:"supportedCompression"`
	HasFeatureFlags      bool     `json:"hasFeatureFlags"`
}

var gzipOnly = []string{"gzip-js"}

// flags answers that there are no feature flags. For the versions of posthog-js
// that ask for their configuration here, it is in the same object.
func (h *Handler) flags(w http.ResponseWriter, r *http.Request) error {
	if err := httpx.DiscardBody(w, r, h.opts.MaxBody); err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, struct {
		Flags                     struct{} `json:"flags"`
		FeatureFlags              struct{} `json:"featureFlags"`
		FeatureFlagPayloads       struct{} `json:"featureFlagPayloads"`
		ErrorsWhileComputingFlags bool     `json:"errorsWhileComputingFlags"`
		sdkConfig
		IsAuthenticated  bool     `json:"isAuthenticated"`
		SessionRecording bool     `json:"sessionRecording"`
		ToolbarParams    struct{} `json:"toolbarParams"`
		SiteApps         []string `json:"siteApps"`
	}{sdkConfig: sdkConfig{SupportedCompression: gzipOnly}, SiteApps: []string{}})
	return nil
}

// remoteConfig answers /array/{token}/config and /array/{token}/config.js.
func remoteConfig(w http.ResponseWriter, r *http.Request, token string) error {
	config := sdkConfig{Token: token, SupportedCompression: gzipOnly}
	if !strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), ".js") {
		httpx.WriteJSON(w, http.StatusOK, config)
		return nil
	}
	// json.Marshal escapes <, > and & as well, so the token cannot leave
	// its string.
	quoted, err := json.Marshal(token)
	if err != nil {
		return err
	}
	object, err := json.Marshal(map[string]any{"config": config, "siteApps": []string{}})
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/javascript; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, "(window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{})["+string(quoted)+"]="+string(object)+";\n")
	return nil
}

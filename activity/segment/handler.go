package segment

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Handler takes the calls of SDKs and hands their events to a sink. It is safe for
// concurrent use. Every answer is JSON; 200 means that the sink has recorded the events.
type Handler struct{ in *intake.Intake }

// New returns a handler that shares the intake with other sources.
func New(in *intake.Intake) *Handler { return &Handler{in} }

// Patterns returns the patterns, as [http.ServeMux] takes them, under which to mount the
// handler: everything below /segment, /rudderstack and /jitsu.
func Patterns() (patterns []string) {
	for _, vendor := range []string{"/segment", "/rudderstack", "/jitsu"} {
		patterns = append(patterns, vendor, vendor+"/{call...}")
	}
	return append(patterns, "GET /segment/v1/projects/{token}/settings", "GET /rudderstack/sourceConfig")
}

// kinds are the last segments of the paths for events, with the type of an event that
// states none. An SDK's host may or may not include the vendor's own path.
var kinds = map[string]string{
	"segment": "", "rudderstack": "", "jitsu": "", "v1": "", "s2s": "",
	"b": "", "batch": "", "import": "",
	"p": typePage, "page": typePage, "s": typeScreen, "screen": typeScreen,
	"i": typeIdentify, "identify": typeIdentify, "a": typeAlias, "alias": typeAlias,
	"t": typeTrack, "track": typeTrack, "g": typeGroup, "group": typeGroup, "event": "",
}

// ServeHTTP handles the calls of the family's SDKs, from pages of any origin that the
// product named in the call does not exclude.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.route(strings.Split(strings.Trim(r.URL.Path, "/"), "/")).ServeHTTP(w, r)
}

// route returns the route of a path, the zero route if there is none.
func (h *Handler) route(path []string) (to intake.Route) {
	last := path[len(path)-1]
	kind, brings := kinds[last]
	switch {
	case brings:
		return intake.Route{Method: http.MethodPost, Serve: h.capture(kind)}
	case len(path) > 2 && last == "settings" && path[len(path)-3] == "projects":
		return intake.Route{Method: http.MethodGet, Serve: h.settings(path[len(path)-2])}
	case last == "sourceConfig":
		return intake.Route{Method: http.MethodGet, Serve: h.sourceConfig}
	case last == "m":
		return intake.Route{Method: http.MethodPost, Serve: h.metrics}
	}
	return to
}

// writeKey returns the write key of a request's headers or query; "" for none.
func writeKey(r *http.Request) string {
	query := r.URL.Query()
	return keyID(cmp.Or(basicUser(r), r.Header.Get("X-Write-Key"), query.Get("writeKey"), query.Get("writekey")))
}

// basicUser returns the user of Basic authentication. The colon after it may be missing, and a
// password may follow it.
func basicUser(r *http.Request) string {
	scheme, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	user, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials))
	if err != nil || !strings.EqualFold(scheme, "Basic") {
		return ""
	}
	return string(user)
}

// answer is the body of a 200. Jitsu's SDK needs JSON; success is a field of Segment's API.
type answer struct {
	Status  string `json:"status"`
	Success bool   `json:"success"`
	intake.Counts
}

// capture takes events, which are of this kind unless they state another.
func (h *Handler) capture(kind string) httpx.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		counts, err := h.in.Capture(w, r, Source, intake.Call{Token: writeKey(r), Kind: kind})
		if err == nil {
			httpx.WriteJSON(w, http.StatusOK, answer{"ok", true, counts})
		}
		return err
	}
}

type object = map[string]any

// settings tells Segment's SDK to send everything to this server, and to report nothing about
// itself. The address is the one that the SDK called, with its prefix.
func (h *Handler) settings(token string) httpx.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := h.in.CheckToken(w, r, token); err != nil {
			return err
		}
		prefix, _, _ := strings.Cut(r.URL.Path, "/projects/")
		httpx.WriteJSON(w, http.StatusOK, object{
			"integrations": object{"Segment.io": object{"apiKey": token, "apiHost": r.Host + prefix, "protocol": protocol(r)}},
			"metrics":      object{"sampleRate": 0},
		})
		return nil
	}
}

// metrics discards figures about the SDK itself. Segment's SDK reports them every 30 s unless
// its settings, which a page may supply itself, turn that off.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) error {
	if err := h.in.Discard(w, r, Source, h.in.MaxBody()); err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, answer{Status: "ok", Success: true})
	return nil
}

// protocol returns the protocol between the page's browser and this server, which may be behind
// a proxy. A page with an https address can use no other.
func protocol(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" ||
		strings.HasPrefix(r.Header.Get("Origin"), "https:") {
		return "https"
	}
	return "http"
}

// sourceConfig tells RudderStack's SDK that there are no destinations, and to report
// nothing about itself.
func (h *Handler) sourceConfig(w http.ResponseWriter, r *http.Request) error {
	token := writeKey(r)
	if err := h.in.CheckToken(w, r, token); err != nil {
		return err
	}
	off := object{"enabled": false}
	httpx.WriteJSON(w, http.StatusOK, object{"updatedAt": "2026-01-01T00:00:00Z", "source": object{
		"id": "liveactivity", "name": "liveactivity", "writeKey": token, "enabled": true, "workspaceId": "liveactivity",
		"config":      object{"statsCollection": object{"errors": off, "metrics": off}},
		"connections": []string{}, "destinations": []string{}, "dataplanes": object{},
	}})
	return nil
}

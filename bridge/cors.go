package bridge

import (
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// ServePreflight answers the question that browsers ask before they let a page
// of another origin use the bridge. It must be mounted under OPTIONS on the
// paths of ServeActions and ServeContext.
func (b *Bridge) ServePreflight(w http.ResponseWriter, r *http.Request) {
	b.share(w, r)
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
		h.Set("Access-Control-Allow-Headers", "Accept, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}

// share lets the page that makes the request read the answer, if it may use the
// bridge. Credentials are never used.
func (b *Bridge) share(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Origin")
	if from := r.Header.Get("Origin"); from != "" && b.isAllowed(r, from) {
		w.Header().Set("Access-Control-Allow-Origin", from)
	}
}

// isAllowed reports whether pages of the origin may use the bridge.
func (b *Bridge) isAllowed(r *http.Request, from string) bool {
	return from == ownOrigin(r) || origin.Allows(b.origins, from)
}

// checkOrigin refuses what a browser sends for a page of another origin without
// asking first: a body that is not application/json.
func (b *Bridge) checkOrigin(r *http.Request) error {
	from := r.Header.Get("Origin")
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if from == "" || kind == "application/json" || b.isAllowed(r, from) {
		return nil
	}
	return httpx.Errorf(http.StatusUnsupportedMediaType, "The Content-Type must be application/json.")
}

// ownOrigin is the origin of pages at the address that the request went to, or
// "" where that is a name: a name resolves to whatever its owner chooses. The
// browser lets the bridge's own page read answers in any case.
func ownOrigin(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host != "localhost" && net.ParseIP(strings.Trim(host, "[]")) == nil {
		return ""
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

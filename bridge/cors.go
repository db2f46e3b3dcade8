package bridge

import (
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// The decisions here are made once for reading, reporting and answering at all,
// and internal/origin makes them for the whole module. A library for CORS, such
// as jub0bs/cors, would write the headers only, and bring a language of its own
// for the same list of origins.

// preflight answers the question that browsers ask before they let a page of another
// origin use the bridge.
func (b *Bridge) preflight(w http.ResponseWriter, r *http.Request) {
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

// shared returns a handler whose answers are for this machine's host names, and for the pages
// that may use the bridge.
func (b *Bridge) shared(next httpx.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		b.share(w, r)
		if err := b.checkHost(r); err != nil {
			return err
		}
		return next(w, r)
	})
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

// checkHost refuses requests from this machine for a host that is another
// machine's: the page of a site whose name was pointed here after it had loaded
// would be one of the bridge's own.
func (b *Bridge) checkHost(r *http.Request) error {
	address, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if address == nil || !isLoopback(address.String()) || isLoopback(r.Host) ||
		origin.Allows(b.origins, "https://"+r.Host) || origin.Allows(b.origins, "http://"+r.Host) {
		return nil
	}
	return httpx.Errorf(http.StatusMisdirectedRequest,
		"The bridge does not answer for this host: its origin is not among the allowed ones.")
}

// isLoopback reports whether a host, with or without a port, is this machine
// whatever name servers say.
func isLoopback(host string) bool {
	return origin.IsLoopback(host) || strings.HasSuffix(strings.ToLower(origin.Hostname(host)), ".localhost")
}

// checkOrigin refuses cross-origin requests that a browser sends without a
// preflight: bodies other than application/json.
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
	if host := origin.Hostname(r.Host); host != "localhost" && net.ParseIP(host) == nil {
		return ""
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

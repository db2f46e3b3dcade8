package bridge

import (
	"mime"
	"net"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// These decisions apply equally to reading, reporting and answering at all, and
// internal/origin makes them for the whole module. A CORS library, such as
// jub0bs/cors, would only write the headers, and would need its own syntax for
// the same list of origins.

// preflight answers the request that browsers send before a page of another origin
// may use the bridge.
func (b *Bridge) preflight(w http.ResponseWriter, r *http.Request) {
	b.share(w, r)
	httpx.Preflight(w, "GET, HEAD, POST", "Accept, Content-Type")
}

// shared returns a handler that adds the CORS headers and refuses requests for another
// machine's host names.
func (b *Bridge) shared(next httpx.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		b.share(w, r)
		if err := b.checkHost(r); err != nil {
			return err
		}
		return next(w, r)
	})
}

// share allows the requesting page to read the answer, if it may use the
// bridge. Credentials are never allowed.
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

// checkHost refuses requests after DNS rebinding, which would make the page one of
// the bridge's own.
func (b *Bridge) checkHost(r *http.Request) error {
	if !httpx.IsRebound(r) || origin.Allows(b.origins, "https://"+r.Host) || origin.Allows(b.origins, "http://"+r.Host) {
		return nil
	}
	return httpx.Errorf(http.StatusMisdirectedRequest,
		"The bridge does not answer for this host: its origin is not among the allowed ones.")
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
// "" if that is a name: a name resolves to whatever its owner chooses. Browsers
// let the bridge's own page read answers in any case.
func ownOrigin(r *http.Request) string {
	if host := origin.Hostname(r.Host); host != "localhost" && net.ParseIP(host) == nil {
		return ""
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

package bridge

import "net/http"

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

// share lets the page that makes the request read the answer, if its origin is
// the bridge's own or an allowed one. Credentials are never asked for.
func (b *Bridge) share(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin != "" && (origin == ownOrigin(r) || b.isAllowed(origin)) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
	}
}

// ownOrigin is the origin of pages at the address that the request went to.
func ownOrigin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

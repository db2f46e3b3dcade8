package httpx

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Mux is an [http.ServeMux] whose own answers, too, are JSON: 404 for a path that nothing is
// registered for, 405 with Allow for a method. It never redirects: a path with "//", "." or
// ".." in it is not found. Register all patterns before it serves; from then on it is safe for
// concurrent use.
type Mux struct {
	mux      http.ServeMux
	patterns []string // in the order of registration
	// fallback serves requests that no pattern matches; see [NewMux].
	fallback func(w http.ResponseWriter, r *http.Request) bool
}

const catchAll = "/"

// Route returns the pattern that a request was served under, or "" where none
// matched. It knows only once the request was served.
func Route(r *http.Request) string {
	if r.Pattern == catchAll {
		return ""
	}
	return r.Pattern
}

// RouteName is Route with a name for no pattern, as a label of metrics.
func RouteName(r *http.Request) string { return cmp.Or(Route(r), "none") }

// NewMux returns an empty Mux. The fallback, which may be nil, is asked to
// serve a request that no pattern matches; it reports false, having written
// nothing, when it does not serve it either.
func NewMux(fallback func(w http.ResponseWriter, r *http.Request) bool) *Mux {
	m := &Mux{fallback: fallback}
	m.mux.HandleFunc(catchAll, m.unmatched)
	return m
}

// Handle registers h for the pattern, as [http.ServeMux.Handle] does.
func (m *Mux) Handle(pattern string, h http.Handler) {
	m.patterns = append(m.patterns, pattern)
	wildcards := wildcard.FindAllStringSubmatch(pattern, -1)
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range wildcards {
			if r.PathValue(name[1]) == slash {
				r.SetPathValue(name[1], "/")
			}
		}
		h.ServeHTTP(w, r)
	})
}

// Patterns returns the registered patterns, in the order of registration.
func (m *Mux) Patterns() []string { return slices.Clone(m.patterns) }

var wildcard = regexp.MustCompile(`\{(\w+)\}`)

// slash stands for a segment of a path that is "%2F" while [http.ServeMux] looks
// at it: that takes such a segment for a slash at the end of the path.
var slash = rand.Text()

var slashSegment = regexp.MustCompile(`(?i)/%2F(/|$)`)

// ServeHTTP leaves r.URL as it was, though the request is matched with slash in the place of
// %2F.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := r.URL.EscapedPath()
	if r.RequestURI == "*" || !isClean(p) {
		m.unmatched(w, r)
		return
	}
	if r.URL.RawPath != "" && slashSegment.MatchString(p) {
		replaced := *r.URL
		for slashSegment.MatchString(p) { // two in a row share a slash
			p = slashSegment.ReplaceAllString(p, "/"+slash+"$1")
		}
		replaced.RawPath = p
		replaced.Path, _ = url.PathUnescape(p) // what was escaped correctly still is
		defer func(u *url.URL) { r.URL = u }(r.URL)
		r.URL = &replaced
	}
	m.mux.ServeHTTP(w, r)
}

// isClean reports whether a path is in the form that http.ServeMux redirects others to.
func isClean(p string) bool {
	clean := path.Clean(p)
	return p == clean || clean != "/" && p == clean+"/"
}

// unmatched answers a request that no pattern matches, or has the fallback serve it. 405 goes
// before the fallback.
func (m *Mux) unmatched(w http.ResponseWriter, r *http.Request) {
	if allow := m.allowed(r); len(allow) > 0 {
		WriteError(w, r, MethodNotAllowed(strings.Join(allow, ", ")))
		return
	}
	if m.fallback != nil && m.fallback(w, r) {
		return
	}
	WriteError(w, r, NotFound("There is nothing at this path."))
}

// allowed returns the methods that the request's path takes.
func (m *Mux) allowed(r *http.Request) []string {
	if r.RequestURI == "*" || !isClean(r.URL.EscapedPath()) {
		return nil
	}
	var allow []string
	other := r.WithContext(r.Context())
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} {
		other.Method = method
		if _, pattern := m.mux.Handler(other); pattern != catchAll {
			allow = append(allow, method)
		}
	}
	return allow
}

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

// Mux is an [http.ServeMux] whose own answers are JSON as well: 404 for a path without a
// registered pattern, 405 with Allow for a method. It never redirects: a path with "//", "."
// or ".." in it is not found. Register all patterns before it serves; from then on it is safe
// for concurrent use.
type Mux struct {
	mux      http.ServeMux
	patterns []string     // in the order of registration
	fallback http.Handler // serves requests that no pattern matches; nil for a 404
}

const catchAll = "/"

// Route returns the pattern under which a request was served, or "" if none
// matched. It is known only after the request was served.
func Route(r *http.Request) string {
	if r.Pattern == catchAll {
		return ""
	}
	return r.Pattern
}

// RouteName is Route for use as a metrics label, with "none" for no pattern.
func RouteName(r *http.Request) string { return cmp.Or(Route(r), "none") }

// NewMux returns an empty Mux. A request whose path no pattern matches, whatever its method, is
// served by fallback or, if that is nil, answered with a 404.
func NewMux(fallback http.Handler) *Mux {
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

// slash replaces a path segment that is "%2F" while [http.ServeMux] matches the
// request, because ServeMux would treat that segment as a trailing slash.
var slash = rand.Text()

var slashSegment = regexp.MustCompile(`(?i)/%2F(/|$)`)

// ServeHTTP leaves r.URL unchanged, although it matches the request with slash in place of
// %2F.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := r.URL.EscapedPath()
	if r.RequestURI == "*" || !isClean(p) {
		m.unmatched(w, r)
		return
	}
	if r.URL.RawPath != "" && slashSegment.MatchString(p) {
		replaced := *r.URL
		for slashSegment.MatchString(p) { // adjacent ones share a slash
			p = slashSegment.ReplaceAllString(p, "/"+slash+"$1")
		}
		replaced.RawPath = p
		replaced.Path, _ = url.PathUnescape(p) // the escaping stays valid
		defer func(u *url.URL) { r.URL = u }(r.URL)
		r.URL = &replaced
	}
	m.mux.ServeHTTP(w, r)
}

// isClean reports whether http.ServeMux would leave a path as it is rather than
// redirect it.
func isClean(p string) bool {
	clean := path.Clean(p)
	return p == clean || clean != "/" && p == clean+"/"
}

// unmatched answers a request that no pattern matches, or lets the fallback serve it. 405
// takes precedence over the fallback.
func (m *Mux) unmatched(w http.ResponseWriter, r *http.Request) {
	if allow := m.allowed(r); len(allow) > 0 {
		WriteError(w, r, MethodNotAllowed(strings.Join(allow, ", ")))
		return
	}
	if m.fallback != nil {
		m.fallback.ServeHTTP(w, r)
		return
	}
	WriteError(w, r, NotFound("There is nothing at this path."))
}

// allowed returns the methods that the request's path accepts.
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

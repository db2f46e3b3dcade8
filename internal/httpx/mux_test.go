package httpx_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// echo answers with its name and the path values of the request.
func echo(name string, values ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, name)
		for _, value := range values {
			_, _ = io.WriteString(w, " "+r.PathValue(value))
		}
	})
}

// newMux returns a mux of a few routes.
func newMux(fallback http.Handler) *httpx.Mux {
	m := httpx.NewMux(fallback)
	m.Handle("GET /a/{x}", echo("get a", "x"))
	m.Handle("POST /a/{x}", echo("post a", "x"))
	m.Handle("POST /b", echo("post b"))
	m.Handle("GET /c/{x}/{y}/end", echo("get c", "x", "y"))
	m.Handle("/any", echo("any"))
	m.Handle("/any/{$}", echo("any/"))
	return m
}

func TestMux_servesTheRouteOfThePath(t *testing.T) {
	for name, tt := range map[string]struct{ method, target, want, route string }{
		"GET":                        {"GET", "/a/1", "get a 1", "GET /a/{x}"},
		"HEAD as GET":                {"HEAD", "/a/1", "get a 1", "GET /a/{x}"},
		"POST":                       {"POST", "/a/1", "post a 1", "POST /a/{x}"},
		"any method":                 {"DELETE", "/any", "any", "/any"},
		"a trailing slash":           {"PUT", "/any/", "any/", "/any/{$}"},
		"an escaped slash":           {"GET", "/a/x%2Fy", "get a x/y", "GET /a/{x}"},
		"only an escaped slash":      {"GET", "/a/%2F", "get a /", "GET /a/{x}"},
		"in lower case":              {"GET", "/a/%2f", "get a /", "GET /a/{x}"},
		"only escaped slashes":       {"GET", "/a/%2F%2f", "get a //", "GET /a/{x}"},
		"slashes side by side":       {"GET", "/c/%2F/%2F/end", "get c / /", "GET /c/{x}/{y}/end"},
		"an escaped percent sign":    {"GET", "/a/%252F", "get a %2F", "GET /a/{x}"},
		"escaped dots":               {"GET", "/a/%2E%2E", "get a ..", "GET /a/{x}"},
		"escaped characters":         {"GET", "/a/%C3%A4%20%3F%23%25", "get a ä ?#%", "GET /a/{x}"},
		"dots within a segment":      {"GET", "/a/b..c", "get a b..c", "GET /a/{x}"},
		"the fallback":               {"POST", "/some/prefix/sdk", "sdk", ""},
		"the fallback below a route": {"GET", "/b/sdk", "sdk", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := httptest.NewRecorder(), httptest.NewRequest(tt.method, tt.target, nil)
			newMux(echo("sdk")).ServeHTTP(w, r)
			assert.Equal(t, http.StatusOK, w.Code)
			assert.Equal(t, tt.target, r.URL.EscapedPath(), "the request is left as it was")
			assert.Equal(t, tt.want, w.Body.String())
			assert.Equal(t, tt.route, httpx.Route(r))
		})
	}
}

func TestMux_answersUnknownPathsInJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		method, target string
		status         int
		allow          string
	}{
		"no such path":                {"GET", "/none", 404, ""},
		"the root":                    {"GET", "/", 404, ""},
		"a parent":                    {"GET", "/a", 404, ""},
		"a parent with a slash":       {"GET", "/a/", 404, ""},
		"a child":                     {"GET", "/a/1/2", 404, ""},
		"a slash too many at the end": {"GET", "/a/1/", 404, ""},
		"two slashes":                 {"GET", "//a/1", 404, ""},
		"two slashes inside":          {"GET", "/a//1", 404, ""},
		"a dot":                       {"GET", "/a/./1", 404, ""},
		"two dots":                    {"GET", "/a/1/../1", 404, ""},
		"above the root":              {"GET", "/../a/1", 404, ""},
		"unclean with another method": {"DELETE", "//a/1", 404, ""},
		"another method":              {"DELETE", "/a/1", 405, "GET, HEAD, POST"},
		"a method of one's own":       {"BREW", "/a/1", 405, "GET, HEAD, POST"},
		"OPTIONS":                     {"OPTIONS", "/a/1", 405, "GET, HEAD, POST"},
		"PATCH of a POST":             {"PATCH", "/b", 405, "POST"},
		"HEAD of a POST":              {"HEAD", "/b", 405, "POST"},
		"everything":                  {"GET", "*", 404, ""},
		"a proxy's CONNECT":           {"CONNECT", "example.com:443", 404, ""},
		"a proxy's full URL":          {"GET", "http://other.example/none", 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := httptest.NewRecorder(), httptest.NewRequest(tt.method, tt.target, nil)
			newMux(nil).ServeHTTP(w, r)
			detail(t, w, tt.status)
			assert.Empty(t, httpx.Route(r))
			assert.Equal(t, tt.allow, w.Header().Get("Allow"))
			assert.Empty(t, w.Header().Get("Location"), "a mux never redirects")
		})
	}
}

func TestMux_listsItsPatterns(t *testing.T) {
	assert.Empty(t, httpx.NewMux(nil).Patterns())
	assert.Equal(t, []string{"GET /a/{x}", "POST /a/{x}", "POST /b", "GET /c/{x}/{y}/end", "/any", "/any/{$}"},
		newMux(nil).Patterns())
}

func TestPathValue_failsWhereThePatternHasNone(t *testing.T) {
	handler := httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		id, err := httpx.PathValue(r, "product_id")
		if err != nil {
			return err
		}
		httpx.WriteJSON(w, http.StatusOK, id)
		return nil
	})
	mux := http.NewServeMux()
	mux.Handle("GET /with/{product_id}", handler)
	mux.Handle("GET /rest/{product_id...}", handler)
	mux.Handle("GET /without/{id}", handler)
	for path, want := range map[string]int{"/with/acme": 200, "/rest/": 200, "/without/acme": 500} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, want, w.Code, path)
		if want == http.StatusInternalServerError {
			assert.Contains(t, w.Body.String(), "without {product_id}")
		}
	}
	set := httptest.NewRequest(http.MethodGet, "/", nil) // as another router does
	set.SetPathValue("product_id", "acme")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, set)
	assert.Equal(t, http.StatusOK, w.Code)
}

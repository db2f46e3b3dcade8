package console_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
)

func get(t *testing.T, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	newFake().handler().ServeHTTP(w, r)
	return w
}

// files are the page's files, as the page asks for them.
func files(t *testing.T) (targets []string) {
	t.Helper()
	entries := musttest.New(fs.ReadDir(os.DirFS("page"), "console"))
	for _, entry := range entries {
		targets = append(targets, "/console/"+entry.Name())
	}
	return append(targets, "/")
}

func TestHandler_letsThePageUseItsOwnOriginOnly(t *testing.T) {
	for _, target := range files(t) {
		w := get(t, http.MethodGet, target)
		require.Equal(t, http.StatusOK, w.Code, target)
		policy := map[string]string{}
		for _, directive := range strings.Split(w.Header().Get("Content-Security-Policy"), "; ") {
			name, sources, _ := strings.Cut(directive, " ")
			policy[name] = sources
		}
		assert.Equal(t, map[string]string{"default-src": "'none'", "script-src": "'self'", "style-src": "'self'",
			"connect-src": "'self'", "img-src": "'self'",
			"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'",
			"trusted-types": "'none'"}, policy, target)
		assert.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"), target)
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), target)
	}
}

func TestHandler_setsTheContentType(t *testing.T) {
	types := map[string]string{"": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	for _, target := range files(t) {
		w := get(t, http.MethodHead, target)
		assert.Equal(t, types[path.Ext(target)], w.Header().Get("Content-Type"), target)
		assert.Zero(t, w.Body.Len(), target)
		assert.Equal(t, "no-cache", w.Header().Get("Cache-Control"), target)
		again := get(t, http.MethodGet, target, "If-None-Match", w.Header().Get("ETag"))
		assert.Equal(t, http.StatusNotModified, again.Code, target)
	}
}

func TestHandler_hasNoOtherFiles(t *testing.T) {
	for _, target := range []string{"/console/", "/console/none.js", "/console/..%2Findex.html",
		"/console/%2e%2e%2fconsole.go", "/console/a/b", "/index.html"} {
		w := get(t, http.MethodGet, target)
		assert.Equal(t, http.StatusNotFound, w.Code, target)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"), target)
	}
	assert.Equal(t, http.StatusMethodNotAllowed, get(t, http.MethodPost, "/console/console.js").Code)
}

// The service may be reached below a path, and nothing of the page comes from
// elsewhere.
func TestPage_asksForRelativeAddressesOnly(t *testing.T) {
	elsewhere := regexp.MustCompile(`(?:href|src)="(?:/|https?:)|(?:import|from|fetch\(|url\()\s*["'](?:/|https?` +
		`:)|innerHTML|outerHTML|insertAdjacentHTML|document\.write`)
	for _, target := range files(t) {
		assert.Empty(t, elsewhere.FindAllString(get(t, http.MethodGet, target).Body.String(), -1), target)
	}
}

package bridge_test

import (
	"crypto/tls"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/bridge"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

func TestContext_answersTextToAClientThatPrefersIt(t *testing.T) {
	for name, tt := range map[string]struct {
		accept []string
		text   bool
	}{
		"nothing":                   {nil, false},
		"anything":                  {[]string{"*/*"}, false},
		"text":                      {[]string{"text/plain"}, true},
		"text in capitals":          {[]string{"TEXT/Plain; Charset=UTF-8"}, true},
		"some text":                 {[]string{"text/*"}, true},
		"text before JSON":          {[]string{"text/plain, application/json"}, false},
		"JSON rather than text":     {[]string{"text/plain;q=0.5, application/json"}, false},
		"text rather than anything": {[]string{"text/plain, */*;q=0.1"}, true},
		"anything but JSON":         {[]string{"*/*, application/json;q=0"}, true},
		"anything but text":         {[]string{"*/*, text/plain;q=0"}, false},
		"the specific counts":       {[]string{"text/*;q=0.1, */*;q=0.5, text/plain;q=0.9"}, true},
		"no text":                   {[]string{"text/plain;q=0"}, false},
		"a browser": {[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"},
			false},
		"neither":            {[]string{"image/png"}, false},
		"two headers":        {[]string{"application/json;q=0.5", "text/plain;q=0.6"}, true},
		"malformed quality":  {[]string{"text/plain;q=high"}, false},
		"impossible quality": {[]string{"text/plain;q=2"}, false},
		"malformed":          {[]string{";;,/,text/plain"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(nil)
			click(t, b, "s", "Approve vendor “ü”")
			w := get(b, "/context/s", http.Header{"Accept": tt.accept})
			require.Equal(t, http.StatusOK, w.Code)
			assert.Contains(t, w.Header().Values("Vary"), "Accept")
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			if tt.text {
				assert.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
				assert.Equal(t, b.Context("s").Summary, w.Body.String())
			} else {
				assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
				assert.True(t, strings.HasPrefix(w.Body.String(), `{"session_id":"s",`))
			}
		})
	}
}

func TestCORS(t *testing.T) {
	opts := &bridge.Options{AllowedOrigins: []string{"https://Portal.example/", "http://localhost:3000"}}
	for name, tt := range map[string]struct {
		origin string
		tls    bool
		want   bool
	}{
		"no origin":              {"", false, false},
		"own":                    {"http://127.0.0.1:8070", false, true},
		"own, encrypted":         {"https://127.0.0.1:8070", true, true},
		"own, of another scheme": {"https://127.0.0.1:8070", false, false},
		"own, of another port":   {"http://127.0.0.1", false, false},
		"allowed":                {"https://portal.example", false, true},
		"also allowed":           {"http://localhost:3000", false, true},
		"nobody":                 {"null", false, false},
		"everybody":              {"*", false, false},
		"another":                {"https://evil.example", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(opts)
			for _, call := range []struct {
				method, path, body string
				status             int
			}{
				{"POST", "/demo/actions", `{"session_id":"s","title":"t"}`, 202},
				{"POST", "/demo/actions", `{}`, 400},
				{"GET", "/context/s", "", 200},
				{"OPTIONS", "/demo/actions", "", 204},
				{"OPTIONS", "/context/a%2Fb", "", 204},
			} {
				r := httptest.NewRequest(call.method, "http://127.0.0.1:8070"+call.path, strings.NewReader(call.body))
				r.Header.Set("Content-Type", "application/json")
				if tt.tls {
					r.TLS = &tls.ConnectionState{}
				}
				if tt.origin != "" {
					r.Header.Set("Origin", tt.origin)
				}
				w := httptest.NewRecorder()
				b.Handler().ServeHTTP(w, r)
				assert.Equal(t, call.status, w.Code)
				assert.Contains(t, w.Header().Values("Vary"), "Origin", "caches must not mix origins")
				want := http.Header{}
				if tt.want {
					want.Set("Access-Control-Allow-Origin", tt.origin)
				}
				if call.method == "OPTIONS" {
					want.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
					want.Set("Access-Control-Allow-Headers", "Accept, Content-Type")
					want.Set("Access-Control-Max-Age", "86400")
				}
				assert.Equal(t, want, corsHeaders(w), call.method)
			}
		})
	}
}

// corsHeaders returns the headers that open the answer to pages.
func corsHeaders(w *httptest.ResponseRecorder) http.Header {
	found := http.Header{}
	for key, values := range w.Header() {
		if strings.HasPrefix(key, "Access-Control-") {
			found[key] = values
		}
	}
	return found
}

// A name in Host may belong to anyone who points it at this machine.
func TestCORS_doesNotTrustTheHost(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1:8070": true, "localhost:8070": true, "[::1]:8070": true,
		"10.1.2.3": true, "localhost": true, "[::1]": true, "evil.example:8070": false, "evil.example": false,
		"localhost.evil.example": false, "127.0.0.1.evil.example:8070": false} {
		w := do(newBridge(nil), host, "http://"+host, "application/json")
		assert.Equal(t, want, len(corsHeaders(w)) > 0, host)
	}
}

// A site may point its own name at this machine once its page has loaded. The page then has the
// bridge's origin.
func TestBridge_answersForItsOwnHostsOnly(t *testing.T) {
	b := newBridge(&bridge.Options{AllowedOrigins: []string{"https://portal.example", "https://*.acme.example"}})
	server := httptest.NewServer(b.Handler())
	defer server.Close()
	status := func(host, method, path, body string) int {
		r := musttest.New(http.NewRequest(method, server.URL+path, strings.NewReader(body)))
		r.Host = host
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	for answers, hosts := range map[[2]int][]string{
		{http.StatusOK, http.StatusAccepted}: {"", "127.0.0.1", "127.1.2.3:80", "localhost:8070", "LOCALHOST",
			"shop.localhost:8070", "[::1]:8070", "[::1]", "portal.example", "bridge.acme.example"},
		{http.StatusMisdirectedRequest, http.StatusMisdirectedRequest}: {"evil.example", "evil.example:8070", "10.1.2.3",
			"localhost.evil.example", "127.0.0.1.evil.example", "evillocalhost", "portal.example.evil.example"},
	} {
		for _, host := range hosts {
			assert.Equal(t, answers[0], status(host, http.MethodGet, "/context/s", ""), host)
			assert.Equal(t, answers[1], status(host, http.MethodPost, "/demo/actions", `{"session_id":"s","title":"t"}`), host)
		}
	}
}

// Browsers send bodies of these types for any page without asking first.
func TestActions_takesNoFormOfAnotherOrigin(t *testing.T) {
	b := newBridge(&bridge.Options{AllowedOrigins: []string{"https://portal.example"}})
	const json, text = "application/json; charset=utf-8", "text/plain"
	for _, tt := range []struct {
		host, origin, kind string
		want               int
	}{
		{"127.0.0.1:8070", "https://evil.example", text, 415},
		{"127.0.0.1:8070", "https://evil.example", "", 415},
		{"127.0.0.1:8070", "https://evil.example", "application/x-www-form-urlencoded", 415},
		{"127.0.0.1:8070", "https://evil.example", "multipart/form-data; boundary=application/json", 415},
		{"127.0.0.1:8070", "null", text, 415},
		{"evil.example:8070", "http://evil.example:8070", text, 415},
		{"127.0.0.1:8070", "https://evil.example", json, 202},
		{"127.0.0.1:8070", "https://portal.example", text, 202},
		{"127.0.0.1:8070", "http://127.0.0.1:8070", text, 202},
		{"bridge.example", "", text, 202},
		{"bridge.example", "", "", 202},
	} {
		w := do(b, tt.host, tt.origin, tt.kind)
		assert.Equal(t, tt.want, w.Code, "%+v", tt)
	}
}

// do reports an action.
func do(b *bridge.Bridge, host, origin, kind string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/demo/actions", strings.NewReader(`{"session_id":"s","title":"t"}`))
	r.Host = host
	r.Header.Set("Origin", origin)
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	b.Handler().ServeHTTP(w, r)
	return w
}

func TestNew_copiesTheOrigins(t *testing.T) {
	origins := []string{"https://portal.example"}
	b := newBridge(&bridge.Options{AllowedOrigins: origins})
	origins[0] = "https://evil.example"
	w := get(b, "/context/s", http.Header{"Origin": origins})
	assert.Empty(t, corsHeaders(w))
}

func TestPage_servesEveryFile(t *testing.T) {
	b := newBridge(nil)
	paths := map[string]string{"/": "page/index.html"}
	for _, file := range musttest.New(fs.Glob(os.DirFS("."), "page/static/*")) {
		paths[strings.TrimPrefix(file, "page")] = file
	}
	require.Greater(t, len(paths), 1)
	for path, file := range paths {
		w := get(b, path, nil)
		assert.Equal(t, string(musttest.New(os.ReadFile(file))), w.Body.String(), path)
		assert.Contains(t, w.Header().Get("Content-Security-Policy"), "script-src 'self'", path)
	}
}

// The page's files neither turn text into HTML or code nor load outside resources.
func TestPage_hasNoSinksAndNoOutsideResources(t *testing.T) {
	sinks := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new ` +
		`Function|srcdoc|\son[a-z]+=|style="|<script>|<style|javascript:`)
	outside := regexp.MustCompile(`(https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s"'` + "`" + `]*`)
	require.NoError(t, fs.WalkDir(os.DirFS("page"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile("page/" + path)
		assert.Empty(t, sinks.FindAllString(string(text), -1), path)
		for _, found := range outside.FindAllString(string(text), -1) {
			assert.Equal(t, "http://www.w3.org/2000/svg", found, "%s: that is a name, not an address", path)
		}
		return err
	}))
}

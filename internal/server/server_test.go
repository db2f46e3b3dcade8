package server_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/server"
)

func TestValidate_namesEveryFlagThatIsWrong(t *testing.T) {
	good := server.Config{Addr: "127.0.0.1:8080", ActivityTTL: time.Second, MaxEvents: 1, LogMaxBytes: 1, Heartbeat: time.Second}
	tests := map[string]struct {
		change func(*server.Config)
		want   []string
	}{
		"nothing":              {func(*server.Config) {}, nil},
		"every host":           {func(c *server.Config) { c.Addr = ":8080" }, nil},
		"IPv6":                 {func(c *server.Config) { c.Addr = "[::1]:0" }, nil},
		"a public URL":         {func(c *server.Config) { c.PublicURL = "https://live.example.com/base/" }, nil},
		"no port":              {func(c *server.Config) { c.Addr = "localhost" }, []string{"--addr"}},
		"no address":           {func(c *server.Config) { c.Addr = "" }, []string{"--addr"}},
		"a URL as address":     {func(c *server.Config) { c.Addr = "http://127.0.0.1:80" }, []string{"--addr"}},
		"public URL: a host":   {func(c *server.Config) { c.PublicURL = "live.example.com" }, []string{"--public-url"}},
		"public URL: a scheme": {func(c *server.Config) { c.PublicURL = "ftp://live.example.com" }, []string{"--public-url"}},
		"public URL: no host":  {func(c *server.Config) { c.PublicURL = "https:///x" }, []string{"--public-url"}},
		"public URL: a query":  {func(c *server.Config) { c.PublicURL = "https://live.example.com?x=1" }, []string{"--public-url"}},
		"everything": {func(c *server.Config) { *c = server.Config{PublicURL: "x"} },
			[]string{"--addr", "--public-url"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := good
			tt.change(&cfg)
			err := cfg.Validate()
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			lines := strings.Split(err.Error(), "\n")
			require.Len(t, lines, len(tt.want))
			for i, flag := range tt.want {
				assert.True(t, strings.HasPrefix(lines[i], flag+": "), lines[i])
			}
		})
	}
}

func TestRun_tellsThatThePortIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	addr := taken.Addr().String()
	s := newServer(t, &logtest.Buffer{}, func(c *server.Config) { c.Addr = addr })
	err = s.Run(t.Context(), func(*server.Server, net.Addr) { assert.Fail(t, "it has not started") })
	require.Error(t, err)
	assert.Contains(t, err.Error(), "cannot listen on "+addr)
	assert.Empty(t, leftovers())
}

func TestRun_tellsTheAddressItListensOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := newServer(t, &logtest.Buffer{}).Run(ctx, func(s *server.Server, addr net.Addr) {
		defer cancel()
		assert.NotZero(t, addr.(*net.TCPAddr).Port)
		assert.Equal(t, "http://"+addr.String(), s.URLs().Base())
	})
	assert.NoError(t, err)
}

func TestRun_underAContextThatIsOverReturnsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, newServer(t, &logtest.Buffer{}).Run(ctx, nil))
	assert.Empty(t, leftovers())
}

func TestHealth(t *testing.T) {
	s := start(t)
	for path, want := range map[string]string{"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ready"}`} {
		r := s.do(http.MethodGet, path, "")
		assert.Equal(t, http.StatusOK, r.status)
		assert.JSONEq(t, want, r.body)
		assert.Equal(t, http.StatusOK, s.do(http.MethodHead, path, "").status)
	}
}

// Whatever is asked, the answer to what there is not is 404, and there is
// never a redirect.
func TestServer_answers404(t *testing.T) {
	s := start(t, func(c *server.Config) { c.AdminKey = "" })
	for _, path := range []string{
		"/none", "/users", "/users/acme", "/users/acme/ada", "/users/acme//live-activity", "/users/acme/a/b/live-activity",
		"/users/acme/ada/live-activity/", "/stream", "/stream/", "/stream/acme/", "/stream/acme/x", "/webhook", "/webhook/", "/webhook/acme/",
		"/mcp/x", "/healthz/", "//healthz", "/./healthz", "/x/../healthz", "/../healthz", "/metrics/", "/admin", "/admin/products",
		"/array/config.js", "/array//config.js", "/array/a/b/config", "/static/array.js", "/favicon.ico", "/.env", "/%2e%2e/healthz",
		"/debug/pprof/", "/i/v0", "/i/v0/x", "/ee", "/batches",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := s.do(method, path, "", bearer(acmeKey), "X-Admin-Key: "+adminKey)
			assert.Equal(t, http.StatusNotFound, r.status, "%s %s", method, path)
			assert.Empty(t, r.header.Get("Location"))
		}
	}
}

func TestServer_answers404ForAnUnknownProduct(t *testing.T) {
	s := start(t)
	for _, product := range []string{"none", "ACME", "acme%2F", "%00", "%2e"} {
		r := s.do(http.MethodPost, "/webhook/"+product, pageview("1", "s", "https://a.b/c"), "X-PostHog-Secret: "+acmeSecret)
		assert.Equal(t, http.StatusNotFound, r.status, product)
	}
}

func TestServer_answers405WithAllow(t *testing.T) {
	s := start(t)
	tests := map[string]struct {
		allow   string
		methods []string
	}{
		"/users/acme/ada/live-activity": {"GET, HEAD", []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"}},
		"/stream/acme":                  {"GET, HEAD", []string{"POST", "PUT", "DELETE"}},
		"/webhook/acme":                 {"POST", []string{"GET", "HEAD", "PUT", "DELETE"}},
		"/mcp":                          {"POST", []string{"GET", "HEAD", "PUT", "DELETE"}},
		"/mcp/":                         {"POST", []string{"GET", "DELETE"}},
		"/healthz":                      {"GET, HEAD", []string{"POST", "DELETE"}},
		"/readyz":                       {"GET, HEAD", []string{"POST"}},
		"/metrics":                      {"GET, HEAD", []string{"POST"}},
		"/admin/products":               {"GET, HEAD, POST", []string{"PUT", "DELETE"}},
		"/e/":                           {"POST, OPTIONS", []string{"GET", "HEAD", "PUT"}},
		"/batch":                        {"POST, OPTIONS", []string{"GET"}},
		"/i/v0/e/":                      {"POST, OPTIONS", []string{"GET", "DELETE"}},
		"/flags/":                       {"POST, OPTIONS", []string{"GET"}},
		"/decide/":                      {"POST, OPTIONS", []string{"GET"}},
		"/s/":                           {"POST, OPTIONS", []string{"GET"}},
		"/array/phc_x/config.js":        {"GET, OPTIONS", []string{"POST"}},
	}
	for path, tt := range tests {
		for _, method := range tt.methods {
			r := s.do(method, path, "", bearer(acmeKey))
			assert.Equal(t, http.StatusMethodNotAllowed, r.status, "%s %s", method, path)
			assert.Equal(t, tt.allow, r.header.Get("Allow"), "%s %s", method, path)
		}
	}
}

func TestServer_survivesWhatIsNoRequestOfItsOwn(t *testing.T) {
	s := start(t)
	for name, request := range map[string]string{
		"an asterisk": "GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"CONNECT":     "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nConnection: close\r\n\r\n",
		"a full URL":  "GET http://other.example/none HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Write([]byte(request))
			require.NoError(t, err)
			r := readReply(t, conn)
			assert.Equal(t, http.StatusNotFound, r.status)
			r.detail(t)
		})
	}
	assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/healthz", "").status)
}

func TestMetrics_tellWhatHappened(t *testing.T) {
	s := start(t)
	s.stream("/stream/acme?last_event_id=none", bearer(acmeKey))
	s.webhook(pageview("u1", "session-1", "https://app.example.com/a"))
	s.webhook(pageview("u1", "session-1", "https://app.example.com/a"))
	s.webhook(`{"event":"custom","distinct_id":"ada"}`)
	s.lookup("ada")
	s.do(http.MethodGet, "/users/acme/"+mail+"/live-activity", "")
	s.do(http.MethodGet, "/none/"+mail, "")
	s.do(http.MethodPost, "/e/", `{"api_key":"`+acmeToken+`","batch":[]}`)
	var text string
	require.Eventually(t, func() bool {
		text = s.do(http.MethodGet, "/metrics", "").body
		return strings.Contains(text, "liveactivity_stream_sent_total 1\n")
	}, 5*time.Second, time.Millisecond)
	for _, line := range []string{
		`liveactivity_events_total{outcome="accepted",product_id="acme",reason=""} 1`,
		`liveactivity_events_total{outcome="duplicate",product_id="acme",reason=""} 1`,
		`liveactivity_events_total{outcome="ignored",product_id="acme",reason="other_event"} 1`,
		`liveactivity_actions_total{product_id="acme",type="pageview"} 1`,
		`liveactivity_users 1`,
		`liveactivity_log_entries{product_id="acme"} 1`,
		`liveactivity_log_dropped_total{product_id="acme"} 0`,
		`liveactivity_stream_subscribers{product_id="acme"} 1`,
		`liveactivity_stream_gaps_total{product_id="acme"} 1`,
		`liveactivity_stream_lag_seconds_count 1`,
		`liveactivity_http_request_duration_seconds_count{code="200",route="POST /webhook/{product_id}"} 3`,
		`liveactivity_http_request_duration_seconds_count{code="200",route="GET /stream/{product_id}"} 1`,
		`liveactivity_http_request_duration_seconds_count{code="401",route="GET /users/{product_id}/{user_id}/live-activity"} 1`,
		`liveactivity_http_request_duration_seconds_count{code="404",route="none"} 1`,
		`liveactivity_http_request_duration_seconds_count{code="200",route="/e/{$}"} 1`,
	} {
		assert.Contains(t, text, line+"\n")
	}
	for _, family := range []string{"liveactivity_log_bytes", "go_goroutines"} {
		assert.Contains(t, text, "# TYPE "+family+" ")
	}
	for line := range strings.SplitSeq(text, "\n") {
		if name, ok := strings.CutPrefix(line, "# HELP "); ok {
			_, help, _ := strings.Cut(name, " ")
			assert.NotEmpty(t, help, line)
		}
	}
	assertSilent(t, text)
	assert.NotContains(t, text, "session-1")
	assert.NotContains(t, text, `"ada"`)
}

// The log is bounded per product; what is dropped is counted.
func TestMetrics_countWhatTheLogDropped(t *testing.T) {
	s := start(t, func(c *server.Config) { c.LogMaxBytes = 2000 })
	for _, uuid := range []string{"1", "2", "3", "4", "5", "6"} {
		s.webhook(pageview(uuid, "s", "https://app.example.com/a"))
	}
	assert.NotContains(t, s.do(http.MethodGet, "/metrics", "").body, `liveactivity_log_dropped_total{product_id="acme"} 0`)
}

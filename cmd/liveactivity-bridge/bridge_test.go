package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/bridge"
	"github.com/liveactivity/liveactivity/internal/proctest"
)

func TestContext_returnsWhatWasReported(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, proctest.AnyPort)
	assert.JSONEq(t, `{"status":"accepted","count":1}`, s.report("s1", "Vendors", `,"type":"pageview","url":"https://portal.example.com/vendors"`))
	assert.JSONEq(t, `{"status":"accepted","count":2}`, s.report("s1", "Approve vendor",
		`,"vendor":{"id":"7","name":"Acme Supplies","status":"blocked","missing_documents":["W-9 form"]}`))
	s.report("s2", "Send reminder", "")

	c := s.context("s1")
	assert.Equal(t, "s1", c.SessionID)
	assert.Equal(t, "Hi! I can see you visited vendors and clicked Approve vendor. Acme Supplies is blocked: the W-9 form is missing.", c.Summary)
	assert.Equal(t, []string{"Vendors", "Approve vendor"}, s.titles("s1"))
	assert.Equal(t, &bridge.Vendor{ID: "7", Name: "Acme Supplies", Status: bridge.Blocked, MissingDocuments: []string{"W-9 form"}}, c.Vendor)
	assert.Equal(t, c.Summary, s.get("/context/s1", "Accept: text/plain"))
	assert.Equal(t, []string{"Send reminder"}, s.titles("s2"), "sessions do not mix")
	assert.Nil(t, s.context("s2").Vendor)
	s.Stop()
}

func TestContext_ofAnUnknownSessionIsFriendly(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, proctest.AnyPort)
	for _, session := range []string{"s9", "ada@example.com", "a/b c%?#ß", "\x00", "s9;x=y", strings.Repeat("x", 10_000)} {
		c := s.context(session)
		assert.Equal(t, session, c.SessionID)
		assert.NotEmpty(t, c.Summary)
		assert.Empty(t, c.Actions)
	}
	assert.Contains(t, s.get("/context/%2e%2e"), `"session_id":".."`)
	assert.Contains(t, s.get("/context/s9"), `"actions":[],"vendor":null`)
}

func TestContext_holdsTheLastThirtyActions(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, proctest.AnyPort)
	var want []string
	for i := range 35 {
		title := fmt.Sprint("Step ", i)
		s.report("s1", title, "")
		want = append(want, title)
	}
	assert.Equal(t, want[5:], s.titles("s1"))
}

func TestActions_areRefusedWhenWrong(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, proctest.AnyPort)
	for name, tt := range map[string]struct {
		method, path, body string
		status             int
		want               string // what the detail names
	}{
		"empty":            {"POST", "/demo/actions", "", 400, "empty"},
		"no JSON":          {"POST", "/demo/actions", "session_id=s1", 400, "JSON"},
		"half of it":       {"POST", "/demo/actions", `{"session_id":"s1"`, 400, "JSON"},
		"an array":         {"POST", "/demo/actions", `[]`, 400, "object"},
		"null":             {"POST", "/demo/actions", `null`, 400, "object"},
		"not UTF-8":        {"POST", "/demo/actions", "{\"session_id\":\"\xff\"}", 400, "UTF-8"},
		"a raw NUL":        {"POST", "/demo/actions", "{\"session_id\":\"\x00\"}", 400, "JSON"},
		"nested":           {"POST", "/demo/actions", strings.Repeat("[", 60_000), 400, "JSON"},
		"no session":       {"POST", "/demo/actions", `{"title":"x"}`, 400, "session_id"},
		"no title":         {"POST", "/demo/actions", `{"session_id":"s1"}`, 400, "title"},
		"a number":         {"POST", "/demo/actions", `{"session_id":1,"title":"x"}`, 400, "session_id"},
		"an odd type":      {"POST", "/demo/actions", `{"session_id":"s1","title":"x","type":"Click!"}`, 400, "type"},
		"a script":         {"POST", "/demo/actions", `{"session_id":"s1","title":"x","url":"javascript:alert(1)"}`, 400, "url"},
		"an odd vendor":    {"POST", "/demo/actions", `{"session_id":"s1","title":"x","vendor":{"id":"7","status":"lost"}}`, 400, "vendor.status"},
		"too large":        {"POST", "/demo/actions", `{"session_id":"s1","title":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "larger"},
		"another method":   {"GET", "/demo/actions", "", 405, "method"},
		"a report there":   {"POST", "/context/s1", `{}`, 405, "method"},
		"no id":            {"GET", "/context/", "", 404, "path"},
		"a path below":     {"GET", "/context/s1/x", "", 404, "path"},
		"no such file":     {"GET", "/static/none.js", "", 404, "file"},
		"a way out":        {"GET", "/static/..%2findex.html", "", 404, ""},
		"a way out, twice": {"GET", "/static/../index.html", "", 404, ""},
		"nothing there":    {"GET", "/debug/pprof/", "", 404, "path"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := proctest.Do(t, tt.method, s.url+tt.path, tt.body)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, tt.status, resp.StatusCode, string(body))
			assert.Equal(t, tt.status == http.StatusMethodNotAllowed, resp.Header.Get("Allow") != "")
			var e map[string]string
			require.NoError(t, json.Unmarshal(body, &e), string(body))
			assert.Len(t, e, 1)
			assert.Regexp(t, `^[A-Z][^\n]*`+tt.want+`[^\n]*$`, e["detail"])
		})
	}
	assert.Empty(t, s.titles("s1"))
	assert.NotContains(t, s.Stderr.String(), "goroutine")
}

// The page is whole: all it refers to is served, and all of that is its own.
func TestPage_needsNothingElse(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, proctest.AnyPort)
	resp := proctest.Do(t, http.MethodGet, s.url+"/", "")
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Contains(t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
	references := regexp.MustCompile(`(?:src|href)="([^"#][^"]*)"`).FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, references)
	for _, reference := range references {
		assert.NotContains(t, reference[1], "//", "of another origin")
		file := s.get("/" + strings.TrimPrefix(reference[1], "/"))
		for _, imported := range regexp.MustCompile(`from "\./([^"]+)"`).FindAllStringSubmatch(file, -1) {
			s.get("/static/" + imported[1])
		}
	}
}

// sharedWith returns which origin may read the answer to a request of a page of
// that origin.
func (s *service) sharedWith(origin string) string {
	s.t.Helper()
	resp := proctest.Do(s.t, http.MethodGet, s.url+"/context/s1", "", "Origin: "+origin)
	assert.Contains(s.t, resp.Header.Values("Vary"), "Origin")
	assert.Empty(s.t, resp.Header.Get("Access-Control-Allow-Credentials"))
	return resp.Header.Get("Access-Control-Allow-Origin")
}

func TestAllowedOrigin_letsItsPagesIn(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, proctest.AnyPort, "--allowed-origin=https://portal.example.com", "--allowed-origin", "http://localhost:3000")
	for origin, allowed := range map[string]bool{
		"https://portal.example.com": true, "http://localhost:3000": true, s.url: true,
		"https://portal.example.com.evil.example": false, "http://portal.example.com": false, "http://localhost": false, "null": false, "*": false,
	} {
		want := ""
		if allowed {
			want = origin
		}
		assert.Equal(t, want, s.sharedWith(origin))
		resp := proctest.Do(t, http.MethodOptions, s.url+"/demo/actions", "", "Origin: "+origin,
			"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type")
		assert.Equal(t, http.StatusNoContent, resp.StatusCode)
		assert.Equal(t, want, resp.Header.Get("Access-Control-Allow-Origin"))
		assert.Equal(t, allowed, resp.Header.Get("Access-Control-Allow-Methods") != "")
	}
	closed := launch(t, nil, proctest.AnyPort)
	assert.Empty(t, closed.sharedWith("https://portal.example.com"), "without the flag only its own pages")
	assert.Equal(t, closed.url, closed.sharedWith(closed.url))
}

func TestMetrics_areValid(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, proctest.AnyPort)
	s.report("session-1", "Approve vendor", "")
	s.get("/context/session-1")
	metrics := s.get("/metrics")
	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
	assert.Contains(t, metrics, "\nliveactivity_bridge_sessions 1\n")
	assert.Contains(t, metrics, "\nliveactivity_http_request_duration_seconds_count{code=\"200\",route=\"GET /context/{session_id}\"} 1\n")
	assert.NotContains(t, metrics, "session-1")
	assert.NotContains(t, metrics, "liveactivity_consumer", "there is no stream")
}

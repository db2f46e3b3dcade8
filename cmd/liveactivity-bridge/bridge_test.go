package main_test

import (
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

func TestContext_returnsReportedActions(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, proctest.AnyPort)
	assert.JSONEq(t, `{"status":"accepted","count":1}`,
		s.report("s1", "Vendors", `,"type":"pageview","url":"https://portal.example.com/vendors"`))
	assert.JSONEq(t, `{"status":"accepted","count":2}`, s.report("s1", "Approve vendor",
		`,"vendor":{"id":"7","name":"Acme Supplies","status":"blocked","missing_documents":["W-9 form"]}`))
	s.report("s2", "Send reminder", "")

	c := s.context("s1")
	assert.Equal(t, "s1", c.SessionID)
	assert.Equal(t, "Hi! I can see you visited vendors and clicked Approve vendor. Acme Supplies is blocked. "+
		"Missing documents: W-9 form.", c.Summary)
	assert.Equal(t, []string{"Vendors", "Approve vendor"}, s.titles("s1"))
	assert.Equal(t, &bridge.Vendor{ID: "7", Name: "Acme Supplies", Status: bridge.Blocked,
		MissingDocuments: []string{"W-9 form"}}, c.Vendor)
	assert.Equal(t, c.Summary, s.get("/context/s1", "Accept: text/plain"))
	assert.Equal(t, []string{"Send reminder"}, s.titles("s2"), "sessions do not mix")
	assert.Nil(t, s.context("s2").Vendor)
	s.Stop()
}

// The bridge serves every file that the page refers to, and the page refers to no other host.
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

// sharedWith returns the origin that may read the answer to a request from a page of that origin.
func (s *service) sharedWith(origin string) string {
	s.t.Helper()
	resp := proctest.Do(s.t, http.MethodGet, s.url+"/context/s1", "", "Origin: "+origin)
	assert.Contains(s.t, resp.Header.Values("Vary"), "Origin")
	assert.Empty(s.t, resp.Header.Get("Access-Control-Allow-Credentials"))
	return resp.Header.Get("Access-Control-Allow-Origin")
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
	assert.Contains(t, metrics, "\nliveactivity_http_request_duration_seconds_count{code=\"200\",route=\"GET "+
		"/context/{session_id}\"} 1\n")
	assert.NotContains(t, metrics, "session-1")
	assert.NotContains(t, metrics, "liveactivity_consumer", "there is no stream")
}

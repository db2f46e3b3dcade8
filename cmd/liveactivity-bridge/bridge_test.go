package main_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
)

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
	s.report("session-1", "Approve vendor")
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

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

var command proctest.Command

func TestMain(m *testing.M) { os.Exit(command.BuildAndRun(m, "../..", "cmd/liveactivity-bridge")) }

// token opens the stream; no output must ever hold it.
const token = "lak-s3cr3t"

// service is the command at work.
type service struct {
	*proctest.Process
	t   *testing.T
	url string
}

// launch starts a bridge and waits until it listens.
func launch(t *testing.T, env []string, args ...string) *service {
	t.Helper()
	p := command.Launch(t, env, args...)
	return &service{Process: p, t: t, url: p.URL()}
}

// newStream returns a stream that a bridge may read.
func newStream(t *testing.T) *streamtest.Server {
	t.Helper()
	s := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{Token: token, Heartbeat: 100 * time.Millisecond}))
	t.Cleanup(s.Close)
	return s
}

// get returns the answer to a request that must succeed.
func (s *service) get(path string) string {
	s.t.Helper()
	status, body := proctest.Request(s.t, http.MethodGet, s.url+path, "")
	require.Equal(s.t, http.StatusOK, status, body)
	return body
}

// report reports an action.
func (s *service) report(sessionID, title string) {
	s.t.Helper()
	status, body := proctest.Request(s.t, http.MethodPost, s.url+"/demo/actions",
		fmt.Sprintf(`{"session_id":%q,"title":%q}`, sessionID, title), "Content-Type: application/json")
	require.Equal(s.t, http.StatusAccepted, status, body)
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

// readiness returns the status of /readyz.
func (s *service) readiness() int {
	s.t.Helper()
	status, _ := proctest.Request(s.t, http.MethodGet, s.url+"/readyz", "")
	return status
}

func TestReadyz_isOnceTheStreamWasCaughtUpWith(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	stream.Refuse(http.StatusServiceUnavailable, 1)
	s := launch(t, nil, proctest.AnyPort, "--stream-url="+stream.URL(), "--token="+token)
	assert.Equal(t, http.StatusServiceUnavailable, s.readiness())
	s.get("/healthz")
	s.report("s1", "Approve vendor") // it works meanwhile
	waittest.Until(t, "it is ready", func() bool { return s.readiness() == http.StatusOK })

	alone := launch(t, nil, proctest.AnyPort)
	assert.Equal(t, http.StatusOK, alone.readiness(), "without a stream it needs none")
}

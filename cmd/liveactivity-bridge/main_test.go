package main_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
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

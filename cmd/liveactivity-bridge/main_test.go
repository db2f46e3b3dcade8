package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/bridge"
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

// follow starts a bridge that reads the stream, and waits until it listens.
func follow(t *testing.T, s *streamtest.Server, args ...string) *service {
	t.Helper()
	return launch(t, nil, append([]string{proctest.AnyPort, "--stream-url=" + s.URL(), "--token=" + token}, args...)...)
}

// get returns the answer to a request that must succeed.
func (s *service) get(path string, headers ...string) string {
	s.t.Helper()
	status, body := proctest.Request(s.t, http.MethodGet, s.url+path, "", headers...)
	require.Equal(s.t, http.StatusOK, status, body)
	return body
}

// report reports an action; fields go into the body as they are, each after a
// comma.
func (s *service) report(sessionID, title, fields string) string {
	s.t.Helper()
	status, body := proctest.Request(s.t, http.MethodPost, s.url+"/demo/actions",
		fmt.Sprintf(`{"session_id":%q,"title":%q%s}`, sessionID, title, fields), "Content-Type: application/json")
	require.Equal(s.t, http.StatusAccepted, status, body)
	return body
}

// context returns the bridge's context of a session.
func (s *service) context(sessionID string) (c bridge.Context) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.get("/context/"+url.PathEscape(sessionID))), &c))
	return c
}

// titles returns the titles of a session's actions, oldest first.
func (s *service) titles(sessionID string) []string {
	s.t.Helper()
	titles := []string{}
	for i, a := range s.context(sessionID).Actions {
		assert.Equal(s.t, i, a.Index)
		titles = append(titles, a.Title)
	}
	return titles
}

// await waits until a session has exactly these actions, oldest first.
func (s *service) await(sessionID string, titles ...string) {
	s.t.Helper()
	titles = append([]string{}, titles...) // not nil
	waittest.Equal(s.t, titles, func() []string { return s.titles(sessionID) })
}

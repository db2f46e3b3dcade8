package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

var command proctest.Command

func TestMain(m *testing.M) { os.Exit(command.BuildAndRun(m, "../..", "cmd/liveactivity-retriever")) }

// The secrets of a retriever; no output must ever hold any.
const (
	token     = "lak-s3cr3t"
	apiKey    = "api-s3cr3t"
	openAIKey = "sk-s3cr3t"
)

// newStream returns the stream that a retriever reads.
func newStream(t *testing.T) *streamtest.Server {
	t.Helper()
	s := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{Token: token, Heartbeat: 100 * time.Millisecond}))
	t.Cleanup(s.Close)
	return s
}

// service is the command at work.
type service struct {
	*proctest.Process
	t   *testing.T
	url string
}

// follow starts a retriever that reads the stream, and waits until it listens.
func follow(t *testing.T, s *streamtest.Server, args ...string) *service {
	t.Helper()
	return launch(t, nil, append([]string{proctest.AnyPort, "--stream-url=" + s.URL(), "--token=" + token}, args...)...)
}

// launch starts a retriever and waits until it listens.
func launch(t *testing.T, env []string, args ...string) *service {
	t.Helper()
	p := command.Launch(t, env, args...)
	return &service{Process: p, t: t, url: p.URL()}
}

// did returns a batch of a session's actions, all of just now and one for each thing.
func did(sessionID, email string, things ...string) activity.Batch {
	b := activity.Batch{SessionID: sessionID, Email: email}
	for i, thing := range things {
		a := activity.Action{Type: activity.TypeClick, Title: "Click " + thing,
			Description: "User clicked " + thing, Index: i, TimestampStart: activity.Seconds(time.Now())}
		b.Actions = append(b.Actions, activity.BatchAction{Action: a})
	}
	return b
}

// said returns the contents of a response's records, newest first: the things of each joined by
// "+", or its summary.
func said(t require.TestingT, answer string) []string {
	var body struct{ Records []struct{ Content string } }
	require.NoError(t, json.Unmarshal([]byte(answer), &body), answer)
	require.NotNil(t, body.Records, answer)
	all := make([]string, len(body.Records))
	for i, r := range body.Records {
		lines := strings.Split(r.Content, "\n")
		for i, line := range lines {
			if _, thing, ok := strings.Cut(line, " UTC: User clicked "); ok {
				lines[i] = thing
			}
		}
		all[i] = strings.Join(lines, "+")
	}
	return all
}

// get returns the answer to a request that must succeed.
func (s *service) get(path string) string {
	s.t.Helper()
	status, body := proctest.Request(s.t, http.MethodGet, s.url+path, "")
	require.Equal(s.t, http.StatusOK, status, body)
	return body
}

// things returns the things in a session's records, oldest first. Batches that come while one is
// written share a record.
func (s *service) things(sessionID string) []string {
	s.t.Helper()
	things := []string{}
	for _, record := range slices.Backward(said(s.t, s.get("/events?session_id="+sessionID))) {
		things = append(things, strings.Split(record, "+")...)
	}
	return things
}

// await waits until a session has exactly these things, oldest first.
func (s *service) await(sessionID string, want ...string) {
	s.t.Helper()
	want = append([]string{}, want...) // not nil
	waittest.Equal(s.t, want, func() []string { return s.things(sessionID) })
}

// metric returns a line of the metrics without its value, and the value as text. The value is empty
// where there is no such line.
func (s *service) metric(name string) string {
	s.t.Helper()
	for line := range strings.SplitSeq(s.get("/metrics"), "\n") {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return value
		}
	}
	return ""
}

// awaitMetric waits until a metric has a value.
func (s *service) awaitMetric(name, value string) {
	s.t.Helper()
	waittest.Until(s.t, name+" is "+value, func() bool { return s.metric(name) == value })
}

// awaitReady waits until the stream is open.
func (s *service) awaitReady() {
	s.t.Helper()
	waittest.Until(s.t, "it is ready", func() bool {
		status, _ := proctest.Request(s.t, http.MethodGet, s.url+"/readyz", "")
		return status == http.StatusOK
	})
}

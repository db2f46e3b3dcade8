package liveactivity_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestStop_finishesRequestsInFlightAndTheirEventsReachTheStreams(t *testing.T) {
	s := start(t)
	stream := s.stream("/stream/acme", bearer(acmeKey))
	finish := proctest.UnderWay(t, s.url, "/webhook/acme", pageview("u1", "s1", "https://app.example.com/last"),
		"X-PostHog-Secret: "+acmeSecret)
	s.cancel()
	proctest.HangsUp(t, s.url)
	select {
	case <-s.done:
		require.Fail(t, "it does not wait for the request")
	case f := <-stream.frames:
		require.Fail(t, "the stream is over before the request", "%v", f)
	default:
	}
	assert.Equal(t, http.StatusOK, finish())
	s.stop()
	frames := stream.rest()
	require.Len(t, frames, 1)
	assert.Contains(t, frames[0].Data, "https://app.example.com/last")
}

// dial opens a connection to the server and writes the beginning of a request.
func (s *service) dial(request string) net.Conn {
	s.t.Helper()
	conn := musttest.New(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))
	s.t.Cleanup(func() { conn.Close() })
	_, err := io.WriteString(conn, request)
	require.NoError(s.t, err)
	return conn
}

// Connections that were opened in advance and never used delay no stop.
func TestStop_endsIdleAndSilentConnectionsAndMCPClients(t *testing.T) {
	s := start(t)
	session, err := s.connect(acmeKey, nil)
	require.NoError(t, err)
	_, err = session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	idle := s.dial("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, idle.SetReadDeadline(time.Now().Add(waittest.Patience)))
	answer, err := http.ReadResponse(bufio.NewReader(idle), nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, answer.StatusCode)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, err)
	silent := s.dial("")
	s.do(http.MethodGet, "/healthz", "") // by then the server knows of the silent one
	s.stop()
	_, err = idle.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	_, err = silent.Read(make([]byte, 1))
	assert.Error(t, err)
	assert.NotContains(t, s.log.String(), "cut off")
}

// A stopped server asks later requests to come again.
func TestStop_refusesLaterRequests(t *testing.T) {
	s := start(t)
	s.stop()
	for method, path := range map[string]string{http.MethodGet: "/readyz", http.MethodPost: "/webhook/acme"} {
		w := ask(s.service, method, path, pageview("u1", "s1", "https://app.example.com/a"), "X-PostHog-Secret: "+acmeSecret)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code, path)
		assert.Equal(t, "1", w.Header().Get("Retry-After"))
		reply{w.Code, w.Header(), w.Body.String()}.detail(t)
	}
	assert.Equal(t, http.StatusOK, ask(s.service, http.MethodGet, "/healthz", "").Code, "it is stopping, not sick")
}

// A server goes on where the previous one stopped.
func TestDataDir_survivesARestart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, withDataDir(dir))
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	s.webhook(pageview("u2", "s1", "https://app.example.com/b"))
	initech := s.register(`{"product_id":"initech"}`)
	first := s.stream("/stream/acme?since=1", bearer(acmeKey)).next()
	s.stop()

	s = start(t, withDataDir(dir))
	assert.Equal(t, 2.0, s.lookup("ada")["count"], "the first lookup waits until the server has caught up")
	assert.True(t, s.isReady())
	resumed := s.stream("/stream/acme", bearer(acmeKey), "Last-Event-ID: "+first.ID)
	assert.Equal(t, "https://app.example.com/b", resumed.nextBatch().Actions[0]["raw_url"])
	s.webhook(pageview("u2", "s1", "https://app.example.com/b"))
	s.webhook(pageview("u3", "s1", "https://app.example.com/c"))
	third := resumed.nextBatch()
	assert.Equal(t, "https://app.example.com/c", third.Actions[0]["raw_url"], "the repeated one is not streamed again")
	assert.Equal(t, 2.0, third.Actions[0]["index"], "the session's count goes on")
	assert.Equal(t, 3.0, s.lookup("ada")["count"])

	assert.Equal(t, http.StatusOK, s.status(http.MethodGet, "/users/initech/ada/live-activity", "",
		bearer(initech["key"])))
	assert.Equal(t, http.StatusConflict, s.status(http.MethodPost, "/admin/products", `{"product_id":"initech"}`,
		withAdminKey))
}

// Readers, fast or slow, get everything that was accepted, and then the end.
func TestStop_givesEveryReaderEverything(t *testing.T) {
	const batches = 100
	s := start(t)
	fast := s.stream("/stream/acme", bearer(acmeKey))
	filtered := s.stream("/stream/acme?since=1&session_id=s7", bearer(acmeKey))
	var want []string
	for i := range batches {
		url := fmt.Sprintf("https://app.example.com/%s/%d", strings.Repeat("x", 500), i)
		want = append(want, url)
		s.webhook(pageview(fmt.Sprint("u", i), fmt.Sprint("s", i), url))
	}
	s.cancel()
	s.stop()
	urls := func(frames []ssetest.Frame) (urls []string) {
		for _, f := range frames {
			var b batch
			require.NoError(t, json.Unmarshal([]byte(f.Data), &b))
			urls = append(urls, b.Actions[0]["raw_url"].(string))
		}
		return urls
	}
	assert.Equal(t, want, urls(fast.rest()))
	assert.Equal(t, want[7:8], urls(filtered.rest()))
}

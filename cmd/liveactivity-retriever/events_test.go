package main_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestRecords_areTheSameOnBothWays(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream)
	begun := time.Now().Truncate(time.Millisecond)
	for _, thing := range []string{"a", "b", "c", "d", "e", "f"} {
		stream.Send(did("s1", "ada@example.com", thing))
		waittest.Until(t, "it knows "+thing, func() bool { return strings.Contains(s.get("/events?session_id=s1"), "clicked "+thing) })
	}
	assert.Equal(t, []string{"f", "e", "d", "c", "b", "a"}, s.records("s1"), "one of each batch, newest first")
	assert.Equal(t, s.get("/events?session_id=s1"), s.get("/events?email=ada@example.com"))

	var events, retrieval struct{ Records []record }
	status, body := proctest.Request(t, http.MethodPost, s.url+"/retrieval", retrieveS1,
		"Content-Type: application/json") // as Dify does
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, []string{"f", "e", "d", "c", "b"}, said(t, body), "the top_k newest")
	require.NoError(t, json.Unmarshal([]byte(body), &retrieval))
	require.NoError(t, json.Unmarshal([]byte(s.get("/events?session_id=s1")), &events))
	for i, r := range retrieval.Records {
		assert.JSONEq(t, `{}`, string(r.Metadata), "never null")
		r.Metadata = nil
		assert.Equal(t, events.Records[i], r)
		assert.EqualValues(t, 1, r.Score)
		assert.Regexp(t, regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: User clicked [a-f]$`), r.Content)
		at, err := time.Parse("events @ 2006-01-02T15:04:05.000Z", r.Title)
		require.NoError(t, err)
		assert.WithinRange(t, at, begun, time.Now())
	}
	s.Stop()
	assert.NotContains(t, s.Stderr.String(), "ada@example.com")
}

func TestRoutes_areTheseOnly(t *testing.T) {
	t.Parallel()
	s := launch(t, enough)
	for _, tt := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"POST", "/events?session_id=s1", 405, "GET, HEAD"},
		{"DELETE", "/events", 405, "GET, HEAD"},
		{"OPTIONS", "/events", 405, "GET, HEAD"},
		{"GET", "/retrieval", 405, "POST"},
		{"PUT", "/retrieval", 405, "POST"},
		{"POST", "/metrics", 405, "GET, HEAD"},
		{"GET", "/", 404, ""},
		{"GET", "/events/", 404, ""},
		{"GET", "/events/s1", 404, ""},
		{"GET", "/x//events", 404, ""},
		{"GET", "/x/../events", 404, ""},
		{"GET", "/%2e%2e/events", 404, ""},
		{"GET", "/Events", 404, ""},
		{"GET", "/events%00", 404, ""},
		{"POST", "/retrieval/retrieval", 404, ""},
		{"GET", "/debug/pprof/", 404, ""},
		{"BREW", "/coffee", 404, ""},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			resp := proctest.Do(t, tt.method, s.url+tt.path, "")
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, tt.status, resp.StatusCode)
			assert.Equal(t, tt.allow, resp.Header.Get("Allow"))
			assert.Regexp(t, `^\{"detail":"[A-Z][^\n]+"\}$`, string(body))
		})
	}
	resp := proctest.Do(t, http.MethodHead, s.url+"/events?session_id=s1", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

// dial opens a connection and sends what is on the wire.
func (s *service) dial(wire string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(waittest.Patience)))
	_, _ = io.WriteString(conn, wire) // it may be refused half way
	return conn
}

func TestRequests_thatAreNoneDoNoHarm(t *testing.T) {
	t.Parallel()
	s := launch(t, enough)
	for name, wire := range map[string]string{
		"a NUL":               "GET /events?session_id=\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
		"a bad escape":        "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"no host":             "GET /events?session_id=s1 HTTP/1.1\r\n\r\n",
		"no version":          "GET /events\r\n\r\n",
		"TLS":                 "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"a header of 1 MiB":   "GET /events?session_id=s1 HTTP/1.1\r\nHost: x\r\nX-Large: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"a query of 1 MiB":    "GET /events?session_id=" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"a negative length":   "POST /retrieval HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"two lengths":         "POST /retrieval HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"chunks of no length": "POST /retrieval HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"an endless chunk":    "POST /retrieval HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n" + strings.Repeat("x", 1<<20),
		"a huge length":       "POST /retrieval HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000000000000\r\n\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			conn := s.dial(wire)
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err == nil { // else it was cut off
				assert.Regexp(t, `^HTTP/1\.[01] 4\d\d `, line)
			}
			assert.JSONEq(t, `{"records":[]}`, s.get("/events?session_id=s1"))
		})
	}
	s.checkHeap()
}

// Clients that send slowly, or take nothing, delay no other client, and are cut
// off in the end.
func TestRequests_thatAreSlowDelayNoOthers(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream)
	stream.Send(did("s1", "", "a"))
	s.await("s1", "a")
	var conns []net.Conn
	for range 200 {
		conns = append(conns,
			s.dial("GET /events?session_id=s1 HTTP/1.1\r\nHost: x\r\nX-Slow: "),
			s.dial("POST /retrieval HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{"))
	}
	for range 20 {
		begun := time.Now()
		assert.Equal(t, []string{"a"}, s.records("s1"))
		assert.Less(t, time.Since(begun), 5*time.Second)
	}
	s.checkHeap()
	_, err := io.ReadAll(conns[0])
	require.NoError(t, err, "half a header is cut off")
}

// Dify joins its endpoint, which may end in a slash, and the path.
func TestPaths_forgiveADoubledSlashBeforeThem(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	stream.Send(did("s1", "", "a"))
	s := follow(t, stream)
	s.await("s1", "a")
	for _, slashes := range []string{"/", "//", "///"} {
		status, body := proctest.Request(t, http.MethodPost, s.url+slashes+"retrieval", `{"knowledge_id":"s1"}`)
		assert.Equal(t, http.StatusOK, status, slashes)
		assert.Equal(t, []string{"a"}, said(t, body))
		status, body = proctest.Request(t, http.MethodGet, s.url+slashes+"events?session_id=s1", "")
		assert.Equal(t, http.StatusOK, status, slashes)
		assert.Equal(t, []string{"a"}, said(t, body))
	}
	for _, path := range []string{"//", "//x", "//example.com/retrieval", "/x//retrieval", "/./retrieval", "//../retrieval"} {
		status, _ := proctest.Request(t, http.MethodPost, s.url+path, `{"knowledge_id":"s1"}`)
		assert.Equal(t, http.StatusNotFound, status, path)
	}
}

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestReadyz_isOnceTheStreamWasCaughtUpWith(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	stream.Refuse(http.StatusServiceUnavailable, -1)
	s := follow(t, stream)
	resp := proctest.Do(t, http.MethodGet, s.url+"/readyz", "")
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	status, body := proctest.Request(t, http.MethodGet, s.url+"/readyz", "")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.JSONEq(t, `{"detail":"The event stream has not been caught up with."}`, body)
	assert.JSONEq(t, `{"status":"ok"}`, s.get("/healthz"))
	assert.JSONEq(t, `{"records":[]}`, s.get("/events?session_id=s1"))

	stream.Refuse(http.StatusServiceUnavailable, 0)
	s.awaitReady()
	assert.JSONEq(t, `{"status":"ready"}`, s.get("/readyz"))
	stream.Refuse(http.StatusServiceUnavailable, -1)
	stream.Disconnect()
	waittest.Until(t, "the stream has no reader", func() bool { return stream.Connected() == 0 })
	assert.JSONEq(t, `{"status":"ready"}`, s.get("/readyz"), "what is in memory is still right")
}

func TestMetrics_areValid(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream, "--threshold=2")
	stream.Send(did("session-1", "ada@example.com", "a", "b"))
	stream.SendRaw("no JSON")
	s.await("session-1", "Clicked a and b.")
	s.awaitMetric(`liveactivity_consumer_skipped_total{reason="malformed"}`, "1")
	proctest.Request(t, http.MethodGet, s.url+"/none/session-1", "")

	metrics := s.get("/metrics")
	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
	for name, want := range map[string]string{
		"liveactivity_retriever_sessions": "1", "liveactivity_consumer_connects_total": "1",
		`liveactivity_consumer_acknowledged_total{type="actions"}`: "1", `liveactivity_summaries_total{result="ok"}`: "1",
		`liveactivity_http_request_duration_seconds_count{code="404",route="none"}`: "1",
	} {
		assert.Contains(t, metrics, "\n"+name+" "+want+"\n")
	}
	for _, private := range []string{"session-1", "ada@example.com", "s3cr3t"} {
		assert.NotContains(t, metrics, private)
	}
}

// Records and histories share the memory of a small container.
func TestMemory_isBounded(t *testing.T) {
	t.Parallel()
	const limit, sessions = 20 << 20, 6000
	stream := newStream(t)
	s := launch(t, []string{fmt.Sprint("GOMEMLIMIT=", limit)}, proctest.AnyPort, "--stream-url="+stream.URL(),
		"--token="+token)
	things := make([]string, 19)
	for i := range things {
		things[i] = strings.Repeat(fmt.Sprint(i), 60)
	}
	for i := range sessions {
		stream.Send(did(fmt.Sprint("s", i), "", things...))
	}
	s.awaitMetric(`liveactivity_consumer_acknowledged_total{type="actions"}`, fmt.Sprint(sessions))
	waittest.Until(t, "the heap is within the limit", func() bool {
		heap, err := strconv.ParseFloat(s.metric("go_memstats_heap_inuse_bytes"), 64)
		return assert.NoError(t, err) && heap < limit
	})
	assert.Len(t, s.things(fmt.Sprint("s", sessions-1)), len(things), "the newest stay")
}

const retrieveS1 = `{"knowledge_id":"s1","query":"what did I ` +
	`do?","retrieval_setting":{"top_k":5,"score_threshold":0.5}}`

func TestStop_aSecondSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	s := follow(t, newStream(t))
	proctest.UnderWay(t, s.url, "/retrieval", retrieveS1)
	s.Signal(syscall.SIGTERM)
	proctest.HangsUp(t, s.url)
	assert.Equal(t, -1, s.SignalUntilExit(syscall.SIGTERM), "it is ended by the signal")
}

func TestRoutes_areTheseOnly(t *testing.T) {
	t.Parallel()
	s := launch(t, enough)
	for route, want := range map[string]int{
		"POST /events": http.StatusMethodNotAllowed, "GET /retrieval": http.StatusMethodNotAllowed,
		"POST /metrics": http.StatusMethodNotAllowed,
		"GET /":         http.StatusNotFound, "GET /debug/pprof/": http.StatusNotFound,
	} {
		method, path, _ := strings.Cut(route, " ")
		status, body := proctest.Request(t, method, s.url+path, "")
		assert.Equal(t, want, status, route)
		assert.Regexp(t, `^\{"detail":"[A-Z][^\n]+"\}$`, body)
	}
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
	for _, path := range []string{"//", "//x", "//example.com/retrieval", "/x//retrieval", "/./retrieval",
		"//../retrieval"} {
		status, _ := proctest.Request(t, http.MethodPost, s.url+path, `{"knowledge_id":"s1"}`)
		assert.Equal(t, http.StatusNotFound, status, path)
	}
}

var shellBlock = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")

// The shell lines on Dify's page start a retriever and ask it, unchanged but for the addresses.
func TestDocs_showLinesThatWork(t *testing.T) {
	t.Parallel()
	page := musttest.New(os.ReadFile("../../docs/dify.md"))
	stream := newStream(t)
	stream.Send(did("demo-session", "", "Save"))
	env := []string{"KEY=" + token, "DIFY_KEY=" + apiKey}
	var s *service
	asked := 0
	for _, block := range shellBlock.FindAllStringSubmatch(string(page), -1) {
		for line := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n") {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "export "):
				output, err := exec.Command("bash", "-euc", line).CombinedOutput()
				require.NoError(t, err, "%s: %s", line, output)
			case strings.HasPrefix(line, "go run ./cmd/liveactivity-retriever "):
				flags := strings.TrimPrefix(line, "go run ./cmd/liveactivity-retriever ")
				flags = strings.ReplaceAll(flags, "http://127.0.0.1:8080/stream/demo", stream.URL())
				p := command.LaunchBy(t, strings.Join(env, " ")+`; exec "$0" "$@" `+flags, proctest.AnyPort)
				s = &service{Process: p, t: t, url: p.URL()}
				s.awaitReady()
			default:
				cmd := exec.Command("bash", "-c", strings.ReplaceAll(line, "http://127.0.0.1:8090", s.url))
				cmd.Env = append(os.Environ(), env...)
				answer, err := cmd.Output()
				require.NoError(t, err, line)
				assert.Equal(t, []string{"Save"}, said(t, string(answer)), line)
				asked++
			}
		}
	}
	require.Positive(t, asked)
}

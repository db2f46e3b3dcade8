package main_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/serve"
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

// A silent, a refusing and a missing stream hold up no stop.
func TestStop_doesNotWaitForTheStream(t *testing.T) {
	t.Parallel()
	silent, overloaded := newStream(t), newStream(t)
	silent.Stall()
	overloaded.Refuse(http.StatusServiceUnavailable, -1)
	for name, s := range map[string]*service{
		"silent": follow(t, silent), "overloaded": follow(t, overloaded), "not there": launch(t, enough),
	} {
		begun := time.Now()
		s.Stop()
		assert.Less(t, time.Since(begun), serve.ShutdownTime, name)
	}
}

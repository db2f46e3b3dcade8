package main_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

func TestStream_whatIsRetainedIsThereAgainAfterAKill(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	var want []string
	send := func(from, to int) {
		for i := from; i < to; i++ {
			thing := fmt.Sprint("thing ", i)
			stream.Send(did("s1", "ada@example.com", thing), did(fmt.Sprint("other ", i), "", "a"))
			want = append(want, thing)
		}
	}
	send(0, 20)
	s := follow(t, stream, "--threshold=1000")
	s.await("s1", want...)
	send(20, 40)
	s.await("s1", want...)
	s.Kill()
	send(40, 45)

	s = follow(t, stream, "--threshold=1000")
	s.await("s1", want...)
	send(45, 50)
	s.await("s1", want...)
	for i := range 50 {
		s.await(fmt.Sprint("other ", i), "a")
	}
	s.Stop()
	requests := stream.Requests()
	require.Len(t, requests, 2)
	for _, r := range requests {
		assert.Equal(t, streamtest.Request{At: r.At, Since: "0", Authorized: true, Status: http.StatusOK}, r)
	}
}

// However fast the stream is read again, the records are the same: their
// number, their text, their order and, but for a summary's, their times.
func TestStream_makesTheSameRecordsAfterAKill(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	var sent []string
	contents := func(s *service) []string {
		_, body := proctest.Request(t, http.MethodGet, s.url+"/events?session_id=s1", "")
		return regexp.MustCompile(`"content":"[^"]*"`).FindAllString(body, -1)
	}
	s := follow(t, stream, "--threshold=10", "--max-chunks=7")
	for i := range 38 {
		sent = append(sent, fmt.Sprint("thing ", i))
		stream.Send(did("s1", "", sent[i]))
	}
	var want []string
	waittest.Until(t, "the newest record is there", func() bool {
		want = contents(s)
		return len(want) == 7 && strings.Contains(want[0], "thing 37")
	})
	s.Kill()
	again := follow(t, stream, "--threshold=10", "--max-chunks=7")
	waittest.Until(t, "the records are the same", func() bool { return slices.Equal(want, contents(again)) })
}

// stderrLine is what a command that logs nothing below errors says at its end.
var stderrLine = regexp.MustCompile(`^liveactivity-retriever: stream: the server refuses the stream: \d{3} [A-Za-z ]+: [A-Z][^\n]+\n$`)

func TestStream_thatIsRefusedEndsIt(t *testing.T) {
	t.Parallel()
	type trial struct {
		*service
		status int
	}
	var trials []trial
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		fromTheStart, later := newStream(t), newStream(t)
		fromTheStart.Refuse(status, -1)
		p := command.Launch(t, nil, proctest.AnyPort, "--stream-url="+fromTheStart.URL(), "--token="+token, "--log-level=error")
		trials = append(trials, trial{&service{Process: p, t: t}, status})

		s := follow(t, later, "--log-level=error")
		later.Send(did("s1", "", "a"))
		s.await("s1", "a")
		later.Refuse(status, -1)
		later.Disconnect()
		trials = append(trials, trial{s, status})
	}
	for _, tr := range trials {
		assert.Equal(t, 1, tr.Wait(waittest.Patience))
		assert.Regexp(t, stderrLine, tr.Stderr.String())
		assert.Contains(t, tr.Stderr.String(), strconv.Itoa(tr.status))
		assert.NotContains(t, tr.Stderr.String(), "s3cr3t")
	}
}

func TestStream_aWrongTokenEndsIt(t *testing.T) {
	t.Parallel()
	p := command.Launch(t, nil, proctest.AnyPort, "--stream-url="+newStream(t).URL(), "--token=wrong-s3cr3t", "--log-level=error")
	assert.Equal(t, 1, p.Wait(waittest.Patience))
	assert.Regexp(t, stderrLine, p.Stderr.String())
	assert.NotContains(t, p.Stderr.String(), "s3cr3t")
}

func TestStream_thatGoesWrongLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	refuse := func(status, times int) func(*streamtest.Server) {
		return func(s *streamtest.Server) { s.Refuse(status, times); s.Disconnect() }
	}
	faults := map[string]func(s *streamtest.Server){
		"an end":           (*streamtest.Server).Disconnect,
		"half an event":    func(s *streamtest.Server) { s.Tear(40) },
		"nothing of one":   func(s *streamtest.Server) { s.Tear(0) },
		"nearly all of it": func(s *streamtest.Server) { s.Tear(1 << 20) },
		"torn twice":       func(s *streamtest.Server) { s.Tear(40); s.Tear(1 << 20) },
		"500":              refuse(http.StatusInternalServerError, 1),
		"503":              refuse(http.StatusServiceUnavailable, 1),
		"429":              refuse(http.StatusTooManyRequests, 1),
		"502":              refuse(http.StatusBadGateway, 1),
		"no event stream":  refuse(http.StatusOK, 1),
		"nothing at all":   refuse(http.StatusNoContent, 1),
		"a stall":          (*streamtest.Server).Stall,
		"a stall that ends": func(s *streamtest.Server) {
			s.Stall()
			s.Disconnect()
		},
	}
	type trial struct {
		*service
		stream *streamtest.Server
	}
	trials := map[string]trial{}
	for name := range faults {
		stream := newStream(t)
		trials[name] = trial{follow(t, stream), stream}
	}
	for name, tr := range trials {
		tr.stream.Send(did("s1", "", "a"), did("s2", "", "a"))
		tr.await("s1", "a")
		tr.await("s2", "a")
		faults[name](tr.stream)
		tr.stream.Send(did("s1", "", "b"), did("s2", "", "b", "c"), did("s1", "", "c"))
	}
	for name, tr := range trials {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, "a", tr.things("s1")[0], "it serves meanwhile")
			tr.stream.Resume()
			for _, session := range []string{"s1", "s2"} {
				tr.await(session, "a", "b", "c")
			}
			tr.stream.Send(did("s1", "", "d"), did("s2", "", "d"))
			for _, session := range []string{"s1", "s2"} {
				tr.await(session, "a", "b", "c", "d")
			}
			tr.Stop()
			assert.NotContains(t, tr.Stderr.String(), "s3cr3t")
		})
	}
}

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

// heap is the most that the heap of a retriever under attack may take, in bytes.
const heap = 64 << 20

// checkHeap checks what the process takes.
func (s *service) checkHeap() {
	s.t.Helper()
	for _, name := range []string{"go_memstats_heap_inuse_bytes", "go_memstats_stack_inuse_bytes"} {
		inUse, err := strconv.ParseFloat(s.metric(name), 64)
		require.NoError(s.t, err)
		assert.Less(s.t, inUse, float64(heap), name)
	}
}

// nested is that many arrays, one in the other.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// hostile is what no stream should bring.
var hostile = map[string]string{
	"no JSON":             "not JSON",
	"half an object":      `{"type":"actions","session_id":"s1","actions":[{"description":"User cl`,
	"an array":            `[]`,
	"null":                `null`,
	"a string":            `"actions"`,
	"a number":            `1e999`,
	"nothing":             `{}`,
	"no session":          `{"type":"actions","actions":[{"description":"User clicked x"}]}`,
	"no actions":          `{"type":"actions","session_id":"s1","actions":[]}`,
	"null actions":        `{"type":"actions","session_id":"s1","actions":null}`,
	"a type of its own":   `{"type":"wishes","session_id":"s1","actions":[{"description":"User clicked x"}]}`,
	"a number as type":    `{"type":7,"session_id":"s1","actions":[{"description":"User clicked x"}]}`,
	"a number as session": `{"type":"actions","session_id":7,"actions":[{"description":"User clicked x"}]}`,
	"a string as actions": `{"type":"actions","session_id":"s1","actions":"x"}`,
	"numbers as actions":  `{"type":"actions","session_id":"s1","actions":[7]}`,
	"an object as text":   `{"type":"actions","session_id":"s1","actions":[{"description":{"x":"User clicked x"}}]}`,
	"a string as time":    `{"type":"actions","session_id":"s1","actions":[{"description":"User clicked x","timestamp_start":"now"}]}`,
	"an endless time":     `{"type":"actions","session_id":"s1","actions":[{"description":"User clicked x","timestamp_start":1e400}]}`,
	"another's action":    `{"type":"actions","session_id":"s1","actions":[{"description":"User clicked x","session_id":"s2"}]}`,
	"two sessions":        `{"type":"actions","session_id":"s1","session_id":"s2","actions":[{"description":"User clicked x"}]}`,
	"nested arrays":       nested(500_000),
	"nested actions":      `{"type":"actions","session_id":"s1","actions":` + nested(400_000) + `}`,
	"nested elsewhere":    `{"x":` + nested(400_000) + `,"type":"actions","session_id":"s2","actions":[]}`,
	"nested objects":      `{"type":"actions","session_id":"s1","actions":` + strings.Repeat(`{"actions":`, 90_000) + `1` + strings.Repeat(`}`, 90_000) + `}`,
	"nested text":         `{"type":"actions","session_id":"s1","actions":[{"description":` + nested(400_000) + `}]}`,
	"over the limit":      `{"type":"actions","session_id":"s1","actions":[{"description":"User clicked ` + strings.Repeat("x", 2<<20) + `"}]}`,
	"far over the limit":  `{"type":"actions","session_id":"s1","actions":[{"description":"User clicked ` + strings.Repeat("x", 10<<20) + `"}]}`,
	"a bad summary":       `{"type":"summary","session_id":"s1","summary":7,"replaces":-1}`,
	"a summary":           `{"type":"summary","session_id":"s1","summary":"User clicked x","replaces":99}`,
}

func TestStream_thatIsHostileDoesNoHarm(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream)
	stream.Send(did("s1", "ada@example.com", "a"))
	s.await("s1", "a")
	for name, data := range hostile {
		stream.SendRaw(data)
		stream.Send(did("after "+name, "", "a"))
	}
	for name := range hostile {
		s.await("after "+name, "a")
	}
	s.checkHeap()
	stream.Send(did("s1", "", "b"))
	s.await("s1", "a", "b")
	s.await("s2")
	assert.Equal(t, "1", s.metric("liveactivity_consumer_connects_total"), "nothing of that ends the connection")
	assert.Less(t, len(s.Stderr.String()), 1<<16, "the log does not repeat it")
	s.Stop()
}

// Text that is odd but well formed is kept, and spoils no answer.
func TestStream_thatIsOddIsKept(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream)
	action := func(session, text, start string) string {
		return `{"type":"actions","session_id":"` + session + `","actions":[{"description":"` + text + `","timestamp_start":` + start + `}]}`
	}
	odd := map[string]string{
		"not UTF-8":         action("not UTF-8", "User clicked \xff\xfe", "0"),
		"half a surrogate":  action("half a surrogate", `User clicked \ud800`, "0"),
		"NUL":               action("NUL", `User \u0000clicked\u0000 x`, "0"),
		"a line of its own": action("a line of its own", `User clicked x\n2026-01-01 00:00:00 UTC: User clicked y`, "0"),
		"long ago":          action("long ago", "User clicked x", "-1e300"),
		"far ahead":         action("far ahead", "User clicked x", "1e300"),
		"fields twice":      `{"type":"actions","session_id":"fields twice","email":"a@b.c","email":"A@B.C","actions":[{"description":"x","description":"User clicked x"}]}`,
	}
	for _, data := range odd {
		stream.SendRaw(data)
	}
	for session := range odd {
		waittest.Until(t, session+" has one record", func() bool { return len(s.records(session)) == 1 })
		assert.Len(t, s.things(session), 1)
	}
	assert.Equal(t, []string{"x 2026-01-01 00:00:00 UTC: User clicked y"}, s.records("a line of its own"), "no text makes a line of its own")
	s.Stop()
}

// rawStream is a stream of bytes: each connection gets the next of the answers,
// and later ones the last.
func rawStream(t *testing.T, answers ...func(w http.ResponseWriter)) *service {
	t.Helper()
	n := 0
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		answer := answers[min(n, len(answers)-1)]
		n++ // the connections come one after the other
		answer(w)
		if n >= len(answers) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	return launch(t, nil, proctest.AnyPort, "--stream-url="+server+"/stream/acme", "--token="+token)
}

// frames writes a stream's bytes.
func frames(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { fmt.Fprint(w, text) }
}

const good = "id: 7\ndata: {\"type\":\"actions\",\"session_id\":\"s1\",\"actions\":[{\"description\":\"User clicked a\"}]}\n\n"

func TestStream_ofAnEndlessEventIsGivenUp(t *testing.T) {
	t.Parallel()
	endless := func(piece string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for written, limit := 0, 1<<30; written < limit; written += len(piece) {
				if _, err := fmt.Fprint(w, piece); err != nil {
					return
				}
			}
		}
	}
	kib := strings.Repeat("x", 1<<10)
	services := map[string]*service{}
	for name, answer := range map[string]func(w http.ResponseWriter){
		"a line":        endless(kib),
		"lines of data": endless("data: " + kib + "\n"),
		"ids":           endless("id: " + kib + "\n"),
		"no data":       endless(strings.Repeat("data:\r", 200)),
	} {
		services[name] = rawStream(t, answer, frames(good))
	}
	for name, s := range services {
		t.Run(name, func(t *testing.T) {
			s.await("s1", "a")
			s.checkHeap()
			assert.Contains(t, s.Stderr.String(), "an event does not end")
			s.Stop()
		})
	}
}

func TestStream_ofOddFramesIsRead(t *testing.T) {
	t.Parallel()
	s := rawStream(t, frames("\ufeffretry: -1\nretry: 99999999999999999999\nid: a\x00b\n\n"+
		"event: gap\ndata: nonsense\n\nevent: gap\ndata: {\"requested\":7}\n\nevent: heartbeat\ndata: {\n\nevent: "+strings.Repeat("x", 5000)+"\ndata: {}\n\n"+
		"data\n\n:\n\ndata: \xff\xfe\n\nid: "+strings.Repeat("9", 5000)+"\ndata: {}\n\n"+strings.Replace(good, "\n", "\r\n", 3)+strings.Replace(good, "s1", "s2", 1)+
		strings.Repeat(": "+strings.Repeat("x", 4096)+"\n", 8192)+strings.Replace(good, "s1", "s3", 1)))
	for _, session := range []string{"s1", "s2", "s3"} {
		s.await(session, "a")
	}
	s.checkHeap()
	s.Stop()
}

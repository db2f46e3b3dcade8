package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// retrieve asks as Dify does and returns the status and the body of the answer.
func (s *service) retrieve(knowledgeID string, headers ...string) (int, string) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{
		"knowledge_id": knowledgeID, "query": "what did I do?", "retrieval_setting": map[string]any{"top_k": 5, "score_threshold": 0.5},
	})
	require.NoError(s.t, err)
	return proctest.Request(s.t, http.MethodPost, s.url+"/retrieval", string(body), append(headers, "Content-Type: application/json")...)
}

// knows returns what a retrieval finds, newest first.
func (s *service) knows(knowledgeID string) []string {
	s.t.Helper()
	status, body := s.retrieve(knowledgeID)
	require.Equal(s.t, http.StatusOK, status, body)
	return said(s.t, body)
}

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
	assert.Equal(t, []string{"f", "e", "d", "c", "b"}, s.knows("s1"), "the top_k newest")
	assert.Equal(t, s.get("/events?session_id=s1"), s.get("/events?email=ada@example.com"))

	var events, retrieval struct{ Records []record }
	_, body := s.retrieve("s1")
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

func TestRecords_ofSessionsNeverMix(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream, "--threshold=1000")
	const sessions, batches = 50, 10
	want := map[string][]string{}
	for i := range batches {
		for n := range sessions {
			session, thing := fmt.Sprint("s", n), fmt.Sprintf("thing %d of %d", i, n)
			stream.Send(did(session, "", thing))
			want[session] = append(want[session], thing)
		}
	}
	for session, things := range want {
		s.await(session, things...)
	}
	for _, session := range []string{"s", "S1", "s1 ", " s1", "s1,s2", "s1\x00", "s%31", "s*", "s50"} {
		assert.Empty(t, s.records(session), session)
	}
}

func TestEmail_leadsToItsLastSession(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream, "--key-by=email")
	find := func(email string) []string { return said(t, s.get("/events?email="+url.QueryEscape(email))) }
	assert.Empty(t, find("ada@example.com"), "before the first event")
	stream.Send(did("s1", "Ada@Example.com", "a"))
	s.await("s1", "a")
	stream.Send(did("s2", "ada@example.COM", "b"), did("s3", "bob@example.com", "c"))
	s.await("s2", "b")
	s.await("s3", "c")
	for _, email := range []string{"ada@example.com", "ADA@EXAMPLE.COM", " Ada@Example.com "} {
		assert.Equal(t, []string{"b"}, find(email))
		assert.Equal(t, []string{"b"}, s.knows(email))
	}
	assert.Equal(t, []string{"c"}, s.knows("bob@example.com"))
	stream.Send(did("s1", "", "d"))
	s.await("s1", "a", "d")
	assert.Equal(t, []string{"b"}, find("ada@example.com"), "an event without an address changes nothing")
	for _, unknown := range []string{"eve@example.com", "s1", "ada", "%", "ada@example.com,bob@example.com"} {
		assert.Empty(t, find(unknown))
		assert.Empty(t, s.knows(unknown), "with --key-by=email it names no session")
	}
	assert.Equal(t, []string{"c"}, said(t, s.get("/events?session_id=s3&email=ada@example.com")), "the session goes first")
	assert.Empty(t, said(t, s.get("/events?session_id=s9&email=ada@example.com")))
}

func TestKeyBy_sessionNamesNoEmail(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream)
	stream.Send(did("s1", "ada@example.com", "a"))
	s.await("s1", "a")
	assert.Equal(t, []string{"a"}, s.knows("s1"))
	assert.Empty(t, s.knows("ada@example.com"))
}

func TestDebounceMS_mergesWhatComesTogether(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream, "--debounce-ms=500")
	s.awaitReady()
	begun := time.Now()
	stream.Send(did("s1", "", "a"), did("s2", "", "x"), did("s1", "", "b", "c"), did("s1", "", "d"))
	s.await("s1", "a", "b", "c", "d")
	assert.GreaterOrEqual(t, time.Since(begun), 500*time.Millisecond)
	assert.Equal(t, []string{"a+b+c+d"}, s.records("s1"))
	s.await("s2", "x")
	stream.Send(did("s1", "", "e"))
	s.await("s1", "a", "b", "c", "d", "e")
	assert.Equal(t, []string{"e", "a+b+c+d"}, s.records("s1"))
}

func TestThreshold_replacesRecordsOfItsSessionByOne(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream, "--threshold=3")
	stream.Send(did("s1", "", "a"), did("s2", "", "x"))
	s.await("s1", "a")
	stream.Send(did("s2", "", "y"))
	s.await("s2", "x", "y")
	stream.Send(did("s1", "", "b", "c"))
	s.await("s1", "Clicked a, b and c.")
	assert.Len(t, s.records("s1"), 1)
	assert.Equal(t, []string{"y", "x"}, s.records("s2"), "the other session is as it was")
	stream.Send(did("s1", "", "d"))
	s.await("s1", "Clicked a, b and c.", "d")
	stream.Send(did("s1", "", "e", "f"))
	s.await("s1", "Clicked a, b, c, d, e and f.")
}

func TestDefaults_areAsDocumented(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s, kept := follow(t, stream), follow(t, stream, "--threshold=1000")
	var want []string
	for i := range 51 {
		want = append(want, fmt.Sprint("thing ", i))
		stream.Send(did("s1", "", want[i]))
		kept.await("s1", want[max(0, i-49):]...)
		s.awaitMetric(`liveactivity_consumer_acknowledged_total{type="actions"}`, fmt.Sprint(i+1))
		if i < 19 {
			assert.Equal(t, want, s.things("s1"))
		}
	}
	waittest.Until(t, "two summaries are made", func() bool { return s.metric(`liveactivity_summaries_total{result="ok"}`) == "2" })
	assert.Len(t, s.records("s1"), 12, "a summary of 40 and what came since")
}

func TestMaxChunks_dropsTheOldest(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream, "--max-chunks=2")
	var want []string
	for _, thing := range []string{"a", "b", "c"} {
		stream.Send(did("s1", "", thing))
		want = append(want, thing)
		want = want[max(0, len(want)-2):]
		s.await("s1", want...)
	}
}

func TestMaxSessions_dropsTheLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream, "--max-sessions=1")
	for _, session := range []string{"s1", "s2"} {
		stream.Send(did(session, session+"@example.com", "a"))
		s.await(session, "a")
	}
	assert.Empty(t, s.records("s1"))
	assert.Empty(t, said(t, s.get("/events?email=s1@example.com")))
	assert.Equal(t, "1", s.metric("liveactivity_retriever_sessions"))
}

// checkError checks an error's body, which both endpoints have a detail in.
func checkError(t *testing.T, body string, code int) {
	t.Helper()
	var e map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &e), body)
	detail, _ := e["detail"].(string)
	assert.Regexp(t, `^[A-Z][^\n]+$`, detail, "a sentence")
	if code == 0 {
		assert.Len(t, e, 1)
		return
	}
	assert.Equal(t, map[string]any{"detail": detail, "error_msg": detail, "error_code": float64(code)}, e)
}

func TestAPIKey_isRequiredOnBoth(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream, "--api-key="+apiKey, "--log-level=debug")
	stream.Send(did("s1", "", "a"))
	s.awaitMetric(`liveactivity_consumer_acknowledged_total{type="actions"}`, "1")
	const noKey, wrongKey = 1001, 1002
	for name, tt := range map[string]struct {
		header string
		code   int
	}{
		"none":                {"X-None: 1", noKey},
		"no scheme":           {"Authorization: " + apiKey, noKey},
		"an empty one":        {"Authorization: Bearer", noKey},
		"a blank one":         {"Authorization: Bearer  ", noKey},
		"another scheme":      {"Authorization: Basic " + apiKey, noKey},
		"another header":      {"X-Api-Key: " + apiKey, noKey},
		"a wrong one":         {"Authorization: Bearer wrong-s3cr3t", wrongKey},
		"the beginning":       {"Authorization: Bearer " + apiKey[:5], wrongKey},
		"more":                {"Authorization: Bearer " + apiKey + "x", wrongKey},
		"another case":        {"Authorization: Bearer " + strings.ToUpper(apiKey), wrongKey},
		"the stream's":        {"Authorization: Bearer " + token, wrongKey},
		"two":                 {"Authorization: Bearer " + apiKey + ", Bearer " + apiKey, wrongKey},
		"a long one":          {"Authorization: Bearer " + strings.Repeat("x", 50_000), wrongKey},
		"the right one":       {"Authorization: Bearer " + apiKey, 0},
		"in any case":         {"Authorization: bearer " + apiKey, 0},
		"with space to spare": {"Authorization: Bearer   " + apiKey + " ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			events := proctest.Do(t, http.MethodGet, s.url+"/events?session_id=s1", "", tt.header)
			body, err := io.ReadAll(events.Body)
			require.NoError(t, err)
			status, retrieval := s.retrieve("s1", tt.header)
			if tt.code == 0 {
				assert.Equal(t, http.StatusOK, events.StatusCode)
				assert.Equal(t, []string{"a"}, said(t, string(body)))
				assert.Equal(t, []string{"a"}, said(t, retrieval))
				return
			}
			assert.Equal(t, http.StatusUnauthorized, events.StatusCode)
			assert.Equal(t, "Bearer", events.Header.Get("WWW-Authenticate"))
			checkError(t, string(body), 0)
			assert.Equal(t, http.StatusForbidden, status)
			checkError(t, retrieval, tt.code)
			assert.NotContains(t, string(body)+retrieval, "s3cr3t")
		})
	}
	s.awaitReady()
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		s.get(path)
	}
	status, body := proctest.Request(t, http.MethodPost, s.url+"/retrieval", strings.Repeat("x", 1<<20))
	assert.Equal(t, http.StatusForbidden, status, "before the body is looked at")
	checkError(t, body, noKey)
	s.Stop()
	assert.NotContains(t, s.Stdout.String()+s.Stderr.String(), "s3cr3t")
}

func TestEvents_answersWhateverComes(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream)
	stream.Send(did("s1", "ada@example.com", "a"), did("s2", "", "x"), did("Größe/%&=+ 1", "", "g"), did("a+b@example.com", "a+b@example.com", "p"))
	s.await("s1", "a")
	s.await("s2", "x")
	s.await("Größe/%&=+ 1", "g")
	s.await("a+b@example.com", "p")
	for name, tt := range map[string]struct {
		query  string
		status int
		want   []string
	}{
		"a session":             {"session_id=s1", 200, []string{"a"}},
		"odd characters":        {"session_id=Gr%C3%B6%C3%9Fe%2F%25%26%3D%2B+1", 200, []string{"g"}},
		"an encoded address":    {"email=a%2Bb%40example.com", 200, []string{"p"}},
		"a plus means a space":  {"email=a+b@example.com", 200, []string{}},
		"an unknown session":    {"session_id=s9", 200, []string{}},
		"twice: the first":      {"session_id=s1&session_id=s2", 200, []string{"a"}},
		"twice: empty, then s1": {"session_id=&session_id=s1", 400, nil},
		"an array":              {"session_id[]=s1", 400, nil},
		"more":                  {"session_id=s1&x=y&limit=0", 200, []string{"a"}},
		"empty, but an email":   {"session_id=&email=ada@example.com", 200, []string{"a"}},
		"NUL":                   {"session_id=%00", 200, []string{}},
		"not UTF-8":             {"session_id=%ff%fe", 200, []string{}},
		"a line feed":           {"session_id=s1%0d%0aX-Evil:%201", 200, []string{}},
		"encoded twice":         {"session_id=s%2531", 200, []string{}},
		"long":                  {"session_id=" + strings.Repeat("x", 30_000), 200, []string{}},
		"many":                  {strings.Repeat("x=y&", 5_000) + "session_id=s1", 200, []string{"a"}},
		"neither":               {"", 400, nil},
		"both empty":            {"session_id=&email=", 400, nil},
		"a blank email":         {"email=%20%09", 400, nil},
		"another case":          {"Session_ID=s1", 400, nil},
		"half an escape":        {"session_id=s1%", 400, nil},
		"no escape":             {"session_id=%zz", 400, nil},
		"no escape, elsewhere":  {"x=%zz&session_id=s1", 400, nil},
		"a semicolon":           {"session_id=s1;email=x", 400, nil},
	} {
		t.Run(name, func(t *testing.T) {
			resp := proctest.Do(t, http.MethodGet, s.url+"/events?"+tt.query, "")
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, tt.status, resp.StatusCode)
			assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			assert.Empty(t, resp.Header.Get("X-Evil"))
			if tt.want == nil {
				checkError(t, string(body), 0)
				return
			}
			assert.Equal(t, tt.want, said(t, string(body)))
		})
	}
	assert.Equal(t, `{"records":[]}`, s.get("/events?session_id=s9"))
	_, body := proctest.Request(t, http.MethodGet, s.url+"/events", "")
	assert.Contains(t, body, "Provide session_id or email")
}

func TestRetrieval_answersWhateverComes(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream)
	for _, thing := range []string{"a", "b"} {
		stream.Send(did("s1", "", thing))
		waittest.Until(t, "it knows "+thing, func() bool { return strings.Contains(s.get("/events?session_id=s1"), "clicked "+thing) })
	}
	for name, tt := range map[string]struct {
		body   string
		status int
		want   []string
	}{
		"only what is needed": {`{"knowledge_id":"s1"}`, 200, []string{"b", "a"}},
		"the newest":          {`{"knowledge_id":"s1","query":"","retrieval_setting":{"top_k":1,"score_threshold":0}}`, 200, []string{"b"}},
		"nulls":               {`{"knowledge_id":"s1","query":null,"retrieval_setting":null,"metadata_condition":null}`, 200, []string{"b", "a"}},
		"a condition":         {`{"knowledge_id":"s1","metadata_condition":{"logical_operator":"and","conditions":[]}}`, 200, []string{"b", "a"}},
		"a huge top_k":        {`{"knowledge_id":"s1","retrieval_setting":{"top_k":1e300}}`, 200, []string{"b", "a"}},
		"a high threshold":    {`{"knowledge_id":"s1","retrieval_setting":{"score_threshold":1.1}}`, 200, []string{}},
		"unknown":             {`{"knowledge_id":"s9"}`, 200, []string{}},
		"NUL":                 {`{"knowledge_id":"s1\u0000"}`, 200, []string{}},
		"a raw NUL":           {"{\"knowledge_id\":\"s1\x00\"}", 400, nil},
		"not UTF-8":           {"{\"knowledge_id\":\"s1\xff\"}", 200, []string{}},
		"two":                 {`{"knowledge_id":"s1"} {"knowledge_id":"s1"}`, 400, nil},
		"empty":               {"", 400, nil},
		"no JSON":             {"knowledge_id=s1", 400, nil},
		"half of it":          {`{"knowledge_id":"s1"`, 400, nil},
		"an array":            {`[{"knowledge_id":"s1"}]`, 400, nil},
		"null":                {`null`, 400, nil},
		"no knowledge_id":     {`{"query":"what?"}`, 400, nil},
		"an empty one":        {`{"knowledge_id":""}`, 400, nil},
		"a number":            {`{"knowledge_id":1}`, 400, nil},
		"a list of them":      {`{"knowledge_id":["s1"]}`, 400, nil},
		"no query":            {`{"knowledge_id":"s1","query":{"x":1}}`, 400, nil},
		"top_k of zero":       {`{"knowledge_id":"s1","retrieval_setting":{"top_k":0}}`, 400, nil},
		"half a top_k":        {`{"knowledge_id":"s1","retrieval_setting":{"top_k":1.5}}`, 400, nil},
		"top_k too large":     {`{"knowledge_id":"s1","retrieval_setting":{"top_k":1e999}}`, 400, nil},
		"a setting of text":   {`{"knowledge_id":"s1","retrieval_setting":"all"}`, 400, nil},
		"nested":              {`{"knowledge_id":` + nested(30_000) + `}`, 400, nil},
		"nested elsewhere":    {`{"x":` + nested(30_000) + `,"knowledge_id":"s1"}`, 400, nil},
		"too large":           {`{"knowledge_id":"s1","query":"` + strings.Repeat("x", 1<<20) + `"}`, 413, nil},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := proctest.Request(t, http.MethodPost, s.url+"/retrieval", tt.body, "Content-Type: application/json")
			assert.Equal(t, tt.status, status, body)
			switch {
			case tt.want != nil:
				assert.Equal(t, tt.want, said(t, body))
			case status == http.StatusBadRequest:
				checkError(t, body, 2001)
			default:
				checkError(t, body, status)
			}
		})
	}
	s.checkHeap()
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
			checkError(t, string(body), 0)
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

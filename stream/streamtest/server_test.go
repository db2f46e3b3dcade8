package streamtest_test

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/leaktest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

type reader struct {
	*http.Response
	lines *ssetest.Reader
}

// start returns a server that is closed when the test ends.
func start(t testing.TB, opts *streamtest.ServerOptions) *streamtest.Server {
	t.Helper()
	s := musttest.New(streamtest.NewServer(opts))
	t.Cleanup(s.Close)
	return s
}

// do requests the server's stream. params are names and values.
func do(s *streamtest.Server, header http.Header, params ...string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodGet, s.URL(), nil)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	for i := 0; i < len(params); i += 2 {
		query.Set(params[i], params[i+1])
	}
	r.URL.RawQuery = query.Encode()
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Authorization", "Bearer "+s.Token())
	return s.Client().Do(r)
}

func connect(t testing.TB, s *streamtest.Server, params ...string) *reader {
	t.Helper()
	return resume(t, s, "", params...)
}

// resume is connect after the event with that id.
func resume(t testing.TB, s *streamtest.Server, id string, params ...string) *reader {
	t.Helper()
	header := http.Header{}
	if id != "" {
		header.Set("Last-Event-ID", id)
	}
	response, err := do(s, header, params...)
	require.NoError(t, err)
	r := &reader{Response: response, lines: ssetest.NewReader(response.Body)}
	t.Cleanup(r.close)
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
	return r
}

func (r *reader) close() { _ = r.Body.Close() }

func errorOf(_ any, err error) error { return err }

func (r *reader) next(t testing.TB) ssetest.Frame {
	t.Helper()
	e, err := r.lines.Next()
	require.NoError(t, err)
	return e
}

// receives fails the test unless events with this data come next.
func (r *reader) receives(t testing.TB, data ...string) {
	t.Helper()
	for _, want := range data {
		e := r.next(t)
		require.Equal(t, ssetest.Frame{ID: e.ID, Data: want}, e)
		require.NotEmpty(t, e.ID)
	}
}

// ends fails the test unless the stream ends next, with that error.
func (r *reader) ends(t testing.TB, want error) {
	t.Helper()
	e, err := r.lines.Next()
	require.ErrorIs(t, err, want, "%+v", e)
}

func waitConnected(t testing.TB, s *streamtest.Server) {
	t.Helper()
	waittest.Within(t, "WaitConnected", func() { assert.NoError(t, s.WaitConnected(context.Background())) })
}

func click(label string) activity.BatchAction {
	return activity.BatchAction{Action: activity.NewAction(activity.TypeClick, activity.Target{Label: label},
		"https://app.example.com/a?b&c")}
}

func TestServer_sendsBatches(t *testing.T) {
	s := start(t, nil)
	first, second := connect(t, s), connect(t, s)
	sent := activity.Batch{SessionID: "s1", UserID: "ada", Email: "ada@example.com", ConversationID: "c1",
		Actions: []activity.BatchAction{click("a"), {UserID: "anonymous", Email: "other@example.com"}}}
	before := activity.Seconds(time.Now())
	ids := s.Send(sent, activity.Batch{SessionID: "s2", Count: 7, ForwardedAt: 5, Type: "other", ProductID: "globex"})
	require.Len(t, ids, 2)
	assert.Empty(t, sent.Actions[0].SessionID, "the caller's batch is not changed")

	for _, r := range []*reader{first, second} {
		e := r.next(t)
		assert.Equal(t, ids[0], e.ID)
		assert.Contains(t, e.Data, `"raw_url":"https://app.example.com/a?b&c"`, "as the real stream writes it")
		var got activity.Batch
		require.NoError(t, json.Unmarshal([]byte(e.Data), &got))
		assert.InDelta(t, before, got.ForwardedAt, waittest.Patience.Seconds())
		want := sent
		want.Type, want.ProductID, want.Count, want.ForwardedAt = "actions", "acme", 2, got.ForwardedAt
		filled := click("a")
		filled.SessionID, filled.UserID, filled.Email, filled.ConversationID = "s1", "ada", "ada@example.com", "c1"
		want.Actions = []activity.BatchAction{filled,
			{SessionID: "s1", UserID: "anonymous", Email: "other@example.com", ConversationID: "c1"}}
		assert.Equal(t, want, got)

		e = r.next(t)
		assert.Equal(t, ssetest.Frame{ID: ids[1], Data: `{"type":"other","product_id":"globex","session_id":"s2",` +
			`"user_id":"","email":"","count":7,"forwarded_at":5,"actions":[]}`}, e)
	}
}

func TestServer_sendsSummariesAndErasures(t *testing.T) {
	s := start(t, &streamtest.ServerOptions{ProductID: "globex"})
	r := connect(t, s)
	id := s.SendSummary(stream.Summary{SessionID: "s1", Email: "ada@example.com", Text: "Ada exported a report.",
		Replaces: 20, ForwardedAt: 1.5})
	assert.Equal(t, ssetest.Frame{ID: id, Data: `{"type":"summary","product_id":"globex","session_id":"s1",` +
		`"email":"ada@example.com","summary":"Ada exported a report.","replaces":20,"forwarded_at":1.5}`}, r.next(t))
	s.SendSummary(stream.Summary{})
	var got stream.Summary
	require.NoError(t, json.Unmarshal([]byte(r.next(t).Data), &got))
	assert.InDelta(t, activity.Seconds(time.Now()), got.ForwardedAt, waittest.Patience.Seconds())

	id = s.SendErase(stream.Erasure{SessionIDs: []string{"s1"}})
	late := connect(t, s, "since", "0")
	assert.NotContains(t, late.next(t).Data, "Ada", "the summary is erased")
	frame := late.next(t)
	assert.Equal(t, id, frame.ID)
	assert.Contains(t, frame.Data, `"session_ids":["s1"]`)
}

func TestServer_sendsAnyDataInOneLine(t *testing.T) {
	s := start(t, nil)
	r := connect(t, s)
	for _, data := range []string{"{", "", "null", `{"type":"unknown"}`, strings.Repeat("x", 3<<20), "\xff\u2028"} {
		id := s.SendRaw(data)
		require.Equal(t, ssetest.Frame{ID: id, Data: data}, r.next(t))
	}
	for _, data := range []string{"a\nb", "a\rb", "\n"} {
		assert.Panics(t, func() { s.SendRaw(data) }, "%q", data)
	}
	assert.Panics(t, func() { s.Send(activity.Batch{ForwardedAt: math.NaN()}) })
}

// The server answers like a real service, because it has the handler and the keys of one.
func TestServer_answersRequestsAsTheRealOne(t *testing.T) {
	s := start(t, &streamtest.ServerOptions{ProductID: "acme eu", Token: "secret"})
	for _, tt := range []struct {
		url, token, detail string
		want               streamtest.Request
	}{
		{s.URL(), "wrong", "Invalid or missing API key", streamtest.Request{Status: 401}},
		{strings.Replace(s.URL(), "acme%20eu", "globex", 1), "secret", "API key does not match product_id",
			streamtest.Request{Status: 403, Authorized: true}},
	} {
		r := musttest.New(http.NewRequest(http.MethodGet, tt.url, nil))
		r.Header.Set("Authorization", "Bearer "+tt.token)
		response, err := s.Client().Do(r)
		require.NoError(t, err)
		refusedWith(t, response, tt.want.Status, tt.detail)
		requests := s.Requests()
		tt.want.At = requests[len(requests)-1].At
		assert.Equal(t, tt.want, requests[len(requests)-1])
	}
	assert.Zero(t, s.Connected())
}

// refused requests the stream, which the server must refuse.
func refused(t *testing.T, s *streamtest.Server, status int, detail string) *http.Response {
	t.Helper()
	response, err := do(s, nil)
	if assert.NoError(t, err) {
		refusedWith(t, response, status, detail)
	}
	return response
}

func refusedWith(t *testing.T, response *http.Response, status int, detail string) {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	assert.NoError(t, err)
	assert.Equal(t, status, response.StatusCode)
	if detail != "" {
		assert.JSONEq(t, `{"detail":"`+detail+`"}`, string(body))
		assert.Equal(t, "application/json", response.Header.Get("Content-Type"))
	}
}

const unavailable = "The service cannot take this request just now; please repeat it."

func TestServer_refuses(t *testing.T) {
	tests := map[string]struct {
		status                        int
		detail, retryAfter, challenge string
	}{
		"401": {401, "Invalid or missing API key", "", "Bearer"},
		"403": {403, "API key does not match product_id", "", ""},
		"404": {404, "There is nothing at this path.", "", ""},
		"429": {429, "The test server answers 429 as requested.", "1", ""},
		"500": {500, "The test server answers 500 as requested.", "", ""},
		"503": {503, unavailable, "1", ""},
		"204": {204, "", "", ""},
	}
	s := start(t, nil)
	open := connect(t, s)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := len(s.Requests())
			s.Refuse(tt.status, 2)
			for range 2 {
				response := refused(t, s, tt.status, tt.detail)
				assert.Equal(t, tt.retryAfter, response.Header.Get("Retry-After"))
				assert.Equal(t, tt.challenge, response.Header.Get("WWW-Authenticate"))
			}
			connect(t, s).close()
			var statuses []int
			for _, r := range s.Requests()[before:] {
				statuses = append(statuses, r.Status)
				assert.True(t, r.Authorized)
			}
			assert.Equal(t, []int{tt.status, tt.status, 200}, statuses)
		})
	}
	s.SendRaw("still there")
	open.receives(t, "still there")
	for _, status := range []int{0, 101, 199, 1000} {
		assert.Panics(t, func() { s.Refuse(status, 1) }, "%d", status)
	}
}

func TestServer_refusesUntilItIsReset(t *testing.T) {
	s := start(t, nil)
	s.Refuse(http.StatusInternalServerError, -1)
	for range 5 {
		refused(t, s, 500, "")
	}
	s.Refuse(http.StatusServiceUnavailable, 1)
	refused(t, s, 503, "")
	connect(t, s)
	s.Refuse(http.StatusUnauthorized, -1)
	s.Refuse(0, 0)
	connect(t, s)
}

func TestServer_disconnects(t *testing.T) {
	s := start(t, nil)
	readers := []*reader{connect(t, s), connect(t, s)}
	waitConnected(t, s)
	id := s.SendRaw("1")
	for _, r := range readers {
		r.receives(t, "1")
	}
	s.Disconnect()
	assert.Zero(t, s.Connected())
	s.SendRaw("2")
	for _, r := range readers {
		r.ends(t, io.EOF)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.WaitConnected(gone), context.Canceled)

	again := resume(t, s, id)
	waitConnected(t, s)
	assert.Equal(t, 1, s.Connected())
	again.receives(t, "2")
}

// rest reads to the end of the stream, which must be clean.
func (r *reader) rest(t testing.TB) string {
	t.Helper()
	rest, err := io.ReadAll(r.lines)
	require.NoError(t, err)
	return string(rest)
}

// A reader receives only whole events, each once, however often and whenever its connection is cut.
func TestServer_disconnectsBetweenEvents(t *testing.T) {
	s := start(t, &streamtest.ServerOptions{Heartbeat: time.Millisecond})
	const events = 300
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		for i := range events {
			s.SendRaw(strconv.Itoa(i) + strings.Repeat(" ", i*100))
			if i%10 == 0 {
				s.Disconnect()
			}
		}
	})
	last, got := "", 0
	for got < events {
		header := http.Header{"Last-Event-Id": {last}}
		params := []string{}
		if last == "" {
			header, params = nil, []string{"since", "1"}
		}
		response, err := do(s, header, params...)
		if err != nil {
			continue // cut before the answer
		}
		r := &reader{Response: response, lines: ssetest.NewReader(response.Body)}
		e, err := r.lines.Next()
		for ; err == nil; e, err = r.lines.Next() {
			require.NotEqual(t, "gap", e.Event)
			if e.ID != "" {
				require.Equal(t, strconv.Itoa(got), strings.TrimSpace(e.Data))
				last = e.ID
				if got++; got == events {
					break
				}
			}
		}
		if got < events {
			require.ErrorIs(t, err, io.EOF)
		}
		r.close()
	}
}

func TestServer_disconnectsAReaderThatDoesNotRead(t *testing.T) {
	s := start(t, nil)
	r := connect(t, s)
	s.SendRaw(strings.Repeat("x", 8<<20))
	began := time.Now()
	waittest.Until(t, "the reader is disconnected", func() bool { s.Disconnect(); return s.Connected() == 0 })
	assert.Less(t, time.Since(began), eventlog.DefaultWriteTimeout)
	r.rest(t) // it gets what was in flight
}

func TestServer_tearsAnEvent(t *testing.T) {
	for name, n := range map[string]int{"before it": 0, "in the id": 5, "in the data": 32, "before its last end": 1 << 20,
		"a negative number": -1} {
		t.Run(name, func(t *testing.T) {
			s := start(t, &streamtest.ServerOptions{Heartbeat: time.Millisecond})
			before := s.SendRaw("before")
			r := connect(t, s)
			for r.next(t).Event != "heartbeat" {
			}
			s.Tear(n)
			torn := s.SendRaw(`{"half":"an event"}`)
			frame := "id: " + torn + "\ndata: {\"half\":\"an event\"}\n\n"
			rest := strings.ReplaceAll(r.rest(t), "event: heartbeat\ndata: {}\n\n", "")
			assert.Equal(t, frame[:max(0, min(n, len(frame)-1))], rest)
			assert.Zero(t, s.Connected())

			again := resume(t, s, before)
			for e := again.next(t); e.Event != "heartbeat"; e = again.next(t) {
				assert.Equal(t, ssetest.Frame{ID: torn, Data: `{"half":"an event"}`}, e, "once is enough")
			}
		})
	}
}

// Several events are written together, and one of them is torn.
func TestServer_tearsOneEventOfMany(t *testing.T) {
	s := start(t, nil)
	first := s.SendRaw("1")
	s.SendRaw("2")
	s.SendRaw("3")
	s.Tear(2)
	s.Tear(3)
	assert.Equal(t, "retry: 1000\nid", connect(t, s, "since", "1").rest(t), "the first event of the answer")
	assert.Equal(t, "retry: 1000\nid:", resume(t, s, first).rest(t))
	resume(t, s, first).receives(t, "2", "3")
}

func TestServer_noticesWhenAStalledReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &streamtest.ServerOptions{InMemory: true})
		r := connect(t, s)
		s.Stall()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, s.Connected())
		r.close()
		synctest.Wait()
		require.Zero(t, s.Connected())

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL(), nil)
		require.NoError(t, err)
		require.ErrorIs(t, errorOf(s.Client().Do(request)), context.DeadlineExceeded)
		synctest.Wait()
		assert.Zero(t, s.Requests()[1].Status, "it was never answered")
	})
}

func TestServer_recordsRequests(t *testing.T) {
	s := start(t, nil)
	id := s.SendRaw("1")
	began := time.Now()
	connect(t, s, "since", "12.5", "session_id", "s1")
	connect(t, s, "last_event_id", id)
	resume(t, s, id, "last_event_id", "other")
	requests := s.Requests()
	for i, r := range requests {
		assert.WithinRange(t, r.At, began, time.Now())
		requests[i].At = time.Time{}
	}
	assert.Equal(t, []streamtest.Request{
		{Since: "12.5", SessionID: "s1", Authorized: true, Status: 200},
		{LastEventID: id, Authorized: true, Status: 200},
		{LastEventID: id, Authorized: true, Status: 200},
	}, requests)
	assert.NotZero(t, s.Requests()[0].At, "a copy")
}

// nothingRuns fails the test if a goroutine of a server does not end.
func nothingRuns(t *testing.T) {
	t.Helper()
	leaktest.NoneOf(t, "net/http.(*Server)", "net/http.(*conn)", "stream/eventlog.", "stream/streamtest.")
}

func TestServer_sendsUnreadEventsWhenItCloses(t *testing.T) {
	s := musttest.New(streamtest.NewServer(nil))
	r := connect(t, s)
	for range 100 {
		s.SendRaw(strings.Repeat("x", 1000))
	}
	s.Close()
	s.Close() // once more changes nothing
	for range 100 {
		r.receives(t, strings.Repeat("x", 1000))
	}
	r.ends(t, io.EOF)
	nothingRuns(t)
}

func TestServer_doesNothingOnceClosed(t *testing.T) {
	s := musttest.New(streamtest.NewServer(nil))
	waiting := make(chan error)
	go func() { waiting <- s.WaitConnected(context.Background()) }()
	s.Close()
	require.ErrorIs(t, <-waiting, http.ErrServerClosed)
	require.ErrorIs(t, s.WaitConnected(t.Context()), http.ErrServerClosed)
	assert.Empty(t, s.SendRaw("late"))
	assert.Empty(t, s.Send(activity.Batch{}))
	assert.Zero(t, s.Connected())
	s.Disconnect()
	require.Error(t, errorOf(do(s, nil)), "nobody listens")
}

// A reader counts as connected once it has its response. Later events reach it.
func TestServer_waitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &streamtest.ServerOptions{InMemory: true})
		dial := s.Client().Transport.(*http.Transport).DialContext
		c, err := dial(t.Context(), "tcp", "any")
		require.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "GET /stream/acme HTTP/1.1\r\nHost: any\r\nAuthorization: Bearer token\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, s.Requests(), 1)
		require.Zero(t, s.Connected())
		require.NoError(t, errorOf(io.ReadFull(c, make([]byte, 1))))
		synctest.Wait()
		require.Zero(t, s.Connected(), "not the whole response")
		buf := make([]byte, 4096)
		require.NoError(t, errorOf(c.Read(buf)))
		require.NoError(t, s.WaitConnected(t.Context()))
		require.Equal(t, 1, s.Connected())
		go s.SendRaw("1")
		n, err := c.Read(buf)
		require.NoError(t, err)
		require.Contains(t, string(buf[:n]), "data: 1\n")
	})
}

func TestServer_closesInTime(t *testing.T) {
	tests := map[string]func(s *streamtest.Server){
		"with nobody":                  func(*streamtest.Server) {},
		"with readers that wait":       func(s *streamtest.Server) { connect(t, s) },
		"with a reader that is behind": func(s *streamtest.Server) { connect(t, s); s.SendRaw(strings.Repeat("x", 8<<20)) },
		"while it is stalled":          func(s *streamtest.Server) { connect(t, s); s.Stall(); s.SendRaw("1") },
		"with requests that wait for it": func(s *streamtest.Server) {
			s.Stall()
			go refused(t, s, 503, unavailable)
			waittest.Until(t, "the request has come", func() bool { return len(s.Requests()) == 1 })
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			s := musttest.New(streamtest.NewServer(nil))
			prepare(s)
			began := time.Now()
			s.Close()
			nothingRuns(t)
			assert.Less(t, time.Since(began), eventlog.DefaultWriteTimeout)
		})
	}
}

func TestServer_closesWhileReadersComeAndGo(t *testing.T) {
	s := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{Heartbeat: time.Millisecond}))
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for {
				response, err := do(s, nil, "since", "1")
				if err != nil {
					if s.SendRaw("") == "" {
						return // closed
					}
					continue
				}
				_, _ = io.CopyN(io.Discard, response.Body, 1000)
				_ = response.Body.Close()
			}
		})
	}
	for range 50 {
		s.SendRaw(strings.Repeat("x", 100))
		waitConnected(t, s)
		s.Stall()
		s.Tear(3)
		s.Disconnect()
		s.Resume()
		s.Requests()
	}
	s.Close()
	readers.Wait()
}

// In a bubble hours pass at once, and the test sees every heartbeat.
func TestServer_stalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &streamtest.ServerOptions{InMemory: true})
		assert.Equal(t, "http://stream.test/stream/acme", s.URL())
		r := connect(t, s)
		s.Stall()
		s.Stall() // once more changes nothing
		s.SendRaw("missed")
		came := make(chan string, 2)
		go func() {
			e, err := r.lines.Next()
			assert.NoError(t, err)
			came <- e.Data
		}()
		go func() {
			response, err := do(s, nil)
			if assert.NoError(t, err) {
				assert.NoError(t, response.Body.Close())
				came <- response.Status
			}
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, came)
		require.Equal(t, 1, s.Connected())
		require.Zero(t, s.Requests()[1].Status)
		s.Resume()
		s.Resume()
		require.ElementsMatch(t, []string{"missed", "200 OK"}, []string{<-came, <-came})
		resumed := time.Now()
		for i := range 5 { // the first is overdue
			require.Equal(t, ssetest.Frame{Event: "heartbeat", Data: "{}"}, r.next(t), "as ever")
			require.Equal(t, eventlog.DefaultHeartbeat*time.Duration(i), time.Since(resumed))
		}
		s.Close()
		require.ErrorIs(t, errorOf(do(s, nil)), net.ErrClosed)
	})
}

func TestNewServer_reportsEveryMistake(t *testing.T) {
	_, err := streamtest.NewServer(&streamtest.ServerOptions{Token: "token ", Heartbeat: -1,
		Retention: eventlog.Retention{TTL: -1, MaxBytes: -1}})
	assert.Equal(t, []string{"streamtest.Heartbeat", "access.key", "eventlog.Retention.TTL",
		"eventlog.Retention.MaxBytes"}, musttest.Mistakes(t, err))
}

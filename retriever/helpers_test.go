package retriever_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/retriever"
	"github.com/liveactivity/liveactivity/stream"
)

// batch is a batch of a session's actions, all of just now and one for each text.
func batch(sessionID, email string, did ...string) activity.Batch {
	now := activity.Seconds(time.Now())
	b := activity.Batch{
		Type: activity.BatchType, ProductID: "acme", SessionID: sessionID, Email: email,
		Count: len(did), ForwardedAt: now, Actions: make([]activity.BatchAction, len(did)),
	}
	for i, what := range did {
		a := activity.Action{Type: activity.TypeClick, Description: what, TimestampStart: now, TimestampEnd: now, Index: i}
		b.Actions[i] = activity.BatchAction{Action: a, SessionID: sessionID, Email: email}
	}
	return b
}

// summary sums up a session just now.
func summary(sessionID, text string, replaces int) stream.Summary {
	return stream.Summary{Type: stream.SummaryType, ProductID: "acme", SessionID: sessionID, Text: text,
		Replaces: replaces, ForwardedAt: activity.Seconds(time.Now())}
}

func add(tb testing.TB, s *retriever.Store, batches ...activity.Batch) {
	tb.Helper()
	for _, b := range batches {
		s.Learn(b)
		require.NoError(tb, s.Add(tb.Context(), b))
	}
}

func overwrite(tb testing.TB, s *retriever.Store, sum stream.Summary) {
	tb.Helper()
	require.NoError(tb, s.Overwrite(tb.Context(), sum))
}

// newMux mounts a handler as the package comment says.
func newMux(s *retriever.Store, opts *retriever.HandlerOptions) http.Handler {
	h := musttest.New(retriever.NewHandler(s, opts))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", h.ServeEvents)
	mux.HandleFunc("POST /retrieval", h.ServeRetrieval)
	return mux
}

// get asks for events. The headers are names and values in turn.
func get(h http.Handler, target string, headers ...string) *httptest.ResponseRecorder {
	return do(h, httptest.NewRequest(http.MethodGet, target, nil), headers)
}

// post asks for a retrieval.
func post(h http.Handler, body string, headers ...string) *httptest.ResponseRecorder {
	return do(h, httptest.NewRequest(http.MethodPost, "/retrieval", strings.NewReader(body)), headers)
}

func do(h http.Handler, r *http.Request, headers []string) *httptest.ResponseRecorder {
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// record is a record of an answer.
type record struct{ Content, Title string }

// requireRecords requires an answer with records and nothing else.
func requireRecords(tb testing.TB, w *httptest.ResponseRecorder) []record {
	tb.Helper()
	require.Equal(tb, http.StatusOK, w.Code, w.Body)
	require.Equal(tb, "application/json", w.Header().Get("Content-Type"))
	require.Equal(tb, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
	require.Equal(tb, "no-store", w.Header().Get("Cache-Control"), "activity is personal")
	require.Equal(tb, "nosniff", w.Header().Get("X-Content-Type-Options"))
	var body map[string][]record
	require.NoError(tb, json.Unmarshal(w.Body.Bytes(), &body), "%s", w.Body)
	require.Len(tb, body, 1)
	require.NotNil(tb, body["records"], "an empty list is not null")
	return body["records"]
}

// said returns the contents of the records: the actions of each joined by "+", or its summary.
func said(records []record) []string {
	all := []string{}
	for _, r := range records {
		lines := strings.Split(r.Content, "\n")
		for i, line := range lines {
			if _, what, ok := strings.Cut(line, " UTC: "); ok {
				lines[i] = what
			}
		}
		all = append(all, strings.Join(lines, "+"))
	}
	return all
}

// events returns the contents of a session's records.
func events(tb testing.TB, s *retriever.Store, sessionID string) []string {
	tb.Helper()
	return said(requireRecords(tb, get(newMux(s, nil), "/events?session_id="+url.QueryEscape(sessionID))))
}

// eventsOf returns the contents of the records of the user with the email.
func eventsOf(tb testing.TB, s *retriever.Store, email string) []string {
	tb.Helper()
	return said(requireRecords(tb, get(newMux(s, nil), "/events?email="+url.QueryEscape(email))))
}

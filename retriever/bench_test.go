package retriever_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/retriever"
	"github.com/liveactivity/liveactivity/stream"
)

// visit is what somebody did in a session in the last minute.
func visit(session, actions int) activity.Batch {
	at := time.Now().Add(-time.Minute)
	did := make([]activity.Action, actions)
	for i := range did {
		url := fmt.Sprintf("https://app.acme.example/projects/%d/tasks/%d", 1000+session%9000, 100+i)
		did[i] = activitytest.Click(at.Add(time.Duration(i)*time.Second), "Mark as done", url)
	}
	b := activitytest.NewBatch("acme", fmt.Sprint("session_", session), fmt.Sprint("user_", session), did...)
	b.Email = fmt.Sprint("user_", session, "@acme.example")
	return b
}

// eventsServer serves a session of 50 chunks among a thousand, and as many
// bytes that are always the same.
func eventsServer(tb testing.TB) (eventsURL, constantURL string) {
	tb.Helper()
	s := musttest.New(retriever.NewStore(nil))
	for range retriever.DefaultMaxChunks {
		for session := range 1000 {
			add(tb, s, visit(session, 2))
		}
	}
	h := musttest.New(retriever.NewHandler(s, &retriever.HandlerOptions{APIKey: apiKey}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", h.ServeEvents)
	constant := get(mux, "/events?session_id=session_7", "Authorization", "Bearer "+apiKey).Body.Bytes()
	require.Equal(tb, retriever.DefaultMaxChunks, strings.Count(string(constant), `"title"`))
	mux.HandleFunc("GET /constant", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(constant)))
		_, _ = w.Write(constant)
	})
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	return server.URL + "/events?session_id=session_7", server.URL + "/constant?session_id=session_7"
}

// fetch makes one request and returns how long its answer is.
func fetch(tb testing.TB, client *http.Client, url string) int64 {
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, nil)
	if err != nil {
		tb.Error(err)
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+apiKey)
	res, err := client.Do(r)
	if err != nil {
		tb.Error(err)
		return 0
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		tb.Error(res.Status, err)
	}
	return n
}

// newClient returns a client that keeps a connection for each of its callers.
func newClient(tb testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// BenchmarkEvents is a retrieval of 50 chunks of two actions each over a
// loopback connection, beside the least that net/http can do to send as many
// bytes. The ratio compares the two in short turns, so that both see the same
// machine: requests per second of the retrieval divided by those of the
// constant, over all turns and as the median of them. It is to be at least 0.7.
func BenchmarkEvents(b *testing.B) {
	eventsURL, constantURL := eventsServer(b)
	for _, bench := range []struct{ name, url string }{{"events", eventsURL}, {"constant", constantURL}} {
		b.Run(bench.name, func(b *testing.B) {
			client := newClient(b)
			b.SetBytes(fetch(b, client, bench.url))
			b.ReportAllocs()
			for b.Loop() {
				fetch(b, client, bench.url)
			}
		})
	}
	b.Run("ratio", func(b *testing.B) { compareTurns(b, eventsURL, constantURL) })
}

// compareTurns makes turns of requests to both, the constant's before and
// after, and reports the ratio.
func compareTurns(b *testing.B, eventsURL, constantURL string) {
	const clients, requests = 8, 25 // of each client in a turn
	client := newClient(b)
	turn := func(url string) time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for range requests {
					fetch(b, client, url)
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	turn(eventsURL)
	turn(constantURL)
	var events, constant time.Duration
	var ratios []float64
	for b.Loop() {
		before, ours, after := turn(constantURL), turn(eventsURL), turn(constantURL)
		events, constant = events+ours, constant+(before+after)/2
		ratios = append(ratios, float64(before+after)/2/float64(ours))
	}
	slices.Sort(ratios)
	b.ReportMetric(float64(constant)/float64(events), "ratio")
	b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
	b.ReportMetric(float64(b.N)*clients*requests/events.Seconds(), "events/s")
	b.ReportMetric(0, "ns/op") // a turn of both means nothing
}

// BenchmarkRetrieval is a request of Dify without the network.
func BenchmarkRetrieval(b *testing.B) {
	s := musttest.New(retriever.NewStore(nil))
	for range retriever.DefaultMaxChunks {
		add(b, s, visit(7, 2))
	}
	h := musttest.New(retriever.NewHandler(s, nil))
	const body = `{"knowledge_id":"session_7","query":"What is new?","retrieval_setting":{"top_k":5,"score_threshold":0.5}}`
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeRetrieval(w, httptest.NewRequest(http.MethodPost, "/retrieval", strings.NewReader(body)))
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

// BenchmarkAdd keeps a batch of two actions in one of many full sessions.
func BenchmarkAdd(b *testing.B) {
	const sessions = 1000
	s := musttest.New(retriever.NewStore(nil))
	batches := make([]activity.Batch, sessions)
	for i := range batches {
		batches[i] = visit(i, 2)
		for range retriever.DefaultMaxChunks {
			add(b, s, batches[i])
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := s.Add(b.Context(), batches[i%sessions]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFootprint fills a store with 100,000 sessions of 10 chunks of two
// actions each and reports the heap it takes, also as a multiple of the records
// it would serve. It needs about 1 GB.
func BenchmarkFootprint(b *testing.B) {
	const sessions, chunks = 100_000, 10
	var heap, served int64
	for b.Loop() {
		var s *retriever.Store
		heap = heaptest.After(func() {
			s = musttest.New(retriever.NewStore(nil))
			for range chunks {
				for session := range sessions {
					add(b, s, visit(session, 2))
				}
			}
		})
		require.Equal(b, sessions, s.Sessions())
		h, whole := newMux(s, nil), int64(0)
		for session := range 1000 {
			whole += int64(get(h, fmt.Sprint("/events?session_id=session_", session)).Body.Len())
		}
		served = whole * sessions / 1000
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(heap)/sessions, "bytes/session")
	b.ReportMetric(float64(heap)/float64(served), "x-of-json")
}

// What the whole retriever holds of 100,000 sessions just before they are
// summed up for the first time: their records, and what the summarizer knows.
func BenchmarkFootprintBeforeSummary(b *testing.B) {
	const sessions, batches = 100_000, 9 // of two actions: a summary is due after twenty
	for name, model := range map[string]func(context.Context, string) (string, error){
		"built-in": nil,
		"model":    func(context.Context, string) (string, error) { return "", errors.New("is never asked") },
	} {
		b.Run(name, func(b *testing.B) {
			var heap int64
			for b.Loop() {
				heap = heaptest.After(func() {
					s := musttest.New(retriever.NewStore(nil))
					summarizer := musttest.New(stream.NewSummarizer(s.Overwrite, &stream.SummarizerOptions{Model: model}))
					for range batches {
						for session := range sessions {
							batch := received(b, visit(session, 2))
							add(b, s, batch)
							require.NoError(b, summarizer.Add(b.Context(), batch))
						}
					}
					b.Cleanup(func() { runtime.KeepAlive(s); runtime.KeepAlive(summarizer) })
				})
			}
			b.ReportMetric(float64(heap)/sessions, "bytes/session")
		})
	}
}

// received returns a batch as it comes out of a stream, sharing nothing with
// the one that was sent.
func received(tb testing.TB, sent activity.Batch) (b activity.Batch) {
	tb.Helper()
	data, err := json.Marshal(sent)
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(data, &b))
	return b
}

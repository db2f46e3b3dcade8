package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streammetrics"
)

type running struct {
	*stream.Consumer
	metrics *prometheus.Registry
	log     logtest.Buffer
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // of Run, once it has ended
}

// startConsumer runs a consumer until the test ends, or stop.
func startConsumer(t testing.TB, url string, handlers stream.Handlers, opts stream.ConsumerOptions) *running {
	t.Helper()
	r := &running{metrics: prometheus.NewRegistry()}
	opts.Logger = slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	r.Consumer, err = stream.NewConsumer(url, "token", handlers, &opts)
	require.NoError(t, err)
	r.metrics.MustRegister(streammetrics.Consumer(r.Consumer))
	r.run()
	t.Cleanup(func() {
		r.cancel()
		<-r.ended
	})
	return r
}

// run calls Run, again if it has ended.
func (r *running) run() {
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.ended = make(chan struct{})
	go func() {
		defer close(r.ended)
		r.err = r.Run(ctx)
	}()
}

func (r *running) stop(t testing.TB) {
	t.Helper()
	r.cancel()
	<-r.ended
	require.Equal(t, context.Canceled, r.err)
}

func (r *running) hasEnded() bool { return waittest.Fired(r.ended) }

// counted returns a metric of the consumer, the sum of those with the label if one is given.
func (r *running) counted(t testing.TB, name string, label ...string) float64 {
	t.Helper()
	return metricstest.Sum(t, r.metrics, "liveactivity_consumer_"+name, label...)
}

// counts checks some metrics of the consumer, each by its name and perhaps a label.
func (r *running) counts(t testing.TB, want map[string]float64) {
	t.Helper()
	for names, n := range want {
		name, label, _ := strings.Cut(names, " ")
		assert.InDelta(t, n, r.counted(t, name, strings.Fields(label)...), 0, names)
	}
}

// quick are options with short waits, for tests in real time.
func quick() stream.ConsumerOptions {
	return stream.ConsumerOptions{MinBackoff: time.Millisecond, MaxBackoff: 8 * time.Millisecond}
}

// notes are the calls of handlers, in order.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string{}, n.lines...)
}

// raw returns handlers that note the data of every entry.
func (n *notes) raw() stream.Handlers {
	return stream.Handlers{Raw: func(_ context.Context, m stream.Message) error {
		n.add("%s", m.Data)
		return nil
	}}
}

// become waits, in real time, until the notes equal want.
func (n *notes) become(t testing.TB, want ...string) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%d notes are taken", len(want)), func() bool { return len(n.all()) >= len(want) })
	require.Equal(t, want, n.all())
}

// fakeServer answers the requests of a consumer without a network.
type fakeServer struct {
	answer func(n int, req *http.Request) (*http.Response, error) // of the n-th request, from 0

	mu       sync.Mutex
	requests []*http.Request
	times    []time.Time
}

const fakeURL = "http://live.test/stream/acme"

func (f *fakeServer) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	n := len(f.requests)
	f.requests, f.times = append(f.requests, req), append(f.times, time.Now())
	f.mu.Unlock()
	return f.answer(n, req)
}

func (f *fakeServer) client() *http.Client { return &http.Client{Transport: f} }

func (f *fakeServer) request(n int) *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[n]
}

func (f *fakeServer) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func (f *fakeServer) waits() (waits []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.times[1:] {
		waits = append(waits, f.times[i+1].Sub(f.times[i]))
	}
	return waits
}

// chunk is text that comes after a while.
type chunk struct {
	after time.Duration
	text  string
}

// fakeBody is the body of an answer: chunks, and then an error, or silence where that is nil.
type fakeBody struct {
	ctx    context.Context
	chunks []chunk
	then   error
}

func (b *fakeBody) Read(p []byte) (int, error) {
	if len(b.chunks) == 0 {
		if b.then == nil {
			<-b.ctx.Done()
			return 0, b.ctx.Err()
		}
		return 0, b.then
	}
	select {
	case <-time.After(b.chunks[0].after):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	n := copy(p, b.chunks[0].text)
	b.chunks[0] = chunk{text: b.chunks[0].text[n:]}
	if b.chunks[0].text == "" {
		b.chunks = b.chunks[1:]
	}
	return n, nil
}

func (b *fakeBody) Close() error { return nil }

// answered is an answer with a status, header pairs and a body.
func answered(status int, body string, header ...string) *http.Response {
	res := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: -1}
	for i := 0; i < len(header); i += 2 {
		res.Header.Add(header[i], header[i+1])
	}
	return res
}

func streaming(req *http.Request, then error, chunks ...chunk) *http.Response {
	res := answered(http.StatusOK, "", "Content-Type", "text/event-stream")
	res.Body = &fakeBody{ctx: req.Context(), chunks: chunks, then: then}
	return res
}

// events is a chunk of entries with these data, whose ids are numbers.
func events(first int, data ...string) chunk {
	var text strings.Builder
	for i, d := range data {
		fmt.Fprintf(&text, "id: %d\ndata: %s\n\n", first+i, d)
	}
	return chunk{text: text.String()}
}

type answer func(req *http.Request) (*http.Response, error)

func sends(then error, chunks ...chunk) answer {
	return func(req *http.Request) (*http.Response, error) {
		return streaming(req, then, slices.Clone(chunks)...), nil
	}
}

// says is an answer with a status, header pairs and a body.
func says(status int, body string, header ...string) answer {
	return func(*http.Request) (*http.Response, error) { return answered(status, body, header...), nil }
}

// down gives no answer, and hangs gives one that never comes.
func down(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// inTurn is a fake server that gives these answers in turn, and then repeats the last.
func inTurn(answers ...answer) *fakeServer {
	return &fakeServer{answer: func(n int, req *http.Request) (*http.Response, error) {
		return answers[min(n, len(answers)-1)](req)
	}}
}

// after gives these answers first.
func (f *fakeServer) after(answers ...answer) *fakeServer {
	then := func(req *http.Request) (*http.Response, error) { return f.answer(len(answers), req) }
	return inTurn(append(answers, then)...)
}

func (f *fakeServer) consume(t testing.TB, handlers stream.Handlers, opts stream.ConsumerOptions) *running {
	t.Helper()
	opts.Client = f.client()
	return startConsumer(t, fakeURL, handlers, opts)
}

func many(n int, of func(i int) string) []string {
	data := make([]string, n)
	for i := range data {
		data[i] = of(i)
	}
	return data
}

// serving is a fake server that sends these chunks and then nothing.
func serving(chunks ...chunk) *fakeServer { return inTurn(sends(nil, chunks...), sends(nil)) }

const product = "acme"

func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

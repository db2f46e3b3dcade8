package eventlog_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/pipetest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

const product = "acme"

// transport is a way for a stream to reach its reader.
type transport struct {
	name  string
	http2 bool
	tls   bool
	wrap  func(http.ResponseWriter) http.ResponseWriter
}

var (
	takenOver = transport{name: "a connection taken over"}
	shared    = transport{name: "HTTP/1.1 without Hijack", wrap: func(w http.ResponseWriter) http.ResponseWriter {
		return deadlineWriter{flushWriter{w}}
	}}
	overHTTP2 = transport{name: "HTTP/2", http2: true}
	takenTLS  = transport{name: "a TLS connection taken over", tls: true}
	flushOnly = transport{name: "a writer that only flushes", wrap: func(w http.ResponseWriter) http.ResponseWriter {
		return flushWriter{w}
	}}

	transports = []transport{takenOver, shared, overHTTP2}
)

func byEach(t *testing.T, ways []transport, test func(t *testing.T, tr transport)) {
	t.Helper()
	for _, tr := range ways {
		t.Run(tr.name, func(t *testing.T) { test(t, tr) })
	}
}

// flushWriter is a writer as middleware leaves it at worst.
type flushWriter struct{ inner http.ResponseWriter }

func (w flushWriter) Header() http.Header         { return w.inner.Header() }
func (w flushWriter) Write(p []byte) (int, error) { return w.inner.Write(p) }
func (w flushWriter) WriteHeader(status int)      { w.inner.WriteHeader(status) }
func (w flushWriter) Flush()                      { w.inner.(http.Flusher).Flush() }

// deadlineWriter has deadlines, too, but cannot be hijacked.
type deadlineWriter struct{ flushWriter }

func (w deadlineWriter) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(w.inner).SetReadDeadline(t)
}

func (w deadlineWriter) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(w.inner).SetWriteDeadline(t)
}

// service is a log, its handler and a server in front of it.
type service struct {
	log     eventlog.Log
	handler *eventlog.Handler
	metrics *prometheus.Registry
	client  *http.Client
	url     string
	product string                   // whose stream is asked for
	dial    func() (net.Conn, error) // below HTTP
}

func newService(log eventlog.Log, opts *eventlog.HandlerOptions) *service {
	s := &service{log: log, metrics: prometheus.NewRegistry(), product: product}
	o := *cmp.Or(opts, &eventlog.HandlerOptions{})
	o.Metrics = s.metrics
	s.handler = musttest.New(eventlog.NewHandler(log, &o))
	return s
}

// mux mounts the handler as its documentation says.
func (s *service) mux(tr transport) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stream/{product_id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r1") // as middleware does
		if tr.wrap != nil {
			w = tr.wrap(w)
		}
		s.handler.ServeHTTP(w, r)
	})
	return mux
}

// serve runs a service on a TCP port until the test ends.
func serve(t testing.TB, tr transport, log eventlog.Log, opts *eventlog.HandlerOptions) *service {
	t.Helper()
	s := newService(log, opts)
	server := httptest.NewUnstartedServer(s.mux(tr))
	server.Config.ErrorLog = stdlog.New(io.Discard, "", 0) // clients that leave in the middle of a handshake
	server.EnableHTTP2 = tr.http2
	s.dial = func() (net.Conn, error) { return net.Dial("tcp", server.Listener.Addr().String()) }
	if tr.http2 || tr.tls {
		server.StartTLS()
		config := server.Client().Transport.(*http.Transport).TLSClientConfig
		s.dial = func() (net.Conn, error) {
			return tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{RootCAs: config.RootCAs})
		}
	} else {
		server.Start()
	}
	s.url, s.client = server.URL, server.Client()
	t.Cleanup(func() {
		_ = log.Close() // ends the streams; the server waits for some of them
		server.Close()
	})
	return s
}

// servePiped runs a service inside a synctest bubble, over connections in
// memory that hold nothing back: a write ends when it has been read.
func servePiped(t *testing.T, tr transport, log eventlog.Log, opts *eventlog.HandlerOptions,
	tune ...func(*http.Server)) *service {
	t.Helper()
	s := newService(log, opts)
	listener := pipetest.Listen()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!tr.http2)
	protocols.SetUnencryptedHTTP2(tr.http2)
	server := &http.Server{Handler: s.mux(tr), Protocols: protocols}
	for _, f := range tune {
		f(server)
	}
	dial := &http.Transport{Protocols: protocols, DialContext: listener.Dial}
	s.url, s.client = "http://pipe", &http.Client{Transport: dial}
	s.dial = func() (net.Conn, error) { return listener.Dial(context.Background(), "", "") }
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = log.Close()
		_ = server.Close()
		dial.CloseIdleConnections()
	})
	return s
}

// get asks for the product's stream.
func (s *service) get(ctx context.Context, method, query string, header http.Header) (*http.Response, error) {
	target := s.url + "/stream/" + s.product
	if query != "" {
		target += "?" + query
	}
	r, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		r.Header[key] = values
	}
	return s.client.Do(r)
}

// answer is get, which must be answered.
func (s *service) answer(t testing.TB, method, query string, header http.Header) *http.Response {
	t.Helper()
	response, err := s.get(t.Context(), method, query, header)
	require.NoError(t, err)
	return response
}

// raw sends a request, such as "GET /stream/acme", and reads nothing.
func (s *service) raw(t testing.TB, request string) net.Conn {
	t.Helper()
	conn, err := s.dial()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, errorOf(io.WriteString(conn, request+" HTTP/1.1\r\nHost: test\r\n\r\n")))
	return conn
}

func (s *service) rawSubscribe(t testing.TB) net.Conn { return s.raw(t, "GET /stream/"+product) }

func errorOf(_ any, err error) error { return err }

type subscription struct {
	response *http.Response
	events   *ssetest.Reader
	cancel   context.CancelFunc
}

func (s *service) subscribe(t testing.TB, query string, header http.Header) *subscription {
	t.Helper()
	sub, err := s.open(query, header)
	require.NoError(t, err)
	t.Cleanup(sub.cancel)
	return sub
}

// open is subscribe for any goroutine; the caller cancels.
func (s *service) open(query string, header http.Header) (*subscription, error) {
	ctx, cancel := context.WithCancel(context.Background())
	watchdog := time.AfterFunc(waittest.Patience, cancel)
	defer watchdog.Stop()
	response, err := s.get(ctx, http.MethodGet, query, header)
	if err != nil {
		cancel()
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		cancel()
		return nil, fmt.Errorf("status %s", response.Status)
	}
	return &subscription{response: response, events: ssetest.NewReader(response.Body), cancel: cancel}, nil
}

// read returns the next event, or an error when none comes.
func (s *subscription) read() (ssetest.Frame, error) {
	watchdog := time.AfterFunc(waittest.Patience, s.cancel)
	defer watchdog.Stop()
	return s.events.Next()
}

func (s *subscription) next(t testing.TB) ssetest.Frame {
	t.Helper()
	e, err := s.read()
	require.NoError(t, err)
	return e
}

// receives fails the test unless the entries come next.
func (s *subscription) receives(t testing.TB, entries []eventlog.Entry) {
	t.Helper()
	for _, want := range framesOf(entries) {
		require.Equal(t, want, s.next(t))
	}
}

func framesOf(entries []eventlog.Entry) (frames []ssetest.Frame) {
	for _, e := range entries {
		frames = append(frames, ssetest.Frame{ID: e.ID.String(), Data: string(e.Data)})
	}
	return frames
}

// ends fails the test unless the stream ends next, cleanly.
func (s *subscription) ends(t testing.TB) {
	t.Helper()
	e, err := s.read()
	require.ErrorIs(t, err, io.EOF, "%+v", e)
}

// tape holds the events that a client has received so far, with their times. The client never stops reading.
type tape struct {
	mu     sync.Mutex
	events []taped
	err    error
}

type taped struct {
	ssetest.Frame
	at time.Time
}

func (s *subscription) record() *tape {
	var tp tape
	go func() {
		for {
			e, err := s.events.Next()
			tp.mu.Lock()
			if err != nil {
				tp.err = err
				tp.mu.Unlock()
				return
			}
			tp.events = append(tp.events, taped{e, time.Now()})
			tp.mu.Unlock()
		}
	}()
	return &tp
}

// take returns the events since the last call of take.
func (tp *tape) take() []taped {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	events := tp.events
	tp.events = nil
	return events
}

// frames is take without the times.
func (tp *tape) frames() (frames []ssetest.Frame) {
	for _, e := range tp.take() {
		frames = append(frames, e.Frame)
	}
	return frames
}

// end returns how the stream ended, or nil while it is open.
func (tp *tape) end() error {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return tp.err
}

func (s *service) metric(t testing.TB, name string) float64 {
	t.Helper()
	return metricstest.Sum(t, s.metrics, name)
}

func (s *service) readers(t testing.TB) int {
	return int(s.metric(t, "liveactivity_stream_subscribers"))
}

func (s *service) hasReaders(t testing.TB, n int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("there are %d readers", n), func() bool { return s.readers(t) == n })
}

func lastEventID(id string) http.Header { return http.Header{"Last-Event-Id": {id}} }

func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values.Encode()
}

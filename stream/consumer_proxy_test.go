package stream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/leaktest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// proxy is a network between a consumer and its server that misbehaves: every
// connection through it goes wrong in a way of its own.
type proxy struct {
	listener net.Listener
	answers  []string // that it may give itself

	mu     sync.Mutex
	rng    *rand.Rand
	target string
	calm   bool // nothing goes wrong any more
	conns  map[net.Conn]struct{}
	seen   map[string]int // how often each trouble came
	work   sync.WaitGroup
}

// newProxy returns a proxy that accepts connections until it is closed.
func newProxy(t testing.TB, seed uint64, answers []string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, answers: answers, rng: rand.New(rand.NewPCG(seed, 0)), conns: map[net.Conn]struct{}{},
		seen: map[string]int{}}
	p.work.Go(func() {
		for {
			conn, err := listener.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil: // of that connection only
				t.Log("accept:", err)
				continue
			}
			p.work.Go(func() { p.serve(conn) })
		}
	})
	return p
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

// close ends everything and returns when it has.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.cutAll()
	p.work.Wait()
}

// lead makes the proxy lead to a server, and cuts all connections.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.cutAll()
}

func (p *proxy) calmDown() {
	p.mu.Lock()
	p.calm = true
	p.mu.Unlock()
	p.cutAll()
}

func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// keep remembers a connection until it is let go.
func (p *proxy) keep(conn net.Conn) (letGo func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, conn)
		_ = conn.Close()
	}
}

// fate says how a connection goes and ends.
type fate struct {
	answer  string        // it is answered by the proxy; empty for not
	lasts   int           // how many bytes the server can send; negative for all
	reset   bool          // it ends in a reset
	stalls  int           // after how many bytes it stalls; negative for never
	stall   time.Duration // and for how long
	trickle int           // how many bytes come one by one
	target  string
}

// decide makes up the fate of a connection.
func (p *proxy) decide() fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := fate{lasts: -1, stalls: -1, target: p.target}
	if p.calm {
		return f
	}
	if p.rng.IntN(3) == 0 {
		f.answer = p.answers[p.rng.IntN(len(p.answers))]
		first, _, _ := strings.Cut(f.answer, "\r\n")
		p.seen[first]++
		return f
	}
	f.lasts = p.rng.IntN(1 << (8 + p.rng.IntN(11))) // up to 256 KiB, mostly less
	f.reset = p.rng.IntN(2) == 0
	p.seen[fmt.Sprintf("cut reset=%v", f.reset)]++
	switch p.rng.IntN(8) {
	case 0:
		f.stalls, f.stall = p.rng.IntN(f.lasts+1), time.Duration(p.rng.IntN(600))*time.Millisecond
		p.seen["stall"]++
	case 1, 2:
		f.trickle = p.rng.IntN(2000)
		p.seen["trickle"]++
	}
	return f
}

func (p *proxy) serve(conn net.Conn) {
	defer p.keep(conn)()
	f := p.decide()
	if f.answer != "" {
		_, err := http.ReadRequest(bufio.NewReader(conn))
		if err == nil {
			_, _ = conn.Write([]byte(f.answer)) // the client may be gone
		}
		return
	}
	server, err := net.Dial("tcp", f.target)
	if err != nil {
		return // the server is just not there
	}
	defer p.keep(server)()
	p.work.Go(func() { // towards the server everything goes well
		defer server.Close()
		_, _ = bufio.NewReader(conn).WriteTo(server)
	})
	f.forward(server, conn)
}

// forward copies the server's bytes to the client until fate ends the connection.
func (f fate) forward(server, client net.Conn) {
	buf := make([]byte, 16<<10)
	for sent := 0; ; {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		for part := buf[:n]; len(part) > 0; {
			size := f.next(sent, len(part))
			if size == 0 {
				if f.reset {
					_ = client.(*net.TCPConn).SetLinger(0)
				}
				return
			}
			if _, err := client.Write(part[:size]); err != nil {
				return
			}
			sent, part = sent+size, part[size:]
		}
	}
}

// next returns how many bytes to send next, zero at the end.
func (f *fate) next(sent, have int) int {
	if f.stalls >= 0 && sent >= f.stalls {
		time.Sleep(f.stall)
		f.stalls = -1
	}
	n := have
	if f.lasts >= 0 {
		n = min(n, f.lasts-sent)
	}
	if f.stalls >= 0 {
		n = min(n, f.stalls-sent)
	}
	if f.trickle > 0 && n > 0 {
		f.trickle--
		n = 1
	}
	return n
}

// response is an answer over HTTP, as it goes over the wire.
func response(status int, body string, headers ...string) string {
	headers = append(headers, "Connection: close", fmt.Sprint("Content-Length: ", len(body)), "", body)
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n", status, http.StatusText(status)) + strings.Join(headers, "\r\n")
}

// misbehaviour lists the answers that a proxy may give itself without ending a consumer.
func misbehaviour(elsewhere string) []string {
	const sse = "Content-Type: text/event-stream"
	return []string{
		response(429, "{}"), response(429, "{}", "Retry-After: 0"), response(500, "oh"), response(502, "<html>"),
		response(503, "{}"), response(503, "{}", "Retry-After: 1"), response(504, ""), response(204, ""),
		response(200, "<html>log in</html>", "Content-Type: text/html"), response(200, "{}"),
		response(302, "", "Location: "+elsewhere+"/login"), response(307, "", "Location: "+elsewhere+"/refused"),
		response(307, "", "Location: /stream/"+product),
		response(200, "", sse), response(200, "id: 9999999999999-0\nda", sse),
		response(200, ": nothing\n\nretry: 1\n\n", sse),
		"HTTP/1.1 200 OK\r\nContent-Ty", "nonsense\r\n\r\n", "\r\n",
		"HTTP/1.1 200 OK\r\n" + sse + "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nid: 7",
	}
}

// service behind the proxy that can be restarted, with its log.
type restartable struct {
	log    *memorylog.Log
	proxy  *proxy
	server *httptest.Server
	stop   func()
	denied atomic.Int64 // requests without the token
}

// restart puts another server in the place of the one that there is.
func (r *restartable) restart() {
	if r.server != nil {
		r.proxy.lead("127.0.0.1:1") // nobody is there
		r.stop()
	}
	handler := musttest.New(eventlog.NewHandler(r.log, &eventlog.HandlerOptions{Heartbeat: 50 * time.Millisecond}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stream/{product_id}", func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer token" {
			r.denied.Add(1)
		}
		handler.ServeHTTP(w, req)
	})
	r.server = httptest.NewServer(mux)
	r.stop = func() {
		r.server.Close()
		_ = handler.Wait(context.Background()) // its connections were cut
	}
	r.proxy.lead(r.server.Listener.Addr().String())
}

// sequence checks that each session's numbers come once and in order.
type sequence struct {
	mu    sync.Mutex
	next  map[string]int
	wrong []string
	total int
}

func (s *sequence) handle(sessionID string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next[sessionID] != n {
		s.wrong = append(s.wrong, fmt.Sprintf("%s: %d instead of %d", sessionID, n, s.next[sessionID]))
	}
	s.next[sessionID] = n + 1
	s.total++
}

func (s *sequence) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// reaches waits for so many entries, for a while for each hundred.
func (s *sequence) reaches(t *testing.T, entries int) {
	t.Helper()
	for n := 0; n <= entries; n += 100 {
		waittest.Until(t, fmt.Sprintf("%d entries are handled", n), func() bool { return s.count() >= n })
	}
}

// appendNumbered appends so many entries of many sessions to a log, each numbered in
// its session, of any size and some at once.
func appendNumbered(t testing.TB, log eventlog.Log, rng *rand.Rand, entries int, step func(i int)) {
	numbers := map[string]int{}
	for i := 0; i < entries; {
		batch := make([]eventlog.Entry, min(1+rng.IntN(8), entries-i))
		for j := range batch {
			session := fmt.Sprint("session-", rng.IntN(40))
			b := clicked(session, strings.Repeat("x", rng.IntN(1<<rng.IntN(13))))
			b.Actions[0].Index = numbers[session]
			numbers[session]++
			data, err := jsontext.Marshal(b)
			assert.NoError(t, err)
			batch[j] = eventlog.Entry{SessionID: session, Data: data}
		}
		assert.NoError(t, log.Append(context.Background(), product, batch))
		i += len(batch)
		step(i)
	}
}

// Every entry is handled once and in order, however bad the network is. A refusal ends Run, and the
// next Run goes on at its cursor.
func TestConsumer_losesAndDoublesNothingOnABadNetwork(t *testing.T) {
	for _, withCursor := range []bool{false, true} {
		t.Run(fmt.Sprintf("cursor=%v", withCursor), func(t *testing.T) {
			before := leaktest.Goroutines(t)
			testBadNetwork(t, withCursor)
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			waittest.Until(t, "no goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}

func testBadNetwork(t *testing.T, withCursor bool) {
	const entries = 4000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var stolen atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "" {
			stolen.Add(1)
		}
		if req.URL.Path == "/refused" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer elsewhere.Close()
	answers := misbehaviour(elsewhere.URL)
	opts := quick()
	opts.IdleTimeout, opts.MaxPending = 300*time.Millisecond, 64
	opts.Since = time.Unix(0, 0)
	var log logtest.Buffer
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if withCursor {
		answers = append(answers, response(401, `{"detail":"no"}`), response(403, "{}"), response(404, "gone"))
		opts.Cursor = &memoryCursor{t: t}
	}
	r := &restartable{log: musttest.New(memorylog.New(nil)), proxy: newProxy(t, seed, answers)}
	defer r.proxy.close()
	r.restart()
	defer func() { r.proxy.lead("127.0.0.1:1"); r.stop() }()

	sequence := &sequence{next: map[string]int{}}
	stop := consumeAnyway(t, r.proxy.url()+"/stream/"+product, opts, sequence, rand.New(rand.NewPCG(seed, 1)))
	defer stop()
	appendNumbered(t, r.log, rand.New(rand.NewPCG(seed, 2)), entries, func(i int) {
		if i%10 == 0 {
			time.Sleep(time.Millisecond) // the load, not a wait for anything
		}
		if i%1000 < 8 {
			r.restart()
		}
	})
	defer func() {
		if t.Failed() {
			stacks := make([]byte, 1<<20)
			t.Logf("%d of %d; the log ends with\n%s\n%s", sequence.count(), entries,
				log.String()[max(0, len(log.String())-4000):], stacks[:runtime.Stack(stacks, true)])
		}
	}()
	sequence.reaches(t, entries/2)
	r.proxy.calmDown()
	sequence.reaches(t, entries)
	stop()
	assert.Empty(t, sequence.wrong)
	assert.Equal(t, entries, sequence.count())
	assert.Zero(t, stolen.Load(), "another host was sent the token")
	assert.Zero(t, r.denied.Load(), "the server was not")
	t.Logf("what went wrong: %v", r.proxy.seen)
	assert.Greater(t, len(r.proxy.seen), 5)
}

// consumeAnyway runs a consumer, again when it is refused, until stop is
// called. Its handler fails now and then.
func consumeAnyway(t *testing.T, url string, opts stream.ConsumerOptions, s *sequence, rng *rand.Rand) (stop func()) {
	var mu sync.Mutex
	c, err := stream.NewConsumer(url, "token", stream.Handlers{Actions: func(_ context.Context, b activity.Batch) error {
		mu.Lock()
		fails := rng.IntN(200) == 0
		mu.Unlock()
		if fails {
			return errors.New("not now")
		}
		s.handle(b.SessionID, b.Actions[0].Index)
		return nil
	}, Gap: func(requested, oldest string) { t.Errorf("a gap after %s", requested) }}, &opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for err := error(nil); ; {
			if err = c.Run(ctx); ctx.Err() != nil {
				assert.Equal(t, context.Canceled, err)
				return
			}
			if !assert.ErrorAs(t, err, new(*stream.RefusedError)) || !assert.NotNil(t, opts.Cursor) {
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

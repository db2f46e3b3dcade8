package streamtest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/stream"
)

// Defaults of [ServerOptions].
const (
	DefaultProductID = "acme"
	DefaultToken     = "token"
)

// ServerOptions of a [Server]; a zero field means its default.
type ServerOptions struct {
	ProductID string           // the only product there is; DefaultProductID
	Token     string           // the key that opens its stream; DefaultToken
	Heartbeat time.Duration    // how long a stream may be silent; stream.DefaultHeartbeat
	Retention stream.Retention // what can be resumed from; that of a stream.MemoryLog

	// InMemory is for tests inside a bubble of testing/synctest, where real
	// connections do not work: the server does not listen, only its Client
	// reaches it. Such a connection holds nothing back, a write ends when it
	// has been read.
	InMemory bool
}

// Server is the stream of one product for tests of what reads it. What is sent,
// resumed, refused and kept alive is the work of a [stream.Handler] over a
// [stream.MemoryLog] behind an [access.Keyring], as in the real service; Refuse,
// Disconnect, Tear and Stall make things go wrong in between. Its methods are
// safe for concurrent use.
type Server struct {
	productID string
	token     string
	log       *stream.MemoryLog
	streams   *stream.Handler
	served    http.Handler // the stream behind its key
	http      *httptest.Server
	closed    chan struct{}

	mu       sync.Mutex
	requests []Request
	conns    map[*conn]struct{}
	came     chan struct{} // closed and replaced when a reader is connected
	refusal  int           // the status that connects are refused with
	refusals int           // how many more, negative for all
	tears    []int
	stalled  chan struct{} // closed by Resume; nil while nothing is stalled
}

// Request is one request that a [Server] was sent.
type Request struct {
	At          time.Time
	LastEventID string // of the header or, without it, of the query
	Since       string // the query parameter, as it came
	SessionID   string // the query parameter
	Authorized  bool   // whether the token was the right one
	Status      int    // what it was answered; 0 while it is not
}

// NewServer returns a server that runs, on a port of its own on this machine.
// The caller closes it. The options may be nil.
func NewServer(opts *ServerOptions) *Server {
	var o ServerOptions
	if opts != nil {
		o = *opts
	}
	s := &Server{
		productID: cmp.Or(o.ProductID, DefaultProductID),
		token:     cmp.Or(o.Token, DefaultToken),
		log:       stream.NewMemoryLog(o.Retention),
		closed:    make(chan struct{}),
		conns:     map[*conn]struct{}{},
		came:      make(chan struct{}),
	}
	s.streams = stream.NewHandler(s.log, &stream.HandlerOptions{Heartbeat: o.Heartbeat})
	keys := access.NewKeyring()
	if err := keys.Add(s.token, s.productID, access.Stream); err != nil { // neither is empty, and it is the first
		panic(err)
	}
	mux := httpx.NewMux(nil)
	mux.Handle("GET /stream/{product_id}", keys.Require(access.Stream, s.streams))
	s.served = mux
	s.http = listen(http.HandlerFunc(s.serve), o.InMemory)
	return s
}

// listen starts an HTTP server.
func listen(h http.Handler, inMemory bool) *httptest.Server {
	if !inMemory {
		return httptest.NewServer(h)
	}
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	server.Start()
	server.Client().Transport.(*http.Transport).DialContext = l.dial
	return server
}

// URL returns the address of the product's stream.
func (s *Server) URL() string { return s.http.URL + "/stream/" + url.PathEscape(s.productID) }

// Client returns an HTTP client that reaches the server, also one in memory.
// Close closes its idle connections.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Token returns the key that opens the stream, as a bearer token.
func (s *Server) Token() string { return s.token }

// hangUpTime is how long a reader may take to accept what is being written to
// it when its connection is to be cut.
const hangUpTime = time.Second

// Close stops the server as the real one stops: every reader is sent what it
// has not read, then the end of the stream. Readers that do not read, and all
// readers while the server is stalled, are cut off. It returns when nothing of
// the server runs any more, and may be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	first := !isClosed(s.closed)
	if first {
		close(s.closed)
	}
	s.mu.Unlock()
	if first {
		_ = s.log.Close() // memory does not fail
	}
	s.http.Close()
	ctx, cancel := context.WithTimeout(context.Background(), hangUpTime)
	defer cancel()
	if s.streams.Wait(ctx) != nil {
		s.Disconnect()
		_ = s.streams.Wait(context.Background())
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Send appends batches to the stream and returns their event ids. Readers that
// are connected are sent them at once, others when they resume. Fields that the
// real stream never leaves empty are set where they are zero: the batch's Type,
// ProductID, Count and ForwardedAt, and its actions' SessionID, UserID, Email
// and ConversationID, to those of the batch. The same batch may be sent again.
// After Close nothing is sent.
func (s *Server) Send(batches ...activity.Batch) (ids []string) {
	entries := make([]stream.Entry, len(batches))
	for i, b := range batches {
		entries[i] = stream.Entry{SessionID: b.SessionID, Data: encode(s.complete(b))}
	}
	return s.append(entries...)
}

// complete returns the batch with its empty fields set.
func (s *Server) complete(b activity.Batch) activity.Batch {
	b.Type = cmp.Or(b.Type, activity.BatchType)
	b.ProductID = cmp.Or(b.ProductID, s.productID)
	b.Count = cmp.Or(b.Count, len(b.Actions))
	b.ForwardedAt = cmp.Or(b.ForwardedAt, activity.Seconds(time.Now()))
	actions := make([]activity.BatchAction, len(b.Actions)) // the caller's stay as they are
	for i, a := range b.Actions {
		a.SessionID = cmp.Or(a.SessionID, b.SessionID)
		a.UserID = cmp.Or(a.UserID, b.UserID)
		a.Email = cmp.Or(a.Email, b.Email)
		a.ConversationID = cmp.Or(a.ConversationID, b.ConversationID)
		actions[i] = a
	}
	b.Actions = actions
	return b
}

// SendSummary appends a summary to the stream and returns its event id. Type,
// ProductID and ForwardedAt are set where they are zero.
func (s *Server) SendSummary(sum stream.Summary) (id string) {
	sum.Type = cmp.Or(sum.Type, stream.SummaryType)
	sum.ProductID = cmp.Or(sum.ProductID, s.productID)
	sum.ForwardedAt = cmp.Or(sum.ForwardedAt, activity.Seconds(time.Now()))
	return s.appendOne(stream.Entry{SessionID: sum.SessionID, Data: encode(sum)})
}

// SendRaw appends an event of exactly this data and of no session, and returns
// its event id. It panics when the data is more than one line.
func (s *Server) SendRaw(data string) (id string) {
	if strings.ContainsAny(data, "\r\n") {
		panic("streamtest: the data of an event must be one line")
	}
	return s.appendOne(stream.Entry{Data: []byte(data)})
}

// encode returns the JSON of what a test sends. What has none, a time that is
// no number say, is a mistake in the test.
func encode(v any) []byte {
	data, err := activity.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("streamtest: send: %v", err))
	}
	return data
}

func (s *Server) appendOne(e stream.Entry) (id string) {
	for _, id = range s.append(e) {
	}
	return id
}

func (s *Server) append(entries ...stream.Entry) (ids []string) {
	if err := s.log.Append(context.Background(), s.productID, entries); err != nil {
		return nil // closed: without keys there is nothing else
	}
	for _, e := range entries {
		ids = append(ids, e.ID.String())
	}
	return ids
}

// Refuse answers the next connects, as many as times says and all when it is
// negative, with the status and a detail, in the words of the real service
// where it has some; 429 and 503 ask to come back after a second. It takes the
// place of an earlier Refuse: zero times ends it. Open connections stay. It
// panics when no request can end with the status.
func (s *Server) Refuse(status, times int) {
	if status < 200 || status > 999 {
		panic(fmt.Sprintf("streamtest: no request ends with status %d", status))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal, s.refusals = status, times
}

// Disconnect cuts all connections, between two events; one whose reader does not
// take within a second what is being written to it is cut where it is. What
// readers have not been sent they are sent when they resume.
func (s *Server) Disconnect() {
	s.mu.Lock()
	conns := s.conns
	s.conns = map[*conn]struct{}{}
	s.mu.Unlock()
	impatient := time.AfterFunc(hangUpTime, func() {
		for c := range conns {
			c.cut()
		}
	})
	defer impatient.Stop()
	for c := range conns {
		c.writing.Lock()
		c.cut()
		c.writing.Unlock()
	}
}

// Tear cuts a connection in the middle of an event: the one that the next
// event with an id is sent on, after n bytes of the event, or before the last
// byte of an event that is not longer. The event is still in the stream for
// readers that resume. Calls add up: each tears one event.
func (s *Server) Tear(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tears = append(s.tears, n)
}

// Stall keeps connections open and silent: until Resume nothing is sent, no
// heartbeat and no answer to a new request either.
func (s *Server) Stall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled == nil {
		s.stalled = make(chan struct{})
	}
}

// Resume ends a Stall. Readers that are still there are sent what they missed.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled != nil {
		close(s.stalled)
		s.stalled = nil
	}
}

// Requests returns every request so far, in the order in which they came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Connected returns how many streams are open. A reader that went away counts
// until the server has noticed; one cut off by Disconnect does not.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.conns {
		if c.answered {
			n++
		}
	}
	return n
}

// WaitConnected returns nil when a stream is open: what is sent from then on
// reaches its reader, whatever that asked for. It returns an error when ctx
// ends before, or the server is closed.
func (s *Server) WaitConnected(ctx context.Context) error {
	for {
		s.mu.Lock()
		came := s.came
		s.mu.Unlock()
		if s.Connected() > 0 {
			return nil
		}
		select {
		case <-came:
		case <-s.closed:
			return http.ErrServerClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// serve answers a request, or makes it go wrong.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w, server: s, number: s.note(r)}
	if !s.await(r.Context().Done()) {
		if r.Context().Err() == nil { // the server is closed
			httpx.WriteError(a, r, httpx.Unavailable(nil))
		}
		return
	}
	if status, ok := s.refused(); ok {
		httpx.WriteError(a, r, refusal(status))
		return
	}
	s.served.ServeHTTP(a, r)
	a.setStatus(http.StatusOK) // where nothing was written, as for HEAD
}

// note records a request and returns its number.
func (s *Server) note(r *http.Request) int {
	query := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{
		At:          time.Now(),
		LastEventID: cmp.Or(r.Header.Get("Last-Event-ID"), query.Get("last_event_id")),
		Since:       query.Get("since"),
		SessionID:   query.Get("session_id"),
		Authorized:  access.BearerToken(r) == s.token,
	})
	return len(s.requests) - 1
}

// await returns true when nothing is stalled, and false when gone or the
// server is closed before.
func (s *Server) await(gone <-chan struct{}) bool {
	for {
		s.mu.Lock()
		stalled := s.stalled
		s.mu.Unlock()
		if stalled == nil {
			return true
		}
		select {
		case <-stalled:
		case <-gone:
			return false
		case <-s.closed:
			return false
		}
	}
}

// refused returns the status that the request is to be refused with, if it is.
func (s *Server) refused() (status int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals > 0 {
		s.refusals--
		return s.refusal, true
	}
	return s.refusal, s.refusals < 0
}

// refusal is the real service's error of that status, or one like it.
func refusal(status int) error {
	switch status {
	case http.StatusUnauthorized:
		return access.Refusal(access.ErrInvalid)
	case http.StatusForbidden:
		return access.Refusal(access.ErrMismatch)
	case http.StatusNotFound:
		return httpx.NotFound("There is nothing at this path.")
	case http.StatusServiceUnavailable:
		return httpx.Unavailable(nil)
	}
	e := httpx.Errorf(status, "The server was told to answer %d.", status)
	if status == http.StatusTooManyRequests {
		e.Header = http.Header{"Retry-After": {"1"}}
	}
	return e
}

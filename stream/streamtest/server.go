package streamtest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/pipetest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// Defaults of [ServerOptions].
const (
	DefaultProductID = "acme"
	DefaultToken     = "token"
)

// ServerOptions configures a [Server]; a zero field means its default.
type ServerOptions struct {
	ProductID string             // the only product; DefaultProductID
	Token     string             // the key for its stream; DefaultToken
	Heartbeat time.Duration      // how long a stream may be silent; eventlog.DefaultHeartbeat
	Retention eventlog.Retention // of the log; the default of a memorylog.Log

	// InMemory is for tests inside a testing/synctest bubble, where real
	// connections do not work. The server does not listen, and only its Client can
	// reach it. Connections have no buffer: a write ends when it has been read.
	InMemory bool
}

// Server is the stream of one product, for tests of its readers. An
// [eventlog.Handler] over a [memorylog.Log] behind an [access.Keyring]
// serves it, as in the real service; Refuse, Disconnect, Tear and Stall inject
// failures. Its methods are safe for concurrent use.
type Server struct {
	productID string
	token     string
	log       *memorylog.Log
	streams   *eventlog.Handler
	served    http.Handler // the stream behind its key
	http      *httptest.Server
	closed    chan struct{}
	stop      func() // closes it, once

	mu       sync.Mutex
	requests []Request
	conns    map[*conn]struct{}
	came     chan struct{} // closed and replaced when a reader connects
	refusal  int           // the status for refused requests
	refusals int           // number of further refusals, negative for all
	tears    []int
	stalled  chan struct{} // closed by Resume; nil unless stalled
}

// Request is one request that a [Server] received.
type Request struct {
	At          time.Time
	LastEventID string // from the header or, without it, from the query
	Since       string // the query parameter, unparsed
	SessionID   string // the query parameter
	Authorized  bool   // whether the token was valid
	Status      int    // the status answered; 0 before the answer
}

const erased = `{"type":"erased"}` // takes the place of an erased event in the log

// NewServer returns a running server that listens on a port of this machine.
// The caller must close it. opts may be nil. NewServer reports all invalid
// options at once.
func NewServer(opts *ServerOptions) (*Server, error) {
	o := *cmp.Or(opts, &ServerOptions{})
	s := &Server{
		productID: cmp.Or(o.ProductID, DefaultProductID),
		token:     cmp.Or(o.Token, DefaultToken),
		closed:    make(chan struct{}),
		conns:     map[*conn]struct{}{},
		came:      make(chan struct{}),
	}
	s.stop = sync.OnceFunc(func() { close(s.closed) })
	wrong := options.Mistakes{Package: "streamtest"}
	wrong.Require(o.Heartbeat >= 0, "Heartbeat", "must not be negative")
	keys := access.NewKeyring()
	wrong.Add(keys.Add(s.token, s.productID, access.Stream))
	var err error
	s.log, err = memorylog.New(&memorylog.Options{Retention: o.Retention})
	wrong.Add(err)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	if s.streams, err = eventlog.NewHandler(s.log, &eventlog.HandlerOptions{
		Keys: keys, Heartbeat: o.Heartbeat,
		Sends: func(e *eventlog.Entry) bool { return string(e.Data) != erased }, // SendRaw sends anything
	}); err != nil {
		return nil, err
	}
	mux := httpx.NewMux(nil)
	mux.Handle("GET /stream/{product_id}", s.streams)
	s.served = mux
	s.http = listen(http.HandlerFunc(s.serve), o.InMemory)
	return s, nil
}

func listen(h http.Handler, inMemory bool) *httptest.Server {
	if !inMemory {
		return httptest.NewServer(h)
	}
	l := pipetest.Listen()
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	server.Start()
	server.Client().Transport.(*http.Transport).DialContext = l.Dial
	return server
}

// URL returns the address of the product's stream.
func (s *Server) URL() string { return s.http.URL + "/stream/" + url.PathEscape(s.productID) }

// Client returns an HTTP client that reaches the server, including one with
// InMemory. Close closes its idle connections.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Token returns the key that opens the stream, as a bearer token.
func (s *Server) Token() string { return s.token }

// hangUpTime is how long a write in flight may still take when its connection is
// cut.
const hangUpTime = time.Second

// Close stops the server as the real one stops: every reader gets its unread
// entries, then the end of the stream. Close cuts off readers that do not read, and
// all readers of a stalled server. Close returns when all goroutines of the server
// have ended, and may be called more than once.
func (s *Server) Close() {
	s.stop()
	_ = s.log.Close() // cannot fail
	s.http.Close()
	ctx, cancel := context.WithTimeout(context.Background(), hangUpTime)
	defer cancel()
	if s.streams.Wait(ctx) != nil {
		s.Disconnect()
		_ = s.streams.Wait(context.Background())
	}
}

// Send appends batches to the stream and returns their event ids. Connected readers
// get them immediately, others when they resume. Zero fields that the real stream
// always sets are filled in: the batch's Type, ProductID, Count and ForwardedAt,
// and its actions' SessionID, UserID, Email and ConversationID from the batch. The
// same batch may be sent again. After Close nothing is sent.
func (s *Server) Send(batches ...activity.Batch) (ids []string) {
	entries := make([]eventlog.Entry, len(batches))
	for i, b := range batches {
		entries[i] = eventlog.Entry{SessionID: b.SessionID, Data: encode(s.complete(b))}
	}
	return s.append(entries...)
}

// complete returns the batch with its empty fields set.
func (s *Server) complete(b activity.Batch) activity.Batch {
	b.Type = cmp.Or(b.Type, activity.BatchType)
	b.ProductID = cmp.Or(b.ProductID, s.productID)
	b.Count = cmp.Or(b.Count, len(b.Actions))
	b.ForwardedAt = cmp.Or(b.ForwardedAt, activity.Seconds(time.Now()))
	actions := make([]activity.BatchAction, len(b.Actions)) // the caller's actions are not changed
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

// SendSummary appends a summary to the stream and returns its event id. It fills in
// Type, ProductID and ForwardedAt if they are zero.
func (s *Server) SendSummary(sum stream.Summary) (id string) {
	sum.Type = cmp.Or(sum.Type, stream.SummaryType)
	sum.ProductID = cmp.Or(sum.ProductID, s.productID)
	sum.ForwardedAt = cmp.Or(sum.ForwardedAt, activity.Seconds(time.Now()))
	return s.appendOne(eventlog.Entry{SessionID: sum.SessionID, Data: encode(sum)})
}

// SendErase appends an erasure to the stream and returns its event id. It sets Type, and
// fills in ProductID and SessionIDs if they are zero. As with the real service, events
// that it covers are not sent again.
func (s *Server) SendErase(e stream.Erasure) (id string) {
	e.Type = feed.Erase
	e.ProductID = cmp.Or(e.ProductID, s.productID)
	if e.SessionIDs == nil {
		e.SessionIDs = []string{}
	}
	return s.appendOne(eventlog.Entry{Data: encode(e)})
}

// SendRaw appends an event with exactly this data and without a session, and
// returns its event id. It panics if the data has more than one line.
func (s *Server) SendRaw(data string) (id string) {
	if strings.ContainsAny(data, "\r\n") {
		panic("streamtest: the data of an event must be one line")
	}
	return s.appendOne(eventlog.Entry{Data: []byte(data)})
}

// encode returns the JSON of v. A value that JSON cannot represent, such as a time
// that is NaN, is a mistake in the test.
func encode(v any) []byte {
	data, err := jsontext.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("streamtest: send: %v", err))
	}
	return data
}

func (s *Server) appendOne(e eventlog.Entry) (id string) {
	for _, id = range s.append(e) {
	}
	return id
}

func (s *Server) append(entries ...eventlog.Entry) (ids []string) {
	if err := s.log.Append(context.Background(), s.productID, entries); err != nil {
		return nil // the log is closed: no other error is possible without keys
	}
	for _, e := range entries {
		ids = append(ids, e.ID.String())
	}
	return ids
}

// Refuse answers the next requests, as many as times or all if times is negative,
// with the status and with the detail that the real service gives for it, if any.
// 429 and 503 come with a Retry-After of one second. A call replaces an earlier
// one, and zero times ends the refusals. Open connections stay open. Refuse panics
// if the status cannot end a request.
func (s *Server) Refuse(status, times int) {
	if times != 0 && (status < 200 || status > 999) {
		panic(fmt.Sprintf("streamtest: status %d cannot end a request", status))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal, s.refusals = status, times
}

// Disconnect cuts all connections between two events; a connection whose
// reader does not accept a write in flight within a second is cut in the
// middle. Readers get the missing events when they resume.
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

// Tear cuts a connection in the middle of the next event with an id, after n
// bytes or, for an event that is not longer, before its last byte. Readers
// that resume still get the event. Calls add up: each one tears one event.
func (s *Server) Tear(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tears = append(s.tears, n)
}

// Stall keeps connections open and silent: until Resume, nothing is sent,
// neither heartbeats nor responses to new requests.
func (s *Server) Stall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled == nil {
		s.stalled = make(chan struct{})
	}
}

// Resume ends a Stall. Connected readers get everything that they missed.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled != nil {
		close(s.stalled)
		s.stalled = nil
	}
}

// Requests returns all requests so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Connected returns the number of open streams. A reader that disconnects
// counts until the server notices; one cut off by Disconnect does not.
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

// WaitConnected returns nil once a stream is open: events sent from then on
// reach its reader, wherever it started. It returns an error if ctx ends or
// the server is closed first.
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

// serve answers a request, or injects a failure.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w, server: s, number: s.note(r)}
	if !s.await(r.Context().Done()) {
		if r.Context().Err() == nil { // the server was closed, since the client is still there
			httpx.WriteError(a, r, httpx.Unavailable(nil))
		}
		return
	}
	if status, ok := s.refused(); ok {
		httpx.WriteError(a, r, refusal(status))
		return
	}
	s.served.ServeHTTP(a, r)
	a.setStatus(http.StatusOK) // if nothing was written, as for HEAD
}

// note records a request and returns its index.
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

// await returns true once the server is not stalled, and false if gone or the
// server is closed first.
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

// refused reports whether to refuse the request, and with which status.
func (s *Server) refused() (status int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals > 0 {
		s.refusals--
		return s.refusal, true
	}
	return s.refusal, s.refusals < 0
}

// refusal returns the real service's error with that status, or one like it.
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
	e := httpx.Errorf(status, "The test server answers %d as requested.", status)
	if status == http.StatusTooManyRequests {
		e.Header = http.Header{"Retry-After": {"1"}}
	}
	return e
}

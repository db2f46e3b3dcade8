package helpdesktest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is the common part of fake desks: it serves them over HTTP or within the
// process, keeps the requests and injects faults. Use [NewServer] to build a fake of
// your own desk. Its methods are safe for concurrent use.
type Server struct {
	url      string
	listener *httptest.Server // nil in memory
	handler  http.Handler
	errBody  func(status int) string // the vendor's body for an injected failure

	mu       sync.Mutex
	requests []*Request
	faults   []*Fault

	deliveries sync.WaitGroup // webhooks that the desk sends on its own
}

// ServerOptions configures a [Server]. A zero field means its default.
type ServerOptions struct {
	// InMemory makes the server reachable only through Client, at
	// https://NAME.test.
	InMemory bool
	Name     string // "desk"
	// ErrorBody returns the vendor's body for an injected failure; by default a JSON
	// object with the status.
	ErrorBody func(status int) string
}

// NewServer returns a server for a fake desk. The handler receives the requests that no
// fault's Refuse or Status intercepts, and may be called concurrently. Close the server,
// unless it is in memory.
func NewServer(handler http.Handler, opts *ServerOptions) *Server {
	o := *cmp.Or(opts, &ServerOptions{})
	s := &Server{handler: handler, errBody: o.ErrorBody}
	if s.errBody == nil {
		s.errBody = func(status int) string { return fmt.Sprintf(`{"error":"%d %s"}`, status, http.StatusText(status)) }
	}
	if o.InMemory {
		s.url = "https://" + cmp.Or(o.Name, "desk") + ".test"
		return s
	}
	s.listener = httptest.NewServer(s)
	s.url = s.listener.URL
	return s
}

// URL returns the base URL to configure. In memory, it is reachable only
// through Client.
func (s *Server) URL() string { return s.url }

// Client returns a client that reaches the server, over the network or in
// memory.
func (s *Server) Client() *http.Client {
	if s.listener == nil {
		return &http.Client{Transport: s}
	}
	return s.listener.Client()
}

// Close waits for the webhooks in flight, then closes the listener and its connections.
func (s *Server) Close() {
	s.deliveries.Wait()
	if s.listener != nil {
		s.listener.CloseClientConnections()
		s.listener.Close()
	}
}

// webhookTimeout is how long a fake desk waits for the answer to a webhook.
const webhookTimeout = 5 * time.Second

// deliver sends a webhook once, in its own goroutine, as vendors do.
func (s *Server) deliver(webhook *http.Request) {
	s.deliveries.Go(func() {
		client := &http.Client{Timeout: webhookTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
		if response, err := client.Do(webhook); err == nil {
			_ = response.Body.Close()
		}
	})
}

// Request is a request that reached the server.
type Request struct {
	Method string
	Path   string // with the query
	Header http.Header
	Body   []byte
	At     time.Time
	// Status is the answer's status, zero if the answer did not arrive or is still pending.
	Status int
}

// Requests returns the requests so far, in order of arrival. Refused connections
// are not included.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Request, len(s.requests))
	for i, r := range s.requests {
		all[i] = *r
	}
	return all
}

// Fault is a failure to inject into requests.
type Fault struct {
	// Method and Path select the requests with this method and with a path that contains this
	// one. Empty means any.
	Method, Path string
	// Times is the number of requests; zero means all until Heal.
	Times int

	// Refuse fails the connection: the request does not arrive.
	Refuse bool
	// Status is the answer's status, sent with the vendor's error body; the
	// request has no effect. Zero means the usual answer.
	Status int
	// RetryAfter is sent with the Status, in seconds.
	RetryAfter time.Duration
	// Delay is how long the answer takes. The request takes effect immediately.
	Delay time.Duration
	// Lose closes the connection instead of answering. The request takes effect.
	Lose bool
}

// Fail injects a fault. If several match a request, the one injected first applies.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal ends all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault returns the fault for a request, and counts down its Times.
func (s *Server) fault(method, path string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.faults, func(f *Fault) bool {
		return (f.Method == "" || f.Method == method) && strings.Contains(path, f.Path)
	})
	if i < 0 {
		return Fault{}
	}
	f := s.faults[i]
	if f.Times--; f.Times == 0 {
		s.faults = slices.Delete(s.faults, i, i+1)
	}
	return *f
}

// errRefused and errLost are the errors that an in-memory client gets.
var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	errLost    = &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}
)

// serve handles a request as a client sees it. If the answer does not arrive, it returns nil
// and an error.
func (s *Server) serve(r *http.Request) (*httptest.ResponseRecorder, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	path := r.URL.RequestURI()
	fault := s.fault(r.Method, path)
	if fault.Refuse {
		return nil, errRefused
	}
	record := &Request{Method: r.Method, Path: path, Header: r.Header.Clone(), Body: body, At: time.Now()}
	s.mu.Lock()
	s.requests = append(s.requests, record)
	s.mu.Unlock()
	answer := s.answer(r, body, fault)
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if fault.Lose {
		return nil, errLost
	}
	s.mu.Lock()
	record.Status = answer.Code
	s.mu.Unlock()
	return answer, nil
}

func (s *Server) answer(r *http.Request, body []byte, fault Fault) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	if fault.Status == 0 {
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.handler.ServeHTTP(w, r)
		return w
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if fault.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds(fault.RetryAfter)))
	}
	w.WriteHeader(fault.Status)
	_, _ = io.WriteString(w, s.errBody(fault.Status))
	return w
}

// seconds rounds up, because a client that returns too early is refused again.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := s.serve(r)
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// RoundTrip implements [http.RoundTripper]: it handles a request to any host
// within the process.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.RequestURI, in.Host = r.URL.RequestURI(), r.URL.Host; in.Body == nil {
		in.Body = http.NoBody
	}
	defer func() { _ = in.Body.Close() }()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer, err := s.serve(in)
	if err != nil {
		return nil, err
	}
	response := answer.Result()
	response.Request = r
	return response, nil
}

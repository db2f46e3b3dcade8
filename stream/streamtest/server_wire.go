package streamtest

import (
	"bufio"
	"bytes"
	"cmp"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// answer records the status of a response, even if the handler hijacks the
// connection.
type answer struct {
	http.ResponseWriter
	server *Server
	number int // of the request
}

func (a *answer) setStatus(status int) {
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	r := &a.server.requests[a.number]
	r.Status = cmp.Or(r.Status, status)
}

func (a *answer) WriteHeader(status int) {
	a.setStatus(status)
	a.ResponseWriter.WriteHeader(status)
}

// Hijack implements [http.Hijacker].
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	inner, buffered, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	a.setStatus(http.StatusOK)
	c := &conn{Conn: inner, server: a.server, gone: make(chan struct{})}
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	a.server.conns[c] = struct{}{}
	return c, buffered, nil
}

// conn is the connection of a stream. The handler writes whole events, except
// for the line that the first one starts with.
type conn struct {
	net.Conn
	server   *Server
	answered bool // guarded by the server's mutex
	gone     chan struct{}
	once     sync.Once
	writing  sync.Mutex // held during a write
}

// NetConn returns the underlying connection, so that the handler can bound its
// buffers.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Write writes whole events, or the rest of them. Its deadline starts after
// any stall.
func (c *conn) Write(p []byte) (int, error) {
	if !c.server.await(c.gone) {
		return 0, net.ErrClosed
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.Conn.SetWriteDeadline(time.Now().Add(eventlog.DefaultWriteTimeout)); err != nil {
		return 0, err // the connection was cut, so this tears no event
	}
	part, torn := c.server.tear(p)
	n, err := c.Conn.Write(part)
	if err != nil {
		return n, err
	}
	if torn {
		c.cut()
		return n, net.ErrClosed
	}
	c.server.connected(c)
	return n, nil
}

// connected records that a reader's connection has carried a response.
func (s *Server) connected(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.answered {
		c.answered = true
		close(s.came)
		s.came = make(chan struct{})
	}
}

// tear returns the part of p to write and, if an event is to be torn, true: the
// caller then cuts the connection. The handler does not write events with an id
// together with others.
func (s *Server) tear(p []byte) (part []byte, torn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const withID, end = "id: ", "\n\n"
	if len(s.tears) == 0 || !bytes.HasPrefix(p, []byte(withID)) {
		return p, false
	}
	n := min(max(s.tears[0], 0), bytes.Index(p, []byte(end))+len(end)-1)
	s.tears = s.tears[1:]
	return p[:n], true
}

// Read returns an error once the client has disconnected.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.cut()
	}
	return n, err
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.cut()
	return nil
}

// cut ends the connection, which no longer counts as connected.
func (c *conn) cut() {
	c.once.Do(func() {
		c.server.mu.Lock()
		delete(c.server.conns, c)
		c.server.mu.Unlock()
		close(c.gone)
		_ = c.Conn.Close() // no client is left to report it to
	})
}

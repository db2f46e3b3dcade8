package serve

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// silentTime is how long a shutdown waits for the first byte on connections
// that have not sent any. Browsers and load balancers open some in advance, and
// http.Server.Shutdown would wait 5 seconds for them.
const silentTime = 500 * time.Millisecond

// silentConns tracks the connections that have not sent a byte. The zero value is empty. It
// is safe for concurrent use.
type silentConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note is called when a connection's state changes. It removes a connection that has
// sent something or is closed.
func (s *silentConns) note(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != http.StateNew {
		delete(s.conns, conn)
		return
	}
	if s.conns == nil {
		s.conns = map[net.Conn]struct{}{}
	}
	s.conns[conn] = struct{}{}
}

// close closes the silent connections.
func (s *silentConns) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close() // no response is expected on it
	}
}

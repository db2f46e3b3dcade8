package serve

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// silentTime is how long a stop waits for the first byte of connections that
// have not sent any. Browsers and load balancers open some in advance, and
// http.Server.Shutdown would wait for them for 5 seconds.
const silentTime = 500 * time.Millisecond

// silentConns are the connections that have not sent a byte. The zero value has none. It is
// safe for concurrent use.
type silentConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note is called when the state of a connection changes: it forgets one that has sent
// something, or is closed.
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

// close closes them.
func (s *silentConns) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close() // no response is expected on it
	}
}

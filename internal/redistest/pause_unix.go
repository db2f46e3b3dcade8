//go:build unix

package redistest

import (
	"syscall"

	"github.com/stretchr/testify/require"
)

// Pause suspends the server: it keeps its connections, but does not answer.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	require.NoError(s.tb, s.cmd.Process.Signal(sig))
}

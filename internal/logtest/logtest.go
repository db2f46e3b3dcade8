// Package logtest holds shared helpers for tests of logging.
package logtest

import (
	"bytes"
	"sync"
)

// Buffer is a log that a server may write while a test reads it. The zero
// Buffer is empty and ready for use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns the text written so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

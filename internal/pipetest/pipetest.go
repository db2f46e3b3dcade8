// Package pipetest connects clients and servers in memory, for tests inside a testing/synctest
// bubble, where real connections do not work.
package pipetest

import (
	"context"
	"net"
	"sync"
)

// Listener accepts the connections that Dial makes. They do not buffer: a write returns once it
// has been read.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func() // closes it, once
}

// Listen returns a listener.
func Listen() *Listener {
	l := &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Dial connects to the listener. It ignores the network and the address.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "stream.test", Net: "pipe"} }

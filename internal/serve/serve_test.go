package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/serve"
)

// pipes is a listener whose connections are in memory.
type pipes struct{ accepted chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.accepted; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (pipes) Close() error   { return nil }

// connect serves the handler on a connection in memory. The function returned ends that.
func connect(t *testing.T, handler http.Handler) (client net.Conn, stop func()) {
	t.Helper()
	server := serve.New(handler, slog.New(slog.DiscardHandler))
	listener := pipes{make(chan net.Conn)}
	go func() { _ = server.Serve(listener) }()
	client, conn := net.Pipe()
	listener.accepted <- conn
	return client, func() {
		require.NoError(t, client.Close())
		close(listener.accepted)
		require.NoError(t, server.Close())
	}
}

// Half a header, and one larger than any client needs, end the connection.
func TestServer_boundsAHeader(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: x\r\nX: "
	for sent, want := range map[string]struct {
		answer string // its first line
		after  time.Duration
	}{
		request: {"", 10 * time.Second},
		request + strings.Repeat("x", 70<<10) + "\r\n\r\n": {"HTTP/1.1 431 Request Header Fields Too Large\r\n", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, stop := connect(t, http.NotFoundHandler())
			begun := time.Now()
			go func() { _, _ = io.WriteString(client, sent) }() // it may be refused half way
			answer := bufio.NewReader(client)
			line, _ := answer.ReadString('\n')
			assert.Equal(t, want.answer, line)
			assert.Equal(t, want.after, time.Since(begun))
			_, err := io.Copy(io.Discard, answer)
			require.NoError(t, err, "it is closed")
			stop()
		})
	}
}

// A request whose body stalls is answered, too.
func TestServer_answersABodyThatDoesNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, stop := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				time.Sleep(time.Second) // on a busy machine
				w.WriteHeader(http.StatusRequestTimeout)
			}
		}))
		_, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(client), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusRequestTimeout, answer.StatusCode)
		require.NoError(t, answer.Body.Close())
		stop()
	})
}

// Also a request that no handler sees is refused as all others are.
func TestServer_refusesInJSON(t *testing.T) {
	listener, err := serve.Listen("--addr", "127.0.0.1:0")
	require.NoError(t, err)
	server := serve.New(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	for request, status := range map[string]int{
		"GET /users/100%/x HTTP/1.1\r\nHost: x\r\n\r\n":                  400,
		"GET / HTTP/1.1\r\n\r\n":                                         400,
		"no HTTP\r\n\r\n":                                                400,
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 70<<10): 431,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n":  501,
		"GET / HTTP/3.1\r\nHost: x\r\n\r\n":                              505,
	} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, request)
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		defer response.Body.Close()
		assert.Equal(t, status, response.StatusCode)
		assert.Equal(t, "application/json", response.Header.Get("Content-Type"))
		assert.True(t, response.Close)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.JSONEq(t, fmt.Sprintf(`{"detail": "The server does not take such an HTTP request: %s."}`,
			http.StatusText(status)), string(body))
	}
}

// A stream bounds the buffer of its connection, and finds it as it would behind TLS.
func TestServer_letsTheConnectionBeFound(t *testing.T) {
	listener, err := serve.Listen("--addr", "127.0.0.1:0")
	require.NoError(t, err)
	found := make(chan any, 1)
	server := serve.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		defer conn.Close()
		found <- conn.(interface{ NetConn() net.Conn }).NetConn()
	}), slog.New(slog.DiscardHandler))
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	_, _ = http.Get("http://" + listener.Addr().String())
	assert.IsType(t, &net.TCPConn{}, <-found)
}

func TestCheckAddr_takesAHostAndAPort(t *testing.T) {
	for addr, ok := range map[string]bool{"127.0.0.1:8080": true, ":8080": true, "[::1]:0": true,
		"": false, "localhost": false, "http://127.0.0.1:80": false} {
		assert.Equal(t, ok, serve.CheckAddr(addr) == nil, addr)
	}
}

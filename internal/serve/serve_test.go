package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/logtest"
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
func (p pipes) Close() error {
	close(p.accepted)
	return nil
}

// connect serves the handler on a connection in memory. The returned function ends that.
func connect(t *testing.T, handler http.Handler) (client net.Conn, server *http.Server, stop func()) {
	t.Helper()
	server = serve.New(handler, slog.New(slog.DiscardHandler))
	listener := pipes{make(chan net.Conn)}
	go func() { _ = server.Serve(listener) }()
	client, conn := net.Pipe()
	listener.accepted <- conn
	return client, server, func() {
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
	}
}

// A proxy that reads from a cache would take a server for ready that is not.
func TestMount_forbidsCaching(t *testing.T) {
	mux := httpx.NewMux(nil)
	serve.Mount(mux, func(*http.Request) error { return nil })
	for _, path := range []string{"/healthz", "/readyz"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, "200 no-store", fmt.Sprint(w.Code, " ", w.Header().Get("Cache-Control")), path)
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
			client, _, stop := connect(t, http.NotFoundHandler())
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
		client, _, stop := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// Browsers open connections in advance.
func TestServer_waitsForNoConnectionWithoutARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server, stop := connect(t, http.NotFoundHandler())
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, server.Shutdown(t.Context()))
		assert.Less(t, time.Since(begun), 2*time.Second)
		stop()
	})
}

// Load balancers reuse a connection that was idle for up to 15 minutes. If the server closed it first, a request
// could be lost on it.
func TestServer_keepsAnIdleConnectionLongerThanLoadBalancers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _, stop := connect(t, http.NotFoundHandler())
		answers := bufio.NewReader(client)
		for range 2 {
			_, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			answer, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			time.Sleep(15 * time.Minute)
		}
		stop()
	})
}

func TestCheckAddr_takesAHostAndAPort(t *testing.T) {
	for addr, ok := range map[string]bool{"127.0.0.1:8080": true, ":8080": true, "[::1]:0": true,
		"": false, "localhost": false, "http://127.0.0.1:80": false} {
		assert.Equal(t, ok, serve.CheckAddr(addr) == nil, addr)
	}
}

// A request that does not end is cut off at a stop, and its handler does not go on.
func TestServe_cutsOffARequestThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		left := make(chan struct{})
		endless := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			close(left)
		})
		listener, served := pipes{make(chan net.Conn)}, make(chan error)
		var log logtest.Buffer
		go func() {
			served <- serve.Serve(ctx, listener, serve.Service{Handler: endless}, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		client, conn := net.Pipe()
		listener.accepted <- conn
		_, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait() // it is in flight
		stop()
		require.NoError(t, <-served)
		<-left
		require.Contains(t, log.String(), "requests were cut off")
	})
}

// exhausted is a listener for which there are no file descriptors.
type exhausted struct{ pipes }

func (e exhausted) Accept() (net.Conn, error) {
	select {
	case <-e.accepted:
		return nil, net.ErrClosed
	default:
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
}

func TestServe_warnsOnceAMinuteThatItCannotAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged logtest.Buffer
		ctx, stop := context.WithTimeout(t.Context(), 150*time.Second)
		defer stop()
		require.NoError(t, serve.Serve(ctx, exhausted{pipes{make(chan net.Conn)}}, serve.Service{},
			slog.New(slog.NewTextHandler(&logged, nil))))
		require.Equal(t, 3, strings.Count(logged.String(), "cannot accept connections"), "%s", &logged)
		require.Contains(t, logged.String(), "too many open files")
	})
}

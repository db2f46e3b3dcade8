package serve_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
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

// A request whose body stalls is answered, too.
func TestServer_answersABodyThatDoesNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				time.Sleep(time.Second) // on a busy machine
				w.WriteHeader(http.StatusRequestTimeout)
			}
		}), slog.New(slog.DiscardHandler))
		listener := pipes{make(chan net.Conn)}
		go func() { _ = server.Serve(listener) }()
		client, conn := net.Pipe()
		listener.accepted <- conn
		_, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(client), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusRequestTimeout, answer.StatusCode)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, client.Close())
		close(listener.accepted)
		require.NoError(t, server.Close())
	})
}

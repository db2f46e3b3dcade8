package serve_test

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/serve"
)

// listen serves the handler until the test ends and returns the address.
func listen(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := serve.New(h, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		require.NoError(t, <-done)
	})
	return l.Addr().String()
}

// talk sends what is not always a request, and returns the answer with its body.
func talk(t *testing.T, addr, request string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may stop reading
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

func TestServer_answersJSONToWhatIsNoRequest(t *testing.T) {
	addr := listen(t, func(w http.ResponseWriter, _ *http.Request) { t.Error("handled") })
	for name, c := range map[string]struct {
		request string
		status  int
		says    string
	}{
		"a path with a damaged escape":  {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed"},
		"no request line":               {"hello\r\n\r\n", 400, "malformed"},
		"no host":                       {"GET / HTTP/1.1\r\n\r\n", 400, "malformed"},
		"a bad header":                  {"GET / HTTP/1.1\r\nHost: x\r\na b: c\r\n\r\n", 400, "malformed"},
		"two lengths":                   {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "malformed"},
		"an unknown transfer encoding":  {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "transfer encoding"},
		"another version":               {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505, "HTTP/1.1"},
		"a header of more than 64 KiB":  {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", 431, "65536 bytes"},
		"headers of more than 1000 KiB": {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 1000) + "\r\n", 431, "65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := talk(t, addr, c.request)
			assert.Equal(t, c.status, resp.StatusCode)
			assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			assert.EqualValues(t, len(body), resp.ContentLength)
			assert.True(t, resp.Close)
			var answer map[string]string
			require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
			assert.Contains(t, answer["detail"], c.says)
			assert.Len(t, answer, 1)
		})
	}
}

// What a handler writes is its own, whatever it looks like.
func TestServer_leavesAnswersOfHandlersAlone(t *testing.T) {
	const own = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	addr := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijack" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				_, tcp := conn.(interface{ NetConn() net.Conn }).NetConn().(*net.TCPConn)
				assert.True(t, tcp, "a stream bounds its buffers")
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nmine")
				_ = conn.Close()
			}
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, own)
	})
	resp, body := talk(t, addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	assert.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Equal(t, own, body)
	resp, body = talk(t, addr, "GET /hijack HTTP/1.1\r\nHost: x\r\n\r\n")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "mine", body)
}

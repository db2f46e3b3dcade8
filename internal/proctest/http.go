package proctest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

// AnyPort is the flag that makes a command listen on any free port.
const AnyPort = "--addr=127.0.0.1:0"

// Request sends a request with headers given as "Name: value", and returns the
// answer's status and body.
func Request(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	resp := Do(t, method, url, body, headers...)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(got)
}

// Do sends a request like Request, and returns the answer, whose body is closed
// when the test ends.
func Do(t *testing.T, method, url, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// UnderWay opens a connection and sends half of a POST request, up to the
// middle of its body. The returned function sends the rest and returns the
// answer's status.
func UnderWay(t *testing.T, url, path, body string, headers ...string) (finish func() int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	head := append([]string{"POST " + path + " HTTP/1.1", "Host: localhost", fmt.Sprint("Content-Length: ", len(body)),
		"Expect: 100-continue"}, headers...)
	_, err = io.WriteString(conn, strings.Join(head, "\r\n")+"\r\n\r\n")
	require.NoError(t, err)
	// The server asks for the body once the request is in flight.
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	got := make([]byte, len(goOn))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, goOn, string(got))
	half := len(body) / 2
	_, err = io.WriteString(conn, body[:half])
	require.NoError(t, err)
	return func() int {
		_, err := io.WriteString(conn, body[half:])
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
}

// HangsUp waits until the URL refuses connections.
func HangsUp(t *testing.T, url string) {
	t.Helper()
	waittest.Until(t, "it refuses connections", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

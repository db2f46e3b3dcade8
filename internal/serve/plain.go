package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// jsonListener hands out connections on which also those errors are JSON that
// net/http answers by itself, before there is a request to handle: of a malformed
// request line or header, and of headers that are too large.
type jsonListener struct{ net.Listener }

func (l jsonListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &jsonConn{tcp}, err
	}
	return conn, err
}

// jsonConn is such a connection. Only Write differs from the underlying one.
type jsonConn struct{ *net.TCPConn }

// NetConn returns the connection below.
func (c *jsonConn) NetConn() net.Conn { return c.TCPConn }

func (c *jsonConn) Write(p []byte) (int, error) {
	answer, ok := jsonAnswer(p)
	if !ok {
		return c.TCPConn.Write(p)
	}
	if _, err := c.TCPConn.Write(answer); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plainHead is what follows the status line of an answer that net/http makes by
// itself, which it writes at once. Answers of handlers have a date.
const plainHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// maxPlain is longer than any such answer, in bytes.
const maxPlain = 512

// jsonAnswer returns the answer that replaces one of net/http's own; false for
// what is none.
func jsonAnswer(p []byte) ([]byte, bool) {
	const version = "HTTP/1.1 "
	if len(p) > maxPlain || !bytes.HasPrefix(p, []byte(version)) {
		return nil, false
	}
	line, _, ok := bytes.Cut(p, []byte(plainHead))
	if !ok || len(line) < len(version)+3 || bytes.Contains(line, []byte("\n")) {
		return nil, false
	}
	status, err := strconv.Atoi(string(line[len(version) : len(version)+3]))
	if err != nil {
		return nil, false
	}
	body, err := json.Marshal(map[string]string{"detail": detailOf(status)})
	if err != nil {
		return nil, false
	}
	return fmt.Appendf(nil, "%s%d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s",
		version, status, http.StatusText(status), len(body), body), true
}

// detailOf returns what a request does that net/http answers with the status.
func detailOf(status int) string {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return fmt.Sprintf("The headers of the request are larger than the limit of %d bytes.", maxHeaderBytes)
	case http.StatusNotImplemented:
		return "The server does not take this transfer encoding."
	case http.StatusHTTPVersionNotSupported:
		return "The server speaks HTTP/1.1 and HTTP/1.0."
	}
	return "The request line or a header of the request is malformed."
}

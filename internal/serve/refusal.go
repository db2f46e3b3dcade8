package serve

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// jsonRefusals is a listener on whose connections every error is JSON: net/http itself refuses,
// in plain text and before any handler, a request that is not valid HTTP, such as one whose path
// has a broken percent-encoding, or whose header is too large.
type jsonRefusals struct{ net.Listener }

func (l jsonRefusals) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &refusingConn{tcp}, nil
	}
	return conn, err
}

// refusingConn keeps all other abilities of the connection.
type refusingConn struct{ *net.TCPConn }

// NetConn returns the connection below, as that of a [tls.Conn] does.
func (c *refusingConn) NetConn() net.Conn { return c.TCPConn }

// refusalHeaders follow the status line of a refusal, all written at once. No handler's answer
// has them there, as it has a Date.
var refusalHeaders = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

func (c *refusingConn) Write(p []byte) (int, error) {
	rest, isAnswer := bytes.CutPrefix(p[:min(len(p), 256)], []byte("HTTP/1.1 "))
	line, _, isRefusal := bytes.Cut(rest, refusalHeaders)
	if !isAnswer || !isRefusal || len(line) < 3 || bytes.ContainsRune(line, '\n') {
		return c.TCPConn.Write(p)
	}
	status, _ := strconv.Atoi(string(line[:3]))
	text := http.StatusText(status)
	body := fmt.Sprintf(`{"detail":"The server does not take such an HTTP request: %s."}`, text)
	_, err := fmt.Fprintf(c.TCPConn, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %d\r\n"+
		"Content-Type: application/json\r\n\r\n%s", status, text, len(body), body)
	return len(p), err
}

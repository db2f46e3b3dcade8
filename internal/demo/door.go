package demo

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// isLocal reports whether a request comes from this machine, by its own name and
// not through a proxy. The name counts because a page from elsewhere can have its own
// name resolved to this machine.
func isLocal(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().IsLoopback() && isLoopbackHost(r.Host) && !isForwarded(r.Header)
}

// isLoopbackHost reports whether a Host header names this machine, with or without
// a port.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		host = name
	}
	return strings.EqualFold(host, "localhost") || host == "127.0.0.1" || host == "[::1]"
}

// isForwarded reports whether a proxy has left its mark on a request.
func isForwarded(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
		switch name {
		case "Forwarded", "X-Real-Ip", "Via":
			return true
		}
	}
	return false
}

// isOwnPage reports whether a request was made by a page of the demo's.
func isOwnPage(r *http.Request) bool { return r.Header.Get("Origin") == "http://"+r.Host }

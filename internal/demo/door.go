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

// OpensAt reports whether the page opens on a server that listens at an address: at
// one of this machine's own, or at all.
func OpensAt(listening net.Addr) bool {
	tcp, ok := listening.(*net.TCPAddr)
	return ok && (tcp.IP.IsLoopback() || tcp.IP.IsUnspecified())
}

// isLoopbackHost reports whether a Host header names this machine, with or without
// a port. An address cannot be made to lead elsewhere, as a name can.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host, _ = strings.CutSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
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

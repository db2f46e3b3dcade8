package httpx

import (
	"net"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/internal/origin"
)

// IsRebound reports whether a request arrived at a loopback address but names another machine's host.
// That is the sign of DNS rebinding, where a site's name is pointed here after its page has loaded,
// so the page could read the answer. Docker Desktop and Podman pass the requests of containers to a
// loopback address; their names for the host are no site's. Browsers always send a host.
func IsRebound(r *http.Request) bool {
	address, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch strings.ToLower(origin.Hostname(r.Host)) {
	case "", "host.docker.internal", "host.containers.internal":
		return false
	}
	return address != nil && isLoopback(address.String()) && !isLoopback(r.Host)
}

// isLoopback reports whether a host, with or without a port, is always this machine, whatever DNS
// says.
func isLoopback(host string) bool {
	return origin.IsLoopback(host) || strings.HasSuffix(strings.ToLower(origin.Hostname(host)), ".localhost")
}

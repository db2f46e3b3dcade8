package httpx

import (
	"net"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/internal/origin"
)

// IsRebound reports whether a request arrived at a loopback address but names another machine's host.
// That is the sign of DNS rebinding, where a site's name is pointed here after its page has loaded,
// so the page could read the answer.
func IsRebound(r *http.Request) bool {
	address, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return address != nil && isLoopback(address.String()) && !isLoopback(r.Host)
}

// isLoopback reports whether a host, with or without a port, is always this machine, whatever DNS
// says.
func isLoopback(host string) bool {
	return origin.IsLoopback(host) || strings.HasSuffix(strings.ToLower(origin.Hostname(host)), ".localhost")
}

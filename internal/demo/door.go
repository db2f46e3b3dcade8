package demo

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/internal/origin"
)

// isLocal reports whether a request comes from this machine, names it as its host,
// and did not pass through a proxy. The host name matters because a remote page can
// make its own name resolve to this machine.
func isLocal(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().IsLoopback() && origin.IsLoopback(r.Host) && !isForwarded(r.Header)
}

// doorField is the query parameter with the secret in the page's URL.
const doorField = "secret"

// cookieName returns the name of the cookie that keeps the secret. Servers on other
// ports of this machine share its cookies, so each uses a different name.
func cookieName(r *http.Request) string { return "liveactivity_demo_" + port(r) }

// isOpen reports whether a request has the secret in its cookie. Being local is not
// enough, because a reverse proxy on this machine makes every visitor look local.
func (d *Demo) isOpen(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName(r))
	return err == nil && d.opens(cookie.Value)
}

func (d *Demo) opens(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(secret), []byte(d.door)) == 1
}

// open stores the secret from the page's URL, if it is right, in a cookie. It
// reports whether the page may be served.
func (d *Demo) open(w http.ResponseWriter, r *http.Request) bool {
	if !isLocal(r) {
		return false
	}
	if !d.opens(r.URL.Query().Get(doorField)) {
		return d.isOpen(r)
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: d.door, Path: "/demo", HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	return true
}

// OpensAt reports whether the page can be opened on a server that listens at an
// address: a loopback or an unspecified one.
func OpensAt(listening net.Addr) bool {
	tcp, ok := listening.(*net.TCPAddr)
	return ok && (tcp.IP.IsLoopback() || tcp.IP.IsUnspecified())
}

// isForwarded reports whether a request has a proxy's headers.
func isForwarded(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains([]string{"Forwarded", "X-Real-Ip", "Via"}, name) {
			return true
		}
	}
	return false
}

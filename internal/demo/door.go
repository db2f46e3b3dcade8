package demo

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/liveactivity/liveactivity/internal/origin"
)

// isLocal reports whether a request comes from this machine, by its own name and
// not through a proxy. The name counts because a page from elsewhere can have its own
// name resolved to this machine.
func isLocal(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().IsLoopback() && origin.IsLoopback(r.Host) && !isForwarded(r.Header)
}

// doorField is the query parameter with the secret of the page's address.
const doorField = "secret"

// cookieName returns the name of the cookie that keeps the secret. Servers on other
// ports of this machine share its cookies, so each has a name of its own.
func cookieName(r *http.Request) string { return "liveactivity_demo_" + port(r) }

// isOpen reports whether a request has the secret in its cookie. A reverse proxy on
// this machine makes every visitor look local, so that alone opens nothing.
func (d *Demo) isOpen(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName(r))
	return err == nil && d.opens(cookie.Value)
}

func (d *Demo) opens(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(secret), []byte(d.door)) == 1
}

// open puts the secret of the page's address, if it is right, into a cookie. It
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

// OpensAt reports whether the page opens on a server that listens at an address: at
// one of this machine's own, or at all.
func OpensAt(listening net.Addr) bool {
	tcp, ok := listening.(*net.TCPAddr)
	return ok && (tcp.IP.IsLoopback() || tcp.IP.IsUnspecified())
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

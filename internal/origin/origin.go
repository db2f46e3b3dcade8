// Package origin decides which web origins a list allows, and which URLs and hosts name a
// server.
package origin

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Opaque is the origin that browsers send for pages with an opaque origin,
// such as files and sandboxed frames.
const Opaque = "null"

// wildcard, before a host, stands for any subdomain.
const wildcard = "*."

var (
	schemeForm = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)
	hostForm   = regexp.MustCompile(`^[^\s/?#@*\\A-Z\x80-\x{10FFFF}]+$`)
	labelsForm = regexp.MustCompile(`^[^\s/?#@*\\A-Z:]+$`)
)

// IsWeb reports whether s is a web page's origin in the form that browsers
// send: http or https, host and port, in lower case.
func IsWeb(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		s == u.Scheme+"://"+u.Host && hostForm.MatchString(u.Host)
}

// IsPattern reports whether s may be in a list for [Allows]: a web origin, one
// with "*." in front of its host, an origin with another scheme such as
// "capacitor://localhost", or [Opaque].
func IsPattern(s string) bool {
	scheme, host, ok := strings.Cut(s, "://")
	switch {
	case s == Opaque || s == "file://":
		return true
	case !ok:
		return false
	case scheme == "http" || scheme == "https":
		return IsWeb(scheme + "://" + strings.TrimPrefix(host, wildcard))
	}
	return scheme != "file" && schemeForm.MatchString(scheme) && hostForm.MatchString(host)
}

// IsHost reports whether s is a host name in lower case, optionally after a "*."
// that stands for any subdomain.
func IsHost(s string) bool { return labelsForm.MatchString(strings.TrimPrefix(s, wildcard)) }

// Base parses a server's http or https URL, to which paths are added. It returns false for a
// URL with a user, a query, a fragment, or an invalid port.
func Base(s string) (*url.URL, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return u, err == nil && port != 0 && !strings.HasSuffix(u.Host, ":")
}

// Hostname returns a host without its port and brackets.
func Hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// IsLoopback reports whether a host, with or without a port, is by its name or address the
// requesting machine itself. It resolves no names.
func IsLoopback(host string) bool {
	name := Hostname(host)
	addr, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && addr.IsLoopback()
}

// Hosts returns the hosts, without ports, of the patterns that are web origins.
func Hosts(patterns []string) (hosts []string) {
	for _, pattern := range patterns {
		u, err := url.Parse(pattern)
		if err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}

// Allows reports whether an origin, in the form that browsers send, is one of the patterns
// or a subdomain of one with a wildcard. Either may include the scheme's default port.
func Allows(patterns []string, origin string) bool {
	origin = withoutDefaultPort(strings.ToLower(origin))
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		pattern = withoutDefaultPort(pattern)
		scheme, domain, ok := strings.Cut(pattern, wildcard)
		if !ok || !strings.HasSuffix(scheme, "://") {
			return origin == pattern
		}
		host, ok := strings.CutPrefix(origin, scheme)
		if !ok {
			return false
		}
		labels, ok := strings.CutSuffix(host, "."+domain)
		return ok && labelsForm.MatchString(labels)
	})
}

// withoutDefaultPort returns an origin or a pattern in the form that browsers
// send.
func withoutDefaultPort(s string) string {
	if strings.HasPrefix(s, "https://") {
		return strings.TrimSuffix(s, ":443")
	}
	if strings.HasPrefix(s, "http://") {
		return strings.TrimSuffix(s, ":80")
	}
	return s
}

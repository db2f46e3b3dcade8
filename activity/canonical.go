package activity

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"
)

// idSegment replaces a path segment that identifies one thing among many.
const idSegment = ":id"

// CanonicalURL returns an address that is the same for all pages of a kind. Scheme and host are in
// lower case. Credentials, default port, path parameters (";jsessionid=…"), query and trailing
// slash are dropped, and path segments that look like identifiers are replaced by ":id". The
// fragment is dropped unless it is a hash route ("#/…" or "#!/…"), which is treated like a path.
// The name of an app's screen ("app://screen/…") is never an identifier.
// A text that is no URL is treated as a path, so there are no errors. The function is idempotent.
// It does not limit the length of raw; see [CleanURL].
func CanonicalURL(raw string) string { return canonical(printable(raw)) }

// canonical implements CanonicalURL for printable text. It recurses, with a shorter text, if path
// parameters hid an address behind them.
func canonical(s string) string {
	a := splitAddress(s)
	path, tail := a.rest, ""
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path, tail = path[:i], path[i:]
	}
	var b strings.Builder
	b.Grow(len(s) + 4)
	if !a.authority {
		if scheme, _ := cutScheme(path); scheme == "" {
			path = strings.ReplaceAll(path, `\`, "/")
		}
		if bare := withoutParams(path); bare != path {
			return canonical(bare + tail) // the rest may be an address now
		}
	} else {
		path = withoutParams(a.start(&b, path))
	}
	if a.scheme == "app" && a.host == "screen" {
		b.WriteString(path)
	} else {
		writeCanonicalPath(&b, path)
	}
	_, fragment, _ := strings.Cut(tail, "#")
	writeHashRoute(&b, fragment)
	if b.Cap() > b.Len()+b.Len()/8 {
		return strings.Clone(b.String()) // releases the spare capacity
	}
	return b.String()
}

// start writes everything that comes before the path, and returns the path.
func (a address) start(b *strings.Builder, path string) string {
	host := canonicalHost(a.scheme, a.host)
	if a.scheme != "" {
		b.WriteString(a.wrapper + a.scheme + ":")
	}
	if a.scheme != "" || host != "" {
		b.WriteString("//" + host)
	}
	if a.scheme == "" || schemes[a.scheme] != twoSlashes {
		path = strings.ReplaceAll(path, `\`, "/")
	}
	return cmp.Or(path, "/")
}

// paramsForm matches the parameters of a path segment.
var paramsForm = regexp.MustCompile(`(?:;|%3[Bb])[^/]*`)

// withoutParams drops the parameters of every segment of a path.
func withoutParams(path string) string {
	if !strings.ContainsAny(path, ";%") {
		return path
	}
	return paramsForm.ReplaceAllLiteralString(path, "")
}

// defaultPorts are omitted from addresses.
var defaultPorts = map[string]string{"http": ":80", "ws": ":80", "https": ":443", "wss": ":443"}

// canonicalHost returns a host in lower case, without an empty port or its scheme's default port.
func canonicalHost(scheme, host string) string {
	host = strings.ToLower(host)
	for {
		bare := strings.TrimSuffix(strings.TrimSuffix(host, defaultPorts[scheme]), ":")
		if bare == host {
			return host
		}
		host = bare
	}
}

// isPlain reports whether s consists of visible ASCII characters, as nearly every URL does.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// isControl reports whether r is a control character or a line separator, which browsers never
// report in a URL.
func isControl(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp)
}

// printable drops control characters and invalid UTF-8, trims surrounding white space and
// percent-encodes the rest.
func printable(raw string) string {
	if isPlain(raw) {
		return raw
	}
	clean, _ := visible(raw, len(raw))
	return strings.Join(strings.Fields(clean), "%20")
}

// writeCanonicalPath writes path with its identifiers replaced and without trailing slashes,
// unless it is the root.
func writeCanonicalPath(b *strings.Builder, path string) {
	isRooted := strings.HasPrefix(path, "/")
	if path = strings.TrimRight(path, "/"); path == "" && isRooted {
		b.WriteByte('/')
		return
	}
	for more := true; more; {
		var segment string
		if segment, path, more = strings.Cut(path, "/"); isIdentifier(segment) {
			segment = idSegment
		}
		b.WriteString(segment)
		if more {
			b.WriteByte('/')
		}
	}
}

// writeHashRoute writes a fragment, without its query, if it is a route of a single-page app.
func writeHashRoute(b *strings.Builder, fragment string) {
	route := strings.TrimPrefix(fragment, "!")
	if !strings.HasPrefix(route, "/") {
		return
	}
	b.WriteString("#" + fragment[:len(fragment)-len(route)])
	if end := strings.IndexAny(route, "?#"); end >= 0 {
		route = route[:end]
	}
	writeCanonicalPath(b, withoutParams(route))
}

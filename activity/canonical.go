package activity

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// idSegment stands for a path segment that names one thing among many.
const idSegment = ":id"

// CanonicalURL returns raw as the address of a kind of page: scheme and host
// in lower case, credentials, default port, query and trailing slash dropped,
// and every path segment that looks like an identifier replaced by ":id". The
// fragment is dropped unless it is a hash route ("#/…" or "#!/…"), which is
// treated like a path. It never fails: what is not a URL is treated as a path.
// CanonicalURL(CanonicalURL(x)) equals CanonicalURL(x).
func CanonicalURL(raw string) string {
	var b strings.Builder
	b.Grow(len(raw) + 4)
	rest, fragment, _ := strings.Cut(printable(raw), "#")
	rest, _, _ = strings.Cut(rest, "?")
	if scheme, after, ok := cutScheme(rest); ok {
		host, path := after, ""
		if i := strings.IndexByte(after, '/'); i >= 0 {
			host, path = after[:i], after[i:]
		}
		scheme = strings.ToLower(scheme)
		b.WriteString(scheme)
		b.WriteString("://")
		b.WriteString(canonicalHost(scheme, host))
		rest = path
		if rest == "" {
			rest = "/"
		}
	}
	writeCanonicalPath(&b, rest)
	writeHashRoute(&b, fragment)
	return b.String()
}

func cutScheme(s string) (scheme, rest string, ok bool) {
	i := strings.Index(s, "://")
	if i <= 0 {
		return "", s, false
	}
	for j := range i {
		c := s[j] | 0x20
		letter := 'a' <= c && c <= 'z'
		if !letter && (j == 0 || !strings.ContainsRune("0123456789+-.", rune(s[j]))) {
			return "", s, false
		}
	}
	return s[:i], s[i+3:], true
}

// defaultPorts are what an address need not say.
var defaultPorts = map[string]string{"http": ":80", "ws": ":80", "https": ":443", "wss": ":443"}

func canonicalHost(scheme, host string) string {
	host = strings.ToLower(host[strings.LastIndexByte(host, '@')+1:])
	for {
		bare := strings.TrimSuffix(strings.TrimSuffix(host, defaultPorts[scheme]), ":")
		if bare == host {
			return host
		}
		host = bare
	}
}

// printable drops control characters and what is not UTF-8, trims white space
// and encodes what is left of it.
func printable(raw string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(raw, ""))
	clean = strings.TrimSpace(clean)
	if !strings.ContainsFunc(clean, unicode.IsSpace) {
		return clean
	}
	return strings.Join(strings.FieldsFunc(clean, unicode.IsSpace), "%20")
}

// writeCanonicalPath writes path with its identifiers replaced and without a
// trailing slash, unless it is the root.
func writeCanonicalPath(b *strings.Builder, path string) {
	if strings.HasPrefix(path, "/") {
		path = strings.TrimRight(path, "/")
		if path == "" {
			b.WriteByte('/')
			return
		}
	}
	path = strings.TrimRight(path, "/")
	for i, segment := range strings.Split(path, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		if isIdentifier(segment) {
			segment = idSegment
		}
		b.WriteString(segment)
	}
}

func writeHashRoute(b *strings.Builder, fragment string) {
	for _, mark := range []string{"!/", "/"} {
		if !strings.HasPrefix(fragment, mark) {
			continue
		}
		route, _, _ := strings.Cut(fragment, "#")
		route, _, _ = strings.Cut(route, "?")
		b.WriteByte('#')
		b.WriteString(mark[:len(mark)-1])
		writeCanonicalPath(b, route[len(mark)-1:])
		return
	}
}

var (
	digitsOnly  = regexp.MustCompile(`^[0-9]+$`)
	uuidForm    = regexp.MustCompile(`^(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	hexForm     = regexp.MustCompile(`^[0-9a-fA-F]{8,}$`)
	tokenForm   = regexp.MustCompile(`^[0-9A-Za-z_-]{16,}={0,2}$`)
	jwtForm     = regexp.MustCompile(`^eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*$`)
	densityForm = regexp.MustCompile(`@[0-9.]+x\.[a-z]+$`) // "logo@2x.png" is a file name
	emailForm   = regexp.MustCompile(`^[^@\s/]+@[^@\s/]+\.[^@\s/.]+$`)
	dateForm    = regexp.MustCompile(`^([0-9]{4}[-_][0-9]{1,2}[-_][0-9]{1,2}|[0-9]{1,2}[-_][0-9]{1,2}[-_][0-9]{4})(T[0-9:.Z+-]*)?$`)
	prefixForm  = regexp.MustCompile(`^([A-Za-z]+_)+([0-9A-Za-z-]+)$`)
	opaqueForm  = regexp.MustCompile(`^[0-9A-Za-z]{8,}$`)
	slugWord    = regexp.MustCompile(`^([A-Za-z]*|[A-Za-z]?[a-z]*[0-9]{1,4}[a-z]{0,2}|[0-9]{1,4}[A-Za-z]{0,3})$`)
	wordNumeral = regexp.MustCompile(`^[A-Za-z]?[a-z]*[0-9]*$`)
)

// isIdentifier reports whether a path segment names one thing among many: a
// number, a UUID, a hexadecimal or other long token with a digit in it, an
// e-mail address, a date, or such a token behind a prefix ("cus_9s6XKzkNRiz8i3").
// Words, slugs of words, versions ("v1") and file names are not identifiers.
func isIdentifier(segment string) bool {
	if decoded, err := url.PathUnescape(segment); err == nil {
		segment = decoded
	}
	if strings.Contains(segment, "@") && emailForm.MatchString(segment) && !densityForm.MatchString(segment) {
		return true
	}
	if !strings.ContainsAny(segment, "0123456789") {
		return false
	}
	segment = strings.TrimSuffix(strings.TrimPrefix(segment, "{"), "}")
	return dateForm.MatchString(segment) || isToken(segment) || hasTokenSuffix(segment) || isDotted(segment)
}

// isToken reports whether s, which holds a digit, is an identifier by itself.
func isToken(s string) bool {
	if digitsOnly.MatchString(s) || hexForm.MatchString(s) || uuidForm.MatchString(s) {
		return true
	}
	return tokenForm.MatchString(s) && !isSlug(s)
}

// isDotted reports whether s is a JSON web token or other tokens joined by dots.
// One of fewer than eight characters is rather a part of a version.
func isDotted(s string) bool {
	if jwtForm.MatchString(s) {
		return true
	}
	parts := strings.Split(s, ".")
	for _, part := range parts {
		if len(part) < 8 || !strings.ContainsAny(part, "0123456789") || !isToken(part) {
			return false
		}
	}
	return len(parts) > 1
}

// hasTokenSuffix reports whether s is words joined by underscores that end in
// a token. Behind a prefix a shorter token is enough, as long as it is not a
// word with a number ("page_version2").
func hasTokenSuffix(s string) bool {
	m := prefixForm.FindStringSubmatch(s)
	if m == nil || !strings.ContainsAny(m[2], "0123456789") {
		return false
	}
	token := m[2]
	return isToken(token) || dateForm.MatchString(token) ||
		opaqueForm.MatchString(token) && !wordNumeral.MatchString(token)
}

// isSlug reports whether s is several words, small numbers and words with a
// number in them, joined by hyphens or underscores: "top-10-a11y-tips-for-2026".
func isSlug(s string) bool {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '-' || r == '_' })
	if len(parts) < 2 || s == strings.ToUpper(s) { // a licence key is no slug
		return false
	}
	for _, part := range parts {
		if !slugWord.MatchString(part) {
			return false
		}
	}
	return true
}

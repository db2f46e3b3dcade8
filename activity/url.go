package activity

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cleaning parses URLs a little more suspiciously than browsers do: text that any program could
// take for a password or another credential is removed. Strangers choose the URL and its length.

// maxURL is the number of bytes of a URL that are kept, and maxScan the number that is read to find
// them, since a removed secret may be long. A host longer than maxHost is invalid, and nothing
// after it is kept.
const (
	maxURL  = 2 << 10
	maxScan = 64 << 10
	maxHost = 1 << 10 // far more than any host has
)

// CleanURL returns a URL that is safe to store, and its canonical form. The clean URL is raw without
// control characters, user and password, with "redacted" for the values of parameters that look
// like credentials, cut after 2 KiB. Cleaning it again changes nothing. The canonical form is the
// [CanonicalURL] of the clean URL before the cut, and also has at most 2 KiB. A result may be raw
// itself, but never a substring of it. Time is linear in the length of raw, and memory is bounded.
func CleanURL(raw string) (clean, canonical string) {
	s, all := visible(raw, maxScan)
	a := splitAddress(s)
	if a.open && !all || len(a.host) > maxHost { // a caller may have cut a password, too
		a.host, a.rest = "", ""
	}
	whole := a.redacted(s)
	page, fragment := cutURL(whole), ""
	if i := strings.IndexAny(whole, "?#"); i >= 0 { // a long query is not used
		page = cutURL(whole[:i])
		_, fragment, _ = strings.Cut(whole[i:], "#")
	}
	if fragment != "" {
		page += "#" + cutURL(fragment)
	}
	if clean = cutURL(whole); len(clean) != len(raw) {
		clean = strings.Clone(clean)
	}
	if canonical = cutSegments(CanonicalURL(page)); canonical == clean {
		return clean, clean
	}
	return clean, canonical
}

// visible returns s without control characters, invalid UTF-8 and surrounding white space, limited
// to limit bytes. It reports whether that is all of s.
func visible(s string, limit int) (clean string, all bool) {
	if len(s) <= limit && isPlain(s) {
		return s, true
	}
	var b strings.Builder
	for i, r := range s {
		size := utf8.RuneLen(r)
		switch {
		case isControl(r), b.Len() == 0 && unicode.IsSpace(r),
			r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			continue
		case b.Len()+size > limit:
			return b.String(), false
		case b.Len() == 0:
			b.Grow(min(len(s)-i, limit))
		}
		b.WriteRune(r)
	}
	return strings.TrimRightFunc(b.String(), unicode.IsSpace), true
}

// cutURL returns at most maxURL bytes of s, without trailing white space after a cut.
func cutURL(s string) string {
	if len(s) <= maxURL {
		return s
	}
	return strings.TrimRightFunc(strings.ToValidUTF8(s[:maxURL], ""), unicode.IsSpace)
}

// cutSegments cuts a canonical URL at the end of a segment, since a partial segment could look like
// an identifier.
func cutSegments(s string) string {
	if len(s) <= maxURL {
		return s
	}
	if i := strings.LastIndexByte(s[:maxURL], '/'); i > 0 {
		return CanonicalURL(s[:i])
	}
	return CanonicalURL(cutURL(s))
}

// address is a URL split as browsers do. prefix, host and rest are substrings of the URL and contain
// neither user nor password.
type address struct {
	prefix    string // everything before user and host, as it was spelled
	wrapper   string // "blob:" and the like, in lower case
	scheme    string // in lower case; empty without an authority
	authority bool   // whether there is a host, though it may be empty
	open      bool   // whether the host ends where the URL does
	host      string // with its port, without user and password
	rest      string // path, query and fragment
}

// slashes is the form of a scheme's URLs: the host follows any number of slashes and backslashes,
// or exactly two.
type slashes int

const (
	twoSlashes slashes = iota // schemes that browsers know nothing of
	twoOfAnyKind
	anyNumber
)

var schemes = map[string]slashes{
	"http": anyNumber, "https": anyNumber, "ws": anyNumber, "wss": anyNumber, "ftp": anyNumber, "file": twoOfAnyKind,
}

// splitAddress splits s as the URL Standard says, but recognizes user and password more liberally.
// s must not contain control characters.
func splitAddress(s string) address {
	a := address{}
	start := 0
	for _, wrapper := range []string{"view-source:", "filesystem:", "blob:"} {
		if n := start + len(wrapper); n <= len(s) && strings.EqualFold(s[start:n], wrapper) {
			start = n // another URL follows
		}
	}
	scheme, after := cutScheme(s[start:])
	kind := schemes[scheme]
	begin := len(s) - len(after) // of the slashes
	n := slashLen(after)
	switch {
	case scheme == "" && start == 0 && n >= 2: // as on a page of http or https
		kind = anyNumber
	case scheme == "" || kind == twoSlashes && !strings.HasPrefix(after, "//") || kind == twoOfAnyKind && n < 2:
		return address{rest: s}
	}
	if kind != anyNumber {
		n = 2
	}
	a.wrapper, a.scheme, a.authority = strings.ToLower(s[:start]), scheme, true
	a.prefix = s[:begin+n]
	for rest := s[begin+n:]; ; rest = rest[slashLen(rest):] {
		a.host, a.rest, a.open = cutHost(rest, kind)
		if rest = a.rest; kind != anyNumber || canonicalHost(scheme, a.host) != "" || slashLen(rest) == 0 {
			return a
		}
	}
}

// The characters of a scheme; it starts with a letter.
const (
	schemeLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	schemeChars   = schemeLetters + decimals + "+.-"
)

// cutScheme returns the scheme of s in lower case and the text after its colon, or "" and s if there
// is none.
func cutScheme(s string) (scheme, rest string) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || scheme == "" || !strings.Contains(schemeLetters, scheme[:1]) || strings.Trim(scheme, schemeChars) != "" {
		return "", s
	}
	return strings.ToLower(scheme), rest
}

// slashLen returns the number of slashes and backslashes at the start of s.
func slashLen(s string) int { return len(s) - len(strings.TrimLeft(s, `/\`)) }

// cutHost splits s at the end of its authority, and drops user and password. A host never contains
// an "@", percent-encoded or not.
func cutHost(s string, kind slashes) (host, rest string, open bool) {
	ends := `/?#`
	if kind != twoSlashes {
		ends = `/\?#`
	}
	end := strings.IndexAny(s, ends)
	if open = end < 0; open {
		end = len(s)
	}
	host = s[:end]
	return host[max(strings.LastIndexByte(host, '@')+1, afterLast(host, "%40")):], s[end:], open
}

// afterLast returns the index after the last occurrence of part, or 0.
func afterLast(s, part string) int {
	if i := strings.LastIndex(s, part); i >= 0 {
		return i + len(part)
	}
	return 0
}

// credentials are the words, and the names of several words in one, in lower case, that make a
// parameter's value secret.
var credentials = map[string]bool{
	"token": true, "secret": true, "password": true, "passwd": true, "pass": true, "pwd": true,
	"auth": true, "authorization": true, "key": true, "otp": true, "pin": true, "sig": true, "signature": true,
	"session": true, "sid": true, "jwt": true, "saml": true, "code": true, "state": true, "nonce": true,
	"credential": true, "ticket": true, "assertion": true,

	"accesskey": true, "apikey": true, "authkey": true, "privatekey": true, "secretkey": true, "sessionkey": true,
	"accesscode": true, "authcode": true, "passcode": true, "passphrase": true,
	"jsessionid": true, "phpsessid": true, "sessid": true, "sessionid": true, "samlart": true,
}

// credentialEndings are the endings of other such words: "accesstoken",
// "clientsecret".
var credentialEndings = [][]byte{[]byte("token"), []byte("secret"), []byte("password"), []byte("passwd")}

// redacted stands for a secret value.
const redacted = "redacted"

// redacted returns the address without user, password and values of credentials. If there are none,
// that is s, the address before splitting.
func (a address) redacted(s string) string {
	if len(a.prefix)+len(a.host)+len(a.rest) == len(s) && !strings.ContainsAny(a.rest, "=%@") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(redacted))
	b.WriteString(a.prefix)
	b.WriteString(a.host)
	writeRedacted(&b, a.rest)
	return b.String()
}

// writeRedacted writes path, query and fragment of a URL and replaces the values of credentials in
// the query, in path parameters, in the fragment and in percent-encoded URLs that are values
// themselves. Such URLs lose user and password as well.
func writeRedacted(b *strings.Builder, s string) {
	const inPath, inQuery = "/;?#&", "&#" // these end a value
	ends, from, named := inPath, 0, false // from is where a name may begin
	var row slashRow
	for i := 0; i < len(s); {
		d := delimiterAt(s, i)
		b.WriteString(s[i : i+d.size])
		i += d.size
		switch {
		case d.char == 0:
			n := strings.IndexAny(s[i:], delimiters)
			if n < 0 {
				n = len(s) - i
			}
			b.WriteString(s[i : i+n])
			i += n
			continue
		case d.char == '@':
			continue
		case d.char == '/' && row.add(s[:i], d.size):
			i += userLen(s[i:])
		case d.char == '=' && !named && isCredential(s[from:i-d.size]):
			end := valueEnd(s, i, d.level, ends)
			if end > i {
				b.WriteString(redacted)
			}
			i = end
			continue
		case d.char == '=':
			named = true
			continue
		case d.level == 0 && d.char == '?':
			ends = inQuery
		case d.level == 0 && d.char == '#':
			ends = inQuery
			if strings.HasPrefix(strings.TrimPrefix(s[i:], "!"), "/") {
				ends = inPath
			}
		}
		from, named = i, false
	}
}

// slashRow counts consecutive slashes.
type slashRow struct {
	n, end     int
	afterColon bool
}

// add counts a slash with size bytes at the end of s. It reports whether an authority follows, which
// begins after two slashes behind a colon.
func (r *slashRow) add(s string, size int) bool {
	if before := s[:len(s)-size]; r.n == 0 || len(before) != r.end {
		r.n = 0
		r.afterColon = strings.HasSuffix(before, ":") || len(before) > 2 && strings.EqualFold(before[len(before)-2:], "3a")
	}
	r.n++
	r.end = len(s)
	return r.afterColon && r.n == 2
}

// userLen returns the length of user and password, including the "@", in an s that begins with an
// authority.
func userLen(s string) (n int) {
	for i := 0; i < len(s); {
		d := delimiterAt(s, i)
		if strings.IndexByte("/?#&", d.char) >= 0 {
			break
		}
		if i += d.size; s[i-1] == '@' || d.char == '@' {
			n = i
		}
	}
	return n
}

// delimiter separates the parameters of a URL and their values, or is a percent-encoded "@". A URL
// inside a value is encoded once more than the surrounding URL, so the level tells the URL to
// which a delimiter belongs.
type delimiter struct {
	char  byte // 0 for none
	level int  // how often it is percent-encoded
	size  int  // in bytes
}

// delimiters are the bytes that a delimiter may begin with.
const delimiters = "/?#&;=%"

// delimiterAt returns the delimiter at s[i:], or one other byte.
func delimiterAt(s string, i int) delimiter {
	switch {
	case strings.IndexByte(delimiters, s[i]) < 0:
		return delimiter{size: 1}
	case s[i] != '%':
		return delimiter{char: s[i], size: 1}
	}
	end, level := i+1, 1
	for strings.HasPrefix(s[end:], "25") {
		end, level = end+2, level+1
	}
	end += 2
	code, err := strconv.ParseUint(s[end-2:min(end, len(s))], 16, 8)
	if err == nil && strings.IndexByte("/?#&;=@", byte(code)) >= 0 {
		return delimiter{byte(code), level, end - i}
	}
	return delimiter{size: 1}
}

// valueEnd returns the end of the value that starts at s[i:]: the first of the given delimiters that
// is encoded no more often than the "=" before the value.
func valueEnd(s string, i, level int, ends string) int {
	for i < len(s) {
		d := delimiterAt(s, i)
		if d.char != 0 && d.level <= level && strings.IndexByte(ends, d.char) >= 0 {
			return i
		}
		i += d.size
	}
	return i
}

// maxDecoded is the number of times that a name is decoded. A name with more levels of encoding is
// hiding something.
const maxDecoded = 8

// isCredential reports whether a parameter with that name may contain a credential: "access-token",
// "user[password]", "SAMLResponse". Names that are encoded more than maxDecoded times count as
// credentials. Names longer than maxURL need no check: their values are cut off.
func isCredential(name string) bool {
	if len(name) > maxURL {
		return false
	}
	for range maxDecoded {
		decoded := decode(name)
		if decoded == name {
			break
		}
		name = decoded
	}
	if decode(name) != name {
		return true
	}
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return strings.ContainsRune("[]!+ ", r) }) {
		if isCredentialPart(part) {
			return true
		}
	}
	return false
}

// decode decodes the percent-encoded bytes of a name. Malformed escapes are left as they are, which
// is how servers treat them.
func decode(name string) string {
	if !strings.Contains(name, "%") {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '%' && i+2 < len(name) {
			if code, err := strconv.ParseUint(name[i+1:i+3], 16, 8); err == nil {
				c, i = byte(code), i+2
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// isCredentialPart checks the words of a name and the name as a whole.
func isCredentialPart(part string) bool {
	var made [128]byte         // more than most need
	whole, word := made[:0], 0 // word is the start of the last one
	for i := range len(part) {
		isSeparator := strings.IndexByte("-_.", part[i]) >= 0
		if isSeparator || beginsWord(part, i) {
			if isCredentialWord(whole[word:]) {
				return true
			}
			word = len(whole)
		}
		switch {
		case isSeparator:
		case isUpper(part[i]):
			whole = append(whole, part[i]+'a'-'A')
		default:
			whole = append(whole, part[i])
		}
	}
	return isCredentialWord(whole[word:]) || isCredentialWord(whole)
}

// isCredentialWord checks a word, or a name without separators. A number may follow: "password2".
func isCredentialWord(word []byte) bool {
	word = bytes.TrimRight(word, decimals)
	return credentials[string(word)] ||
		slices.ContainsFunc(credentialEndings, func(end []byte) bool { return bytes.HasSuffix(word, end) })
}

// beginsWord reports whether s[i] begins a word: it is a capital letter that follows no other one, or
// the last of several before a lower-case letter.
func beginsWord(s string, i int) bool {
	return i > 0 && isUpper(s[i]) && (!isUpper(s[i-1]) || i+1 < len(s) && isLower(s[i+1]))
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

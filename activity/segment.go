package activity

import (
	"net/url"
	"strings"
)

// isIdentifier reports whether a path segment names one thing among many: a
// number, a UUID, a hexadecimal or other long token with a digit in it, an
// e-mail address, a date, or one of these after a prefix
// ("cus_9s6XKzkNRiz8i3"). Words, slugs of words, versions ("v1") and file
// names are not identifiers. The time is linear in the length of the segment,
// whatever it contains; most end at the first test, so that regular
// expressions would cost more than all else of a URL.
func isIdentifier(segment string) bool {
	if prefixLen(segment, isWordy) == len(segment) || !mayIdentify(segment) {
		return false
	}
	if decoded, err := url.PathUnescape(segment); err == nil {
		segment = decoded
	}
	if isEmail(segment) {
		return true
	}
	if !hasDigit(segment) {
		return false
	}
	segment = strings.TrimSuffix(strings.TrimPrefix(segment, "{"), "}")
	return isToken(segment) || isDate(segment) || hasTokenSuffix(segment) || isDotted(segment)
}

// mayIdentify reports whether a segment has a digit or an "@", decoded where it is
// percent-encoded; it may if that is malformed.
func mayIdentify(segment string) bool {
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c == '%' {
			if len(segment) < i+3 || !isHex(segment[i+1]) || !isHex(segment[i+2]) {
				return true
			}
			c = unhex(segment[i+1])<<4 | unhex(segment[i+2])
			i += 2
		}
		if isDigit(c) || c == '@' {
			return true
		}
	}
	return false
}

// unhex returns the value of a hexadecimal digit.
func unhex(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLower(c byte) bool  { return 'a' <= c && c <= 'z' }
func isLetter(c byte) bool { return isLower(c | 0x20) }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
func isAlnum(c byte) bool  { return isDigit(c) || isLetter(c) }
func isDashed(c byte) bool { return isAlnum(c) || c == '-' }
func isBase64(c byte) bool { return isDashed(c) || c == '_' } // of the alphabet for URLs
func isInDate(c byte) bool { return isDigit(c) || strings.IndexByte(":.Z+-", c) >= 0 }
func isInSize(c byte) bool { return isDigit(c) || c == '.' }
func isWordy(c byte) bool  { return !isDigit(c) && c != '%' && c != '@' }
func isSpace(c byte) bool  { return c == ' ' || '\t' <= c && c <= '\r' && c != '\v' }

// prefixLen returns how many bytes at the start of s are of a class.
func prefixLen(s string, class func(byte) bool) int {
	for i := range len(s) {
		if !class(s[i]) {
			return i
		}
	}
	return len(s)
}

// all reports whether s has bytes, and only those of a class.
func all(s string, class func(byte) bool) bool { return s != "" && prefixLen(s, class) == len(s) }

func hasDigit(s string) bool {
	for i := range len(s) {
		if isDigit(s[i]) {
			return true
		}
	}
	return false
}

// isEmail reports whether s is an e-mail address, and not a file such as
// "logo@2x.png", whose density looks like one.
func isEmail(s string) bool {
	local, domain, ok := strings.Cut(s, "@")
	dot := strings.LastIndexByte(domain, '.')
	if !ok || local == "" || dot < 1 || dot == len(domain)-1 || strings.ContainsAny(domain, "@/") || strings.Contains(local, "/") {
		return false
	}
	for i := range len(s) {
		if isSpace(s[i]) {
			return false
		}
	}
	size, isSize := strings.CutSuffix(domain[:dot], "x")
	return !(isSize && all(size, isInSize) && all(domain[dot+1:], isLower))
}

// isDate reports whether s is a date, the year first or last, with or without a
// time.
func isDate(s string) bool {
	var lengths [3]int
	for i := range lengths {
		if i > 0 {
			if s == "" || s[0] != '-' && s[0] != '_' {
				return false
			}
			s = s[1:]
		}
		lengths[i] = prefixLen(s, isDigit)
		s = s[lengths[i]:]
	}
	short := func(n int) bool { return n == 1 || n == 2 }
	first, last := lengths[0], lengths[2]
	if !short(lengths[1]) || !(first == 4 && short(last) || short(first) && last == 4) {
		return false
	}
	return s == "" || s[0] == 'T' && prefixLen(s[1:], isInDate) == len(s)-1
}

// isToken reports whether s, which holds a digit, is an identifier by itself.
func isToken(s string) bool {
	switch n := prefixLen(s, isHex); {
	case n == len(s):
		return n >= 8 || all(s, isDigit)
	case n == 8 && isUUID(s):
		return true
	}
	n := prefixLen(s, isBase64)
	return n >= 16 && (s[n:] == "" || s[n:] == "=" || s[n:] == "==") && !isSlug(s)
}

// isUUID reports whether s is a UUID in its usual form.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !isHex(s[i]) {
				return false
			}
		}
	}
	return true
}

// isDotted reports whether s is a JSON web token or other tokens joined by dots.
// One of fewer than eight characters is rather a part of a version.
func isDotted(s string) bool {
	if !strings.Contains(s, ".") {
		return false
	}
	if isJWT(s) {
		return true
	}
	for part := range strings.SplitSeq(s, ".") {
		if len(part) < 8 || !hasDigit(part) || !isToken(part) {
			return false
		}
	}
	return true
}

func isJWT(s string) bool {
	header, rest, _ := strings.Cut(s, ".")
	claims, signature, ok := strings.Cut(rest, ".")
	return ok && strings.HasPrefix(header, "eyJ") && len(header) > 3 && all(header, isBase64) &&
		all(claims, isBase64) && prefixLen(signature, isBase64) == len(signature)
}

// hasTokenSuffix reports whether s is words joined by underscores that end in
// a token. Behind a prefix a shorter token is enough, as long as it is not a
// word with a number ("page_version2").
func hasTokenSuffix(s string) bool {
	end := strings.LastIndexByte(s, '_')
	if end < 0 {
		return false
	}
	for word := range strings.SplitSeq(s[:end], "_") {
		if !all(word, isLetter) {
			return false
		}
	}
	token := s[end+1:]
	if !all(token, isDashed) || !hasDigit(token) {
		return false
	}
	return isToken(token) || isDate(token) || len(token) >= 8 && all(token, isAlnum) && !isNumberedWord(token)
}

// isNumberedWord reports whether s is a word, which may be capitalised, and a number.
func isNumberedWord(s string) bool {
	if s != "" && isLetter(s[0]) {
		s = s[1:]
	}
	s = s[prefixLen(s, isLower):]
	return prefixLen(s, isDigit) == len(s)
}

// isSlug reports whether s is several words, small numbers and words with a
// number in them, joined by hyphens or underscores: "top-10-a11y-tips-for-2026".
// One in capitals is rather a licence key.
func isSlug(s string) bool {
	words, lower := 0, false
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '-' || r == '_' }) {
		if !isSlugWord(word) {
			return false
		}
		words++
		lower = lower || strings.ToUpper(word) != word
	}
	return words > 1 && lower
}

// isSlugWord reports whether s is a word, one with up to four digits in or behind
// it ("a11y", "2026"), or a number with a few letters ("2fa").
func isSlugWord(s string) bool {
	letters := prefixLen(s, isLetter)
	rest := s[letters:]
	digits := prefixLen(rest, isDigit)
	tail := rest[digits:]
	switch {
	case digits == 0:
		return tail == ""
	case digits > 4:
		return false
	case letters == 0:
		return len(tail) <= 3 && prefixLen(tail, isLetter) == len(tail)
	}
	return prefixLen(s[1:letters], isLower) == letters-1 && len(tail) <= 2 && prefixLen(tail, isLower) == len(tail)
}

package activity

import (
	"net/url"
	"regexp"
	"strings"
)

// Forms of path segments. Go's regular expressions take linear time.
var (
	emailForm = regexp.MustCompile(`^[^@/\s]+@[^@/\s]+\.[^@/.\s]+$`)
	// densityForm is a file such as "logo@2x.png", whose density looks like the
	// domain of an email address.
	densityForm = regexp.MustCompile(`@[0-9.]+x\.[a-z]+$`)

	// idForm matches identifiers that need no further test: hexadecimal digits, UUIDs and JSON
	// Web Tokens.
	idForm = regexp.MustCompile(`^(?:[0-9A-Fa-f]{8,}` +
		`|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|eyJ[\w-]+\.[\w-]+\.[\w-]*)$`)
	// dateForm has the year first or last, and may have a time.
	dateForm = regexp.MustCompile(`^(?:\d{4}[-_]\d\d?[-_]\d\d?|\d\d?[-_.]\d\d?[-_.]\d{4})(?:T[\d:.Z+-]*)?$`)
	// tokenForm uses the alphabet of URL-safe base64.
	tokenForm = regexp.MustCompile(`^[\w-]{16,}={0,2}$`)
	// slugForm is several words, small numbers and words with a number in them,
	// joined by hyphens or underscores: "top-10-a11y-tips-for-2026".
	slugForm = regexp.MustCompile(`^[-_]*` + slugWord + `(?:[-_]+` + slugWord + `)+[-_]*$`)
	// prefixedForm is words and a token, joined by underscores.
	prefixedForm = regexp.MustCompile(`^(?:[A-Za-z]+_)+[0-9A-Za-z-]+$`)
	// numberedForm is a word, which may be capitalised, and a number.
	numberedForm = regexp.MustCompile(`^[A-Za-z]?[a-z]*[0-9]*$`)
)

// slugWord is a word, one with up to four digits in or behind it ("a11y", "HTML5", "OAuth2"),
// or a number with a few letters ("2fa").
const slugWord = `(?:[A-Za-z]+|[0-9]{1,4}[A-Za-z]{0,3}|[A-Z]*[a-z]*[0-9]{1,4}[a-z]{0,2})`

const decimals = "0123456789"

// isIdentifier reports whether a path segment identifies one thing among many: a number, a UUID, a
// hexadecimal or other long token with a digit, an email address, a date, or one of these after a
// prefix ("cus_9s6XKzkNRiz8i3"). Words, slugs, versions ("v1") and file names are not identifiers.
func isIdentifier(segment string) bool {
	if !strings.ContainsAny(segment, decimals+"@%") { // most segments have none
		return false
	}
	if decoded, err := url.PathUnescape(segment); err == nil {
		segment = decoded
	}
	if strings.Contains(segment, "@") && emailForm.MatchString(segment) && !densityForm.MatchString(segment) {
		return true
	}
	segment = strings.TrimSuffix(strings.TrimPrefix(segment, "{"), "}")
	return isToken(segment) || dateForm.MatchString(segment) || hasTokenSuffix(segment) || isDotted(segment)
}

func hasDigit(s string) bool { return strings.ContainsAny(s, decimals) }

// isToken reports whether s is an identifier by itself.
func isToken(s string) bool {
	isNumber := strings.Trim(s, decimals) == "" // as most identifiers
	return hasDigit(s) && (isNumber || idForm.MatchString(s) || len(s) >= 16 && tokenForm.MatchString(s) && !isSlug(s))
}

// isSlug reports whether s is a slug. In capitals it is more likely a license key.
func isSlug(s string) bool { return slugForm.MatchString(s) && strings.ToUpper(s) != s }

// hasTokenSuffix reports whether s consists of words and a final token, joined by underscores. After
// a prefix a shorter token suffices, unless it is a word with a number ("page_version2").
func hasTokenSuffix(s string) bool {
	token := s[strings.LastIndexByte(s, '_')+1:]
	if !hasDigit(token) || !prefixedForm.MatchString(s) {
		return false
	}
	short := len(token) >= 8 && !strings.Contains(token, "-") && !numberedForm.MatchString(token)
	return isToken(token) || dateForm.MatchString(token) || short
}

// isDotted reports whether s consists of tokens joined by dots. A token of fewer than eight
// characters is more likely part of a version.
func isDotted(s string) bool {
	if !strings.Contains(s, ".") {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if len(part) < 8 || !isToken(part) {
			return false
		}
	}
	return true
}

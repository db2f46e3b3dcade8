package posthog

import (
	"strings"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/internal/element"
)

// maxElements bounds how deep a chain is followed.
const maxElements = 128

// parseChain reads an elements chain and appends its elements, target first:
//
//	chain = el *(";" el)
//	el    = tag *("." class) ":" *(key '="' value '"')
//	key   = "attr__"NAME | "attr_id" | "href" | "nth-child" | "nth-of-type" | "text" | NAME
//
// In values only the double quote is escaped, as \". Classes may hold colons and dots. A bare
// NAME, of letters, digits and hyphens, is skipped with its value. It never fails: if
// anything is unexpected, or the chain is too long, [element.Unread] comes last in place of
// the rest.
func parseChain(elements []element.Element, chain string) []element.Element {
	isRead := len(chain) <= maxChain-utf8.UTFMax // else it is cut
	for chain != "" && len(elements) < maxElements {
		e, rest, ok := parseElement(chain)
		if isRead = isRead && ok; e.Tag != "" {
			elements = append(elements, e)
		}
		_, chain, _ = strings.Cut(rest, ";")
	}
	if chain != "" || !isRead {
		elements = append(elements, element.Unread)
	}
	return elements
}

// parseElement reads the first element of a chain. It reports false if the element is not read
// to its end, where rest is empty or begins with a semicolon.
func parseElement(chain string) (e element.Element, rest string, ok bool) {
	head, attrs, hasAttrs := cutHead(chain)
	e.Tag = tagOf(head) // its case tells native views from HTML
	_, e.Class, _ = strings.Cut(head, ".")
	if !hasAttrs {
		return e, chain[len(head):], (e.Tag != "" || head == "") && !strings.Contains(head, `="`)
	}
	for {
		key, value, rest, ok := cutAttr(attrs)
		if !ok {
			return e, attrs, e.Tag != "" && (attrs == "" || attrs[0] == ';')
		}
		e.Set(key, value)
		attrs = rest
	}
}

// cutHead splits "tag.class:attrs…" at the start of the attributes, which is
// the first colon before a key, or else the next semicolon.
func cutHead(s string) (head, attrs string, ok bool) {
	for i := range len(s) {
		switch s[i] {
		case ':':
			if anyKeyLen(s[i+1:]) > 0 {
				return s[:i], s[i+1:], true
			}
		case ';':
			return s[:i], "", false
		}
	}
	return s, "", false
}

// tagOf returns the tag of "tag.class".
func tagOf(head string) string {
	if i := strings.IndexAny(head, ".:"); i >= 0 {
		head = head[:i]
	}
	return strings.TrimSpace(head)
}

// maxKey is the longest attribute key that is recognized.
const maxKey = 256

// keyLen returns the length of the known key that s starts with if `="` follows
// the key, else zero.
func keyLen(s string) int {
	n := 0
	if strings.HasPrefix(s, "attr__") {
		n = strings.IndexAny(s[:min(len(s), maxKey)], `=";`)
		if n < 0 {
			return 0
		}
	} else {
		for _, key := range []string{"attr_id", "href", "nth-child", "nth-of-type", "text"} {
			if strings.HasPrefix(s, key) {
				n = len(key)
				break
			}
		}
	}
	if n == 0 || !strings.HasPrefix(s[n:], `="`) {
		return 0
	}
	return n
}

// anyKeyLen returns the length of the key that s starts with, known or a bare name, if `="`
// follows the key, else zero.
func anyKeyLen(s string) int {
	if n := keyLen(s); n > 0 {
		return n
	}
	n := 0
	for n < min(len(s), maxKey) && (isLetter(s[n]) || n > 0 && ('0' <= s[n] && s[n] <= '9' || s[n] == '-')) {
		n++
	}
	if !strings.HasPrefix(s[n:], `="`) {
		return 0
	}
	return n
}

// cutAttr reads one key="value" from the start of s. A value that is not closed is not an
// attribute, and rest is empty.
func cutAttr(s string) (key, value, rest string, ok bool) {
	n := anyKeyLen(s)
	if n == 0 {
		return "", "", s, false
	}
	key, s = s[:n], s[n+2:]
	escaped := false
	for i := 0; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i > 0 && s[i-1] == '\\' && !endsValue(s[i+1:]) {
			escaped = true
			continue
		}
		value = s[:i]
		if escaped {
			value = strings.ReplaceAll(value, `\"`, `"`)
		}
		return key, value, s[i+1:], true
	}
	return "", "", "", false
}

// endsValue reports whether the text after a \" can only follow a closed value:
// nothing, the next attribute or the next element. A value that itself ends in a
// backslash is written just like an escaped quote.
func endsValue(rest string) bool {
	if rest == "" || keyLen(rest) > 0 {
		return true
	}
	if rest[0] != ';' || len(rest) < 2 || !isLetter(rest[1]) {
		return false
	}
	head, _, ok := cutHead(rest[1:])
	return (ok || len(head) == len(rest)-1) && !strings.Contains(head, `"`)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

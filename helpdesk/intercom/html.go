package intercom

import (
	"html"
	"regexp"
	"strings"
	"unicode"
)

// MaxNoteSize is the size in bytes of the longest note as it is rendered.
// Intercom documents no limit; this one is far below the size it takes.
const MaxNoteSize = 16 << 10

// toHTML renders plain text. It leaves quotes as they are, which are plain
// characters outside of a tag, and drops control characters other than the ends of
// lines.
func toHTML(text string) string {
	return escapes.Replace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text))
}

// escapes makes plain text HTML. A CRLF is one line break.
var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r\n", "<br>", "\n", "<br>", "\r", "<br>")

// bodyText returns a body as plain text. Bodies are HTML in the older
// versions of the API, always in block elements, and plain text in later ones.
func bodyText(body string) string {
	body = strings.TrimSpace(body)
	if blocks[tagName(body)] {
		body = fromHTML(body)
	}
	return strings.TrimSpace(body)
}

// isBlank reports whether a body shows nothing: neither text nor an image.
func isBlank(body string) bool {
	return bodyText(body) == "" && !shownTag.MatchString(body)
}

// shownTag matches an element that shows something without any text.
var shownTag = regexp.MustCompile(`(?i)<(?:img|video|audio|iframe|object|embed|a)\b`)

// blocks are the elements that end a line, and those that bodies in HTML begin with.
var blocks = map[string]bool{
	"p": true, "div": true, "br": true, "ul": true, "ol": true, "li": true, "pre": true, "blockquote": true, "table": true,
	"tr": true, "img": true, "html": true, "body": true,
	"h1": true, "h2": true, "h3": true, "h4": true, "h5": true, "h6": true,
}

// fromHTML returns the text of HTML, with a line for each line break and block. It takes any
// input, well-formed or not. Comments are dropped.
func fromHTML(s string) string {
	var text strings.Builder
	for s != "" {
		start := strings.IndexByte(s, '<')
		if start < 0 {
			start = len(s)
		}
		text.WriteString(html.UnescapeString(s[:start]))
		s = s[start:]
		length := tagLength(s)
		if name := tagName(s); name == "br" || blocks[name] && strings.HasPrefix(s, "</") {
			text.WriteByte('\n')
		}
		if length == 0 && s != "" { // a < that begins no tag
			text.WriteByte('<')
			length = 1
		}
		s = s[length:]
	}
	return text.String()
}

// tagName returns the name of the tag, opening or closing, that s begins with, in
// lower case; empty if there is none.
func tagName(s string) string {
	s, ok := strings.CutPrefix(s, "<")
	if !ok {
		return ""
	}
	s = strings.TrimPrefix(s, "/")
	end := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end < 0 || end > 10 { // no such tag is longer
		return ""
	}
	return strings.ToLower(s[:end])
}

// tagLength returns the length of the tag or comment that s begins with. One that
// does not end reaches to the end of s. A > inside of quotes does not end a tag.
func tagLength(s string) int {
	if len(s) < 2 || s[0] != '<' || !strings.ContainsRune("/!?", rune(s[1])) && !isLetter(s[1]) {
		return 0
	}
	quote := byte(0)
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			return i + 1
		}
	}
	return len(s)
}

// isLetter reports whether c is a letter of ASCII.
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// shows reports whether a body, which the API may have changed the markup of,
// shows the text. It compares visible characters only. The body may also be plain text.
func shows(body, text string) bool {
	text = ink(text)
	return ink(body) == text || ink(fromHTML(body)) == text
}

// ink returns the visible characters of a text.
func ink(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.In(r, unicode.Cf) || unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}

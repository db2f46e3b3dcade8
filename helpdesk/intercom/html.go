package intercom

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

// MaxNoteSize is the maximum size in bytes of a rendered note. Intercom
// documents no limit; this one is far below the size that it accepts.
const MaxNoteSize = 16 << 10

// toHTML renders plain text. It keeps quotes, which have no meaning outside a tag,
// and drops control characters other than line endings.
func toHTML(text string) string {
	return escapes.Replace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text))
}

// escapes turns plain text into HTML. A CRLF is one line break.
var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r\n", "<br>", "\n", "<br>", "\r", "<br>")

// bodyText returns a body as plain text. Bodies are HTML in older versions of
// the API, always starting with a block element, and plain text in later ones.
func bodyText(body string) string {
	body = strings.TrimSpace(body)
	first := html.NewTokenizer(strings.NewReader(body))
	first.Next()
	if name, _ := first.TagName(); blocks[string(name)] {
		body = fromHTML(body)
	}
	return strings.TrimSpace(body)
}

// isBlank reports whether a body shows nothing: neither text nor an image.
func isBlank(body string) bool {
	return bodyText(body) == "" && !shownTag.MatchString(body)
}

// shownTag matches an element that is visible without any text.
var shownTag = regexp.MustCompile(`(?i)<(?:img|video|audio|iframe|object|embed|a)\b`)

// blocks are the elements that end a line, and the elements with which HTML bodies
// begin.
var blocks = map[string]bool{
	"p": true, "div": true, "br": true, "ul": true, "ol": true, "li": true, "pre": true, "blockquote": true, "table": true,
	"tr": true, "img": true, "html": true, "body": true,
	"h1": true, "h2": true, "h3": true, "h4": true, "h5": true, "h6": true,
}

// fromHTML returns the text of HTML, with a line for each line break and block. It accepts
// any input, well-formed or not, and drops comments.
func fromHTML(s string) string {
	var text strings.Builder
	for tokens := html.NewTokenizer(strings.NewReader(s)); ; {
		kind := tokens.Next()
		switch t := tokens.Token(); {
		case kind == html.ErrorToken:
			return text.String()
		case kind == html.TextToken:
			text.WriteString(t.Data)
		case t.Data == "br" || kind == html.EndTagToken && blocks[t.Data]:
			text.WriteByte('\n')
		}
	}
}

// shows reports whether a body shows the text, although the API may have changed the
// markup. It compares visible characters only. The body may also be plain text.
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

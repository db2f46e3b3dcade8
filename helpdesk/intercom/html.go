package intercom

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/html"
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

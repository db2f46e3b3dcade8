package helpdesktest

import (
	"html"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxZendeskBody is the length in bytes at which Zendesk truncates a comment.
const maxZendeskBody = 64 << 10

var (
	scripts      = regexp.MustCompile(`(?is)<(script|style)\b.*?</(script|style)\s*>`)
	anyTag       = regexp.MustCompile(`(?s)<(/?)([a-zA-Z][a-zA-Z0-9]*)\b[^>]*>`)
	lineEnds     = regexp.MustCompile(`(?i)<br\s*/?>|</(p|div|li|h[1-6]|blockquote|pre|tr)>`)
	emptyLines   = regexp.MustCompile(`<br>\s*(<br>\s*)+`)
	placeholders = regexp.MustCompile(`(?s)\{\{.*?\}\}|\{%.*?%\}`)
	redactions   = regexp.MustCompile(`(?s)<redact>(.*?)</redact>`)
)

// allowedTags are the tags that a desk keeps, without their attributes.
var allowedTags = map[string]bool{"a": true, "b": true, "blockquote": true, "br": true, "code": true, "div": true,
	"em": true, "h1": true, "h2": true,
	"h3": true, "hr": true, "i": true, "li": true, "ol": true, "p": true, "pre": true, "span": true, "strong": true,
	"u": true, "ul": true}

// cleaned returns HTML without the markup that a desk drops.
func cleaned(s string) string {
	return anyTag.ReplaceAllStringFunc(scripts.ReplaceAllString(s, ""), func(tag string) string {
		parts := anyTag.FindStringSubmatch(tag)
		name := strings.ToLower(parts[2])
		if !allowedTags[name] {
			return ""
		}
		return "<" + parts[1] + name + ">"
	})
}

// sanitized returns HTML as Zendesk keeps it, inside the element that Zendesk adds.
func sanitized(s string) string {
	return `<div class="zd-comment" dir="auto">` + cleaned(s) + `</div>`
}

// expanded returns a text with a value for every placeholder. It resolves entities
// first, since Zendesk may do so.
func expanded(s string) string {
	if placeholders.MatchString(html.UnescapeString(s)) {
		s = html.UnescapeString(s)
	}
	return placeholders.ReplaceAllString(s, "EXPANDED")
}

// asHTML returns plain text as Zendesk renders it.
func asHTML(text string) string { return sanitized(escaped(text)) }

// escaped returns plain text as HTML.
func escaped(text string) string {
	return strings.ReplaceAll(html.EscapeString(text), "\n", "<br>")
}

// inParagraphs returns HTML as Intercom keeps it: in paragraphs, with runs of
// white space, including line feeds, as one space.
func inParagraphs(s string) string {
	s = strings.Join(strings.Fields(cleaned(s)), " ")
	s = emptyLines.ReplaceAllString(s, "</p>\n<p>")
	if strings.HasPrefix(s, "<p>") {
		return s
	}
	return "<p>" + s + "</p>"
}

// plainText returns the text of HTML as a reader sees it.
func plainText(s string) string {
	s = strings.TrimSuffix(strings.TrimSuffix(s, "</div>"), "</p>")
	s = lineEnds.ReplaceAllString(s, "\n")
	s = html.UnescapeString(anyTag.ReplaceAllString(s, ""))
	return strings.ReplaceAll(s, "\u200b", "") // zero-width space
}

// blanked returns HTML with a bar for each character to redact.
func blanked(s string) string {
	return redactions.ReplaceAllStringFunc(s, func(part string) string {
		text := html.UnescapeString(redactions.FindStringSubmatch(part)[1])
		return strings.Repeat("▇", utf8.RuneCountInString(text))
	})
}

// cutBytes truncates a text to a number of bytes without splitting a character.
func cutBytes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

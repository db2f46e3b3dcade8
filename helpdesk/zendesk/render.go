package zendesk

import (
	"html"
	"regexp"
	"strings"
	"unicode"
)

// maxBody is the maximum size of a comment's HTML, in bytes. Zendesk truncates
// longer HTML.
const maxBody = 64_000

// Fits implements [helpdesk.Desk].
func (c *Client) Fits(text string) bool { return len(render(text)) <= maxBody }

// joint is an invisible separator between braces: Zendesk expands {{…}} and
// {%…%} in comments, and does not document whether it does so before or after
// resolving HTML entities.
const joint = "\u200b"

// Render implements [helpdesk.Renderer].
func (c *Client) Render(text string) string { return render(text) }

// render returns the HTML of a text: it keeps line breaks, escapes markup,
// breaks up placeholders, and drops other control characters.
func render(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	var before rune
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			continue
		}
		if before == '{' && (r == '{' || r == '%') || (before == '}' || before == '%') && r == '}' {
			b.WriteString(joint)
		}
		before = r
		b.WriteRune(r)
	}
	return strings.ReplaceAll(html.EscapeString(b.String()), "\n", "<br>")
}

// says reports whether a comment has a text, given in the form that bare returns. Any of the three
// forms in which Zendesk keeps a comment may match.
func (c Comment) says(text string) bool {
	return bare(html.UnescapeString(tags.ReplaceAllString(c.HTML, ""))) == text || bare(c.Text) == text ||
		bare(c.Body) == text
}

// tags matches HTML tags. Zendesk's HTML is well-formed.
var tags = regexp.MustCompile(`<[^>]*>`)

// bare removes white space and invisible characters (such as a joint) from a text and
// decodes its HTML entities, since Zendesk may change any of them.
func bare(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, html.UnescapeString(text))
}

// redacted returns a comment's HTML with all content marked for redaction: text within redact
// elements, links with a redact attribute. See
// https://developer.zendesk.com/api-reference/ticketing/tickets/ticket_comments/.
func redacted(body string) string {
	return pieces.ReplaceAllStringFunc(body, func(piece string) string {
		rest, isLink := strings.CutPrefix(piece, "<a ")
		switch {
		case isLink:
			return "<a redact " + rest // a URL that Zendesk turned into a link
		case tags.MatchString(piece), strings.TrimSpace(piece) == "":
			return piece
		}
		return "<redact>" + piece + "</redact>"
	})
}

// pieces matches HTML tags and the texts between them.
var pieces = regexp.MustCompile(`<[^>]*>|<?[^<]+`)

package zendesk

import (
	"html"
	"regexp"
	"strings"
	"unicode"
)

// maxBody is how long a comment's HTML can be, in bytes. Zendesk cuts a longer one.
const maxBody = 64_000

// Fits implements [helpdesk.Desk].
func (c *Client) Fits(text string) bool { return len(render(text)) <= maxBody }

// joint keeps braces apart, unseen: Zendesk expands {{…}} and {%…%} in comments,
// and nothing says whether it does so before or after it resolves HTML entities.
const joint = "\u200b"

// Render implements [helpdesk.Renderer].
func (c *Client) Render(text string) string { return render(text) }

// render returns the HTML of a text: its lines stay lines, nothing in them is
// markup or a placeholder, and other control characters are dropped.
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

// says reports whether a comment has a text, given as bare returns it. Any of the three forms that
// Zendesk keeps of a comment may be the one that is the same.
func (c Comment) says(text string) bool {
	return bare(html.UnescapeString(tags.ReplaceAllString(c.HTML, ""))) == text || bare(c.Text) == text ||
		bare(c.Body) == text
}

// tags matches the tags of HTML. Zendesk's own is well-formed.
var tags = regexp.MustCompile(`<[^>]*>`)

// bare returns a text without white space, invisible characters (such as a joint) and
// HTML entities: Zendesk may drop any of them.
func bare(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, html.UnescapeString(text))
}

// redacted returns a comment's HTML with everything marked to be taken away: text within redact
// elements, links by an attribute of their own. See
// https://developer.zendesk.com/api-reference/ticketing/tickets/ticket_comments/.
func redacted(body string) string {
	return pieces.ReplaceAllStringFunc(body, func(piece string) string {
		rest, isLink := strings.CutPrefix(piece, "<a ")
		switch {
		case isLink:
			return "<a redact " + rest // an address that Zendesk made a link
		case tags.MatchString(piece), strings.TrimSpace(piece) == "":
			return piece
		}
		return "<redact>" + piece + "</redact>"
	})
}

// pieces matches the tags of HTML, and the texts between them.
var pieces = regexp.MustCompile(`<[^>]*>|<?[^<]+`)

package helpdesktest

import (
	"html"
	"regexp"
	"strings"
)

var (
	tag      = regexp.MustCompile(`</?([A-Za-z][A-Za-z0-9]*)[^>]*>`)
	dropped  = regexp.MustCompile(`(?is)<(script|style)\b.*?</(script|style)>|<!--.*?-->`)
	blank    = regexp.MustCompile(`\s+`)
	breaks   = regexp.MustCompile(`(?i)<br\s*/?>`)
	twoLines = regexp.MustCompile(`(?:<br>\s*){2,}`)
)

// kept are the elements that Intercom keeps in a body, without their attributes
// but for those of links.
var kept = map[string]bool{"p": true, "br": true, "b": true, "i": true, "strong": true, "em": true, "a": true, "ul": true, "ol": true, "li": true, "h1": true, "h2": true, "code": true, "pre": true}

// sanitize returns the body that Intercom makes of one that was sent: in
// paragraphs, with white space folded, and without the elements that it does not
// know.
func sanitize(body string) string {
	body = dropped.ReplaceAllString(body, "")
	body = tag.ReplaceAllStringFunc(body, func(t string) string {
		if name := strings.ToLower(tag.FindStringSubmatch(t)[1]); !kept[name] {
			return ""
		}
		return t
	})
	body = strings.TrimSpace(blank.ReplaceAllString(body, " "))
	body = breaks.ReplaceAllString(body, "<br>")
	body = twoLines.ReplaceAllString(body, "</p>\n<p>")
	if strings.HasPrefix(body, "<p>") || strings.HasPrefix(body, "<ul>") || strings.HasPrefix(body, "<h") {
		return body
	}
	return "<p>" + body + "</p>"
}

// intercomHTML returns the body that Intercom makes of what a person typed.
func intercomHTML(text string) string {
	return sanitize(strings.ReplaceAll(html.EscapeString(text), "\n", "<br>"))
}

// intercomText returns what a person sees of a body.
func intercomText(body string) string {
	body = strings.ReplaceAll(body, "</p>\n<p>", "\n\n")
	body = breaks.ReplaceAllString(body, "\n")
	return html.UnescapeString(tag.ReplaceAllString(body, ""))
}

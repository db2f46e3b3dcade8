// Package weblink finds links in a text that lead to hosts outside a list.
//
//	host, found := weblink.Foreign("see https://evil.example", []string{"*.acme.example"})
package weblink

import (
	"html"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

var (
	// schemed matches the start of a URL, with a scheme or with slashes only, and its
	// authority. Browsers accept any number of slashes, even none.
	schemed = regexp.MustCompile(`(?:https?:/*|(?:^|[\s(\[<>"'=,;:])//+)` +
		`(\[[0-9a-f:.]+\]|[^\s/?#<>"'()\[\]{}|` + "`" + `]*)`)
	// tail matches the rest of a URL, up to the start of another.
	tail = regexp.MustCompile(`^[/?#][^\s<>"'()\[\]` + "`" + `]*`)
	// other matches a scheme other than http or https on which a client may act.
	other = regexp.MustCompile(`(?:^|[^\pL\pN])((?:javascript|vbscript|data|blob|file|intent|magnet|about|` +
		`view-source|wss?|s?ftp|tel|sms|callto|skype|whatsapp|tg|slack|msteams):\S|[a-z][a-z0-9+.-]*://)`)
	// bare matches a host without a scheme: a name with a top-level domain, or an IPv4 address.
	bare = regexp.MustCompile(`[\pL\pN\pM_-]+(?:\.[\pL\pN\pM_-]+)+`)
	top  = regexp.MustCompile(`^(?:xn--[a-z0-9-]+|[\pL\pM]{2,})$`)
	ipv4 = regexp.MustCompile(`^\d+\.\d+\.\d+\.\d+$`)
)

// files are file name extensions that are not top-level domains, so there is nothing
// to follow.
var files = []string{"csv", "pdf", "png", "jpg", "jpeg", "gif", "svg", "txt", "xls", "xlsx", "doc", "docx", "ppt",
	"pptx", "json", "xml", "html", "htm", "js", "ts", "tsx", "jsx", "css", "log", "yaml", "yml", "sql", "ini", "exe"}

// Foreign returns the first host to which a text links and that no pattern matches. A
// pattern is a host, which matches itself on any port, or "*." and a host, which matches
// its subdomains. A link is everything that a desk might render as one or a person might
// follow: an http or https URL, a URL that begins with two slashes, also in Markdown or
// angle brackets, a name with a top-level domain, such as www.evil.example or
// evil.example/path, an IPv4 address, and the host of an email address. It recognizes
// every spelling that leads there: any case, percent-encoding, entities, wide and circled
// letters, invisible characters, backslashes and markup within, user names before the
// host. Any other scheme, such as javascript: or tel:, is foreign with any host. A link
// without a host, such as [pricing](/pricing), is not.
func Foreign(text string, patterns []string) (host string, found bool) {
	for spelling := range spellings(text) {
		for _, text := range []string{strings.ReplaceAll(spelling, `\`, "/"), markup.Replace(spelling)} {
			if host, found = foreign(text, patterns); found {
				return host, true
			}
		}
	}
	return "", false
}

// spellings yields a lower-case text, as it is and at every step of its decoding, and each also
// with look-alike characters replaced by the URL characters that they resemble. A browser
// splits a URL before it decodes its parts, and a desk may decode it earlier: in
// https://app.acme.example%2F@evil.example the text before the @ is a user name, but a path
// once decoded.
func spellings(text string) iter.Seq[string] {
	decodings := []func(string) string{html.UnescapeString, unescapePercent}
	return func(yield func(string) bool) {
		for i := range 7 { // nested encodings
			spelling := visible(text)
			if !yield(spelling) || !yield(ascii.Replace(strings.ToLower(norm.NFKC.String(spelling)))) {
				return
			}
			text = decodings[i%2](text)
		}
	}
}

// markup removes the characters that Markdown drops within a word.
var markup = strings.NewReplacer(`\`, "", "*", "", "`", "", "~", "")

// visible returns the text in lower case, without invisible characters, and with spaces in
// place of control characters, which end a URL.
func visible(text string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, text))
}

// ascii maps characters to the ASCII ones that they look like or become in a URL. NFKC has already
// mapped others, such as wide ones.
var ascii = strings.NewReplacer("。", ".", "∕", "/", "⁄", "/", "⧸", "/", "∶", ":")

// unescapePercent decodes a text's valid percent-encoding.
func unescapePercent(text string) string {
	return encoded.ReplaceAllStringFunc(text, func(s string) string {
		if decoded, err := url.PathUnescape(s); err == nil {
			return decoded
		}
		return s
	})
}

var encoded = regexp.MustCompile(`(?:%[0-9a-fA-F]{2})+`)

// foreign is Foreign for one spelling.
func foreign(text string, patterns []string) (host string, found bool) {
	var rest strings.Builder // the text without the allowed URLs
	at := 0
	for at < len(text) {
		m := schemed.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		begin, end := at+m[0], at+m[1]
		authority := text[at+m[2] : end]
		if authority != "" {
			if host = hostOf(authority); !allows(patterns, host) {
				return host, true
			}
			end += len(pathOf(text[end:]))
		}
		rest.WriteString(text[at:begin] + " ")
		at = max(end, begin+1)
	}
	rest.WriteString(text[min(at, len(text)):])
	for _, m := range other.FindAllStringSubmatch(text, -1) {
		if scheme, _, _ := strings.Cut(m[1], ":"); scheme != "http" && scheme != "https" {
			return scheme + ":", true
		}
	}
	return foreignName(rest.String(), patterns)
}

// foreignName returns the first foreign host without a scheme.
func foreignName(text string, patterns []string) (host string, found bool) {
	for text != "" {
		m := bare.FindStringIndex(text)
		if m == nil {
			return "", false
		}
		host = strings.Trim(text[m[0]:m[1]], "-_")
		last := host[strings.LastIndexByte(host, '.')+1:]
		isHost := ipv4.MatchString(host) || top.MatchString(last) && !slices.Contains(files, last)
		if isHost && !allows(patterns, host) {
			return host, true
		}
		text = text[m[1]:]
		if isHost {
			text = text[len(pathOf(text)):]
		}
	}
	return "", false
}

// pathOf returns the path and query at the start of a text, up to another URL.
func pathOf(text string) string {
	path := tail.FindString(text)
	for _, next := range []string{"http:", "https:", "//"} {
		if i := strings.Index(path, next); i >= 0 {
			path = path[:i]
		}
	}
	return path
}

// hostOf returns an authority's host, without user, port and a sentence's
// punctuation.
func hostOf(authority string) string {
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	host = strings.TrimRight(host, ".,;:!?*_~")
	if name, port, ok := strings.Cut(host, ":"); ok && strings.Trim(port, "0123456789") == "" {
		host = name
	}
	return strings.TrimRight(host, ".")
}

// allows reports whether one of the patterns matches a host.
func allows(patterns []string, host string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		pattern = strings.ToLower(pattern)
		if domain, ok := strings.CutPrefix(pattern, "*."); ok {
			labels, ok := strings.CutSuffix(host, "."+domain)
			return ok && labels != "" && strings.Trim(labels, ".") == labels && !strings.ContainsAny(labels, "@:,;!$&'*+=%")
		}
		return host == pattern
	})
}

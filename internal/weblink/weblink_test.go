package weblink_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/weblink"
)

var ours = []string{"acme.example", "*.acme.example", "help.acme.test"}

func TestForeign_findsEverySpellingOfALink(t *testing.T) {
	for name, text := range map[string]string{
		"http":                         "see http://evil.example now",
		"https":                        "see https://evil.example/path?a=b.",
		"upper case":                   "HTTPS://EVIL.EXAMPLE",
		"two slashes":                  "see //evil.example/x",
		"two slashes in Markdown":      "[x](//evil.example)",
		"one slash":                    "https:/evil.example",
		"no slash":                     "https:evil.example",
		"three slashes":                "https:///evil.example",
		"backslashes":                  `https:\\evil.example`,
		"a backslash before the user":  `https://evil.example\@acme.example`,
		"Markdown":                     "[our page](https://evil.example)",
		"Markdown with our host":       "[https://acme.example](https://evil.example)",
		"a reference of Markdown":      "[x]: https://evil.example",
		"an image":                     "![x](https://evil.example/p.png)",
		"an automatic link":            "<https://evil.example>",
		"www":                          "go to www.evil.example",
		"a bare host":                  "go to evil.example",
		"a bare host with path":        "go to evil.example/path",
		"a bare host with port":        "evil.example:8080",
		"a bare host in mixed case":    "Evil.Example",
		"a bare host at the end":       "Look: evil.example.",
		"behind ours":                  "https://acme.example and evil.example",
		"right behind ours":            "https://acme.example)evil.example",
		"a name that begins like ours": "https://acme.example.evil.test",
		"a name that ends like ours":   "https://evilacme.example",
		"a user that is ours":          "https://acme.example@evil.example",
		"a user with a password":       "https://acme.example:443@evil.example/",
		"a bare user":                  "acme.example@evil.example",
		"a user with a slash":          "https://acme.example%2F@evil.test/login",
		"a user with an entity's":      "https://acme.example&sol;@evil.test",
		"a user with half an entity's": "https://acme.example&#37;2F@evil.test",
		"a user with a slash, twice":   "https://acme.example%252F@evil.test",
		"a user with a slash and port": "https://acme.example:80%2F@evil.test",
		"a user with a question mark":  "[in](https://acme.example%3f@evil.test/x)",
		"a user with a number sign":    "https://acme.example%23@evil.test",
		"a user with a wide slash":     "https://acme.example／@evil.test",
		"a user with a wide mark":      "https://acme.example？@evil.test",
		"a user with a wide sign":      "https://acme.example＃@evil.test",
		"a user with a fraction slash": "https://acme.example⁄@evil.test",
		"a fraction slash in the host": "https://acme.example⁄.evil.test",
		"an encoded scheme and a user": "https&#58;//acme.example%2F@evil.test",
		"circled letters":              "ⓔⓥⓘⓛ.example",
		"squared letters":              "🄴🅅🄸🄻.example",
		"a circled top-level domain":   "evil.ⓔⓧⓐⓜⓟⓛⓔ",
		"a Roman top-level domain":     "evil.ⅽⅽ",
		"an email address":             "write to help@evil.example",
		"mailto":                       "mailto:help@evil.example",
		"percent-encoding":             "https://evil%2eexample/",
		"percent-encoding throughout":  "%68ttps%3A%2F%2Fevil.example",
		"percent-encoding twice":       "https%253A%252F%252Fevil.example",
		"entities":                     "https&colon;&sol;&sol;evil&#46;example",
		"wide letters":                 "ｅｖｉｌ．ｅｘａｍｐｌｅ",
		"an ideographic full stop":     "evil。example",
		"a zero-width space":           "evil\u200b.example",
		"a zero-width space in ours":   "https://evil.example\u200b",
		"a soft hyphen":                "ev\u00adil.exam\u00adple",
		"an escaped dot":               `evil\.example`,
		"emphasis within":              "evil**.**example",
		"another script":               "https://аcme.example",
		"another top-level domain":     "пример.рф",
		"punycode":                     "xn--e1afmkfd.xn--p1ai",
		"an address":                   "192.0.2.1/path",
		"an address as URL":            "http://3221225985",
		"a local host":                 "http://localhost:3000",
		"IPv6":                         "http://[::1]/",
		"a link in the query":          "https://acme.example/?next=https://evil.example",
		"an encoded link in the query": "https://acme.example/?next=https%3A%2F%2Fevil.example",
		"a comma in the host":          "https://acme.example,evil.test",
		"javascript":                   "[x](javascript:alert(1))",
		"javascript in mixed case":     "JavaScript:alert(1)",
		"data":                         "data:text/html,x",
		"another scheme":               "ftp://acme.example",
		"an app's scheme":              "app://acme.example",
		"a telephone":                  "tel:+4912345",
		"hxxp":                         "hxxp://evil[.]example evil.example",
	} {
		t.Run(name, func(t *testing.T) {
			_, found := weblink.Foreign(text, ours)
			assert.True(t, found, text)
		})
	}
}

func TestForeign_letsOurLinksAndPlainTextPass(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                "",
		"text":                   "Click Export, then choose CSV. It takes 3.5 s, e.g. at 10:30; see 1/2 or A.B.",
		"our host":               "https://acme.example",
		"our host in a text":     "See https://app.acme.example/docs/setup.guide?a=b.c#d, or https://acme.example.",
		"our host in Markdown":   "[the guide](https://app.acme.example/docs) and **https://acme.example**",
		"our host in brackets":   "<https://app.acme.example>",
		"our host on a port":     "https://app.acme.example:8443/x",
		"our host bare":          "go to app.acme.example/setup.guide, www.acme.example or help.acme.test.",
		"our host in upper case": "HTTPS://APP.ACME.EXAMPLE/x",
		"our email address":      "write to help@acme.example or mailto:help@acme.example",
		"a path":                 "[pricing](/pricing)",
		"a file":                 "open report.csv or invoice.pdf",
		"a version":              "since v1.2.3 and 2.0",
		"a colon":                "Note: the data: all of it. Error:404",
		"slashes":                "and/or, either//or",
		"an ellipsis":            "Wait...then go. Hm … ok",
	} {
		t.Run(name, func(t *testing.T) {
			host, found := weblink.Foreign(text, ours)
			assert.False(t, found, "%s: %s", text, host)
		})
	}
}

func TestForeign_withoutPatterns(t *testing.T) {
	host, found := weblink.Foreign("see https://User@Acme.Example:443/x", nil)
	assert.True(t, found)
	assert.Equal(t, "acme.example", host)
}

// FuzzForeign shows that nothing around a link hides it.
func FuzzForeign(f *testing.F) {
	f.Add("a", "b")
	f.Add("https://acme.example/?x=", "/")
	f.Add("[x](", ")")
	f.Fuzz(func(t *testing.T, before, after string) {
		_, _ = weblink.Foreign(before+after, ours)
		_, found := weblink.Foreign(before+" https://evil.example "+after, ours)
		require.True(t, found, "%q %q", before, after)
		if !strings.ContainsAny(before, "/?#") {
			_, found = weblink.Foreign(before+" evil.example/ "+after, ours)
			require.True(t, found, "%q %q", before, after)
		}
	})
}

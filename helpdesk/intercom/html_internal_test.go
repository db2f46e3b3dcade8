package intercom

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestToHTML_showsTextAsItStands(t *testing.T) {
	assert.Equal(t, "a\tb", toHTML("a\x00\t\x1b\u0080b"))
	assert.Equal(t, `a &lt;b&gt;&amp;amp; "it's"<br><br>c<br>d<br>e`, toHTML("a <b>&amp; \"it's\"\n\nc\r\nd\re"))
}

func TestBodyText_readsHTMLAndPlainText(t *testing.T) {
	for body, text := range map[string]string{
		"":                    "",
		"Yes, show me":        "Yes, show me",
		"1 < 2 > 0 &amp; <b>": "1 < 2 > 0 &amp; <b>", // plain text, which begins with no tag
		"<script>x</script>":  "<script>x</script>",
		"<p>Hello</p>":        "Hello",
		"<p>One</p>\n<p>Two &lt;b&gt; &amp;amp;<br>Three</p>":    "One\n\nTwo <b> &amp;\nThree",
		`<P class="a>b">x</P>`:                                   "x",
		"<p>a<br/>b <a href='https://x.y/?q=\">\"'>link</a></p>": "a\nb link",
		"<ul><li>a</li><li>b</li></ul>":                          "a\nb",
		"<p>unfinished <b":                                       "unfinished",
		"<p>5 < 6</p>":                                           "5 < 6",
		"<p>a<!-- b -->c</p>":                                    "ac",
		"<p>a&nbsp;b</p>":                                        "a\u00a0b",
	} {
		assert.Equal(t, text, bodyText(body), body)
	}
}

func TestShows_isNotDeceivedByMarkup(t *testing.T) {
	text := "session_id: s1\n\n[1] User clicked <b>Save & go</b> &amp; left"
	for _, body := range []string{
		toHTML(text),
		"<p>" + toHTML(text) + "</p>",
		"<p>session_id: s1</p>\n<p>[1] User clicked &lt;b&gt;Save &amp; go&lt;/b&gt;&nbsp;&amp;amp; left</p>",
		text,
		strings.ReplaceAll(text, "\n", " "),
	} {
		assert.True(t, shows(body, text), body)
	}
	for _, body := range []string{"", "<p>This message was deleted</p>", toHTML(text) + "!",
		strings.Replace(text, "s1", "s2", 1)} {
		assert.False(t, shows(body, text), body)
	}
}

func FuzzToHTML(f *testing.F) {
	for _, text := range []string{"", "a\nb", "<p>", "&lt;", "<!--", `<a href="`, "{{x}}", "\u2028\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		html := toHTML(text)
		assert.Zero(t, strings.Count(strings.ReplaceAll(html, "<br>", ""), "<"), "a tag in %q", html)
		assert.True(t, shows(html, text) && shows("<p>"+html+"</p>", text), html)
		bodyText(text)
	})
}

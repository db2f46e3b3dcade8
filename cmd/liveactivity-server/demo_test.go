package main_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// visitor is a visitor of the demo.
type visitor struct{ *browsertest.Tab }

// follow follows a link of the shop to a page.
func (v visitor) follow(page string) {
	link := chromedp.CSS(`#shop a[href="/demo/shop` + page + `"]:not(.logo)`)
	v.Do("follow a link to "+page, chromedp.WaitVisible(link), chromedp.Click(link))
	v.Await("the page is there", `location.pathname === "/demo/shop`+page+`"`)
}

// desk waits until the desk shows so many parts of a kind with a text.
func (v visitor) desk(count int, kind, text string) {
	v.Await(fmt.Sprintf("the desk shows %q %d times", text, count),
		fmt.Sprintf(`[...document.querySelectorAll("#desk .part.%s")].filter((p) => p.innerText.includes(%q)).length === %d`,
			kind, text, count))
}

// console waits until the console shows a text.
func (v visitor) console(text string) {
	v.Await("the console shows "+text, fmt.Sprintf(`document.querySelector("#console").innerText.includes(%q)`, text))
}

// demoPage returns the printed address of the demo.
func demoPage(t *testing.T, p *proctest.Process, url string) string {
	t.Helper()
	page := regexp.MustCompile(`(?m)^  (` + regexp.QuoteMeta(url) +
		`/demo/\?secret=\S+)$`).FindStringSubmatch(p.Stdout.String())
	require.NotNil(t, page, "%s", p.Stdout.String())
	return page[1]
}

func (v visitor) desksTexts(kind string) string { return v.Texts("#desk .part." + kind + " .text") }

// A visitor of the printed address sees every feature at work: a note of the actions before the
// chat, further notes, the summary that replaces them, an offer after going back and
// forth, and replies.
func TestDemo_showsAllOfItWithoutAnyAccount(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, anyPort)
	url := p.URL()
	waittest.Until(t, "it has started", func() bool { return strings.Contains(p.Stdout.String(), "curl ") })
	page := demoPage(t, p, url)
	v := visitor{browsertest.Open(t, browsertest.Start(t))}

	v.Do("open the demo", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(page))
	v.Await("the secret is not shown", `location.search === ""`)
	v.console("User landed on the shop page")
	v.Await("the page is painted", `performance.getEntriesByType("paint").length > 0`) // clicks before that are lost
	visit := func(page, name string) {
		v.follow(page)
		v.console("User landed on the " + name + " page")
	}
	visit("/products/aurora-lamp", "aurora lamp")
	visit("/products/halo-lamp", "halo lamp")
	assert.Equal(t, "page", v.Eval(`document.activeElement.className`), "the keyboard goes on at the new page")

	const markup = `<img src=x onerror="document.title='owned'"> Hi`
	v.Do("write in the chat", chromedp.Click(chromedp.CSS("#chat .bubble")),
		chromedp.SendKeys(chromedp.ID("chat-input"), markup+kb.Enter))
	v.desk(1, "note", "[5] User landed on the halo lamp page")
	note := v.desksTexts("note")
	for _, did := range []string{"User landed on the shop page", "User clicked Aurora desk lamp on the shop page",
		"User landed on the aurora lamp page", "User clicked Halo floor lamp on the aurora lamp page"} {
		assert.Contains(t, note, did)
	}
	v.desk(1, "reply", "User landed on the halo lamp page")
	v.Eval(`(() => { window.read = document.querySelector("#desk .part.reply"); return "" })()`)
	assert.Equal(t, markup, v.desksTexts("message"))
	v.Await("the chat shows the reply", `document.querySelector("#chat .chat-log").innerText.includes("This reply is `+
		`built into the demo")`)
	assert.NotContains(t, v.Texts("#chat .chat-log"), "session_id", "the visitor sees no notes")

	v.Do("close the chat", chromedp.KeyEvent(kb.Escape))
	visit("/cart", "cart")
	v.desk(1, "note", "User landed on the cart page")
	assert.Equal(t, "true", v.Eval(`String(read.isConnected)`), "a part that was read out stays")
	v.follow("")
	visit("/products/ridge-mug", "ridge mug")
	// it waits until the talk is some seconds old
	for v.Eval(`String(document.querySelectorAll("#desk .part.offer").length)`) == "0" {
		v.follow("/products/pour-over")
		v.follow("/products/ridge-mug")
		time.Sleep(500 * time.Millisecond)
	}
	v.desk(1, "offer", "compare them")
	v.Await("the offer is beside the chat", `document.querySelector("#chat .teaser").innerText.includes("compare them")`)

	v.Do("choose an answer", chromedp.Click(chromedp.CSS("#chat .teaser .chip")))
	v.desk(2, "reply", "This reply is built into the demo")
	v.desk(1, "message", "Compare them")
	v.Do("close the chat", chromedp.KeyEvent(kb.Escape))

	v.Await("the desk shows a summary", `document.querySelector("#desk .part.summary")?.innerText.includes("Visited `+
		`shop, aurora lamp, halo lamp, cart")`)
	v.desk(0, "note", "[5] User landed on the halo lamp page")
	assert.Regexp(t, `^\d+ notes were replaced by this summary$`, v.Texts("#desk .replaced"))

	v.follow("/account")
	v.Do("sign in", chromedp.SendKeys(chromedp.CSS(`#shop input[name=email]`), "ada@example.com"+kb.Enter))
	v.Await("the shop knows who it is", `document.querySelector("#shop .page").innerText.includes("Signed in as `+
		`ada@example.com")`)
	v.desk(1, "note", "User submitted the sign in form on the account page")
	assert.NotContains(t, v.Texts("#desk .note"), "ada@example.com", "what is typed is not reported")
	v.Await("every step is done", `document.querySelectorAll("#steps .done").length === 5`)
	v.Do("see what comes next", chromedp.Click(chromedp.CSS("#connect-open.primary")))
	assert.Contains(t, v.Texts("#snippet"), fmt.Sprintf("posthog.init(%q", printed(t, p, "capture token")))
	v.Eval(`navigator.clipboard.writeText = async (text) => { window.copied = text }; ""`)
	v.Do("copy the code", chromedp.Click(chromedp.CSS(`[aria-label="Copy the code"]`)))
	v.Await("it is copied", `window.copied === document.querySelector("#snippet").textContent`)
	v.Do("close it", chromedp.KeyEvent(kb.Escape))

	v.console("ada@example.com")

	v.Do("open the visitor in the console", chromedp.Click(chromedp.CSS("#desk .helpdesk-head button")))
	v.console("User landed on the aurora lamp page")

	v.Do("begin anew", chromedp.Click(chromedp.ID("restart")))
	v.Await("the chat is empty", `document.querySelector("#chat .chat-log").childElementCount === 1`)
	assert.Equal(t, "0", v.Eval(`String(document.querySelectorAll("#shop img[src=x], #chat img, #desk img").length)`))
	for _, width := range []int64{390, 820, 1280} {
		v.Do("look", chromedp.EmulateViewport(width, 800))
		assert.Equal(t, fmt.Sprint(width), v.Eval("String(document.documentElement.scrollWidth)"), "at %d pixels", width)
	}
	assert.Empty(t, v.Complaints())
	assert.Equal(t, "TypeError", v.Eval(`(() => { try { document.body.innerHTML = "<b>x</b>"; return "taken" } catch `+
		`(e) { return e.name } })()`))
	assert.NotContains(t, p.Stderr.String(), "level=ERROR")

	p.Stop()
	p = launch(t, nil, "--addr="+strings.TrimPrefix(url, "http://"))
	p.URL()
	waittest.Until(t, "it has started", func() bool { return strings.Contains(p.Stdout.String(), "curl ") })
	v.Await("the page tells that it has a new address",
		`document.body.innerText.includes("the address that the server printed")`)
	v.Do("open the new address", chromedp.Navigate(demoPage(t, p, url)))
	v.Await("the page reports to the new server",
		fmt.Sprintf(`localStorage.getItem("liveactivity.demo").includes(%q)`, printed(t, p, "capture token")))
	v.console("User landed on the shop page")
}

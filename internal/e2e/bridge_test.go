package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/bridge"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// portal is a bridge with its demo page, and a record of every call.
type portal struct {
	service
	bridge *bridge.Bridge
	down   atomic.Bool // connections break off
}

func startPortal(t *testing.T) *portal {
	b := musttest.New(bridge.New(nil))
	p := &portal{service: service{t: t}, bridge: b}
	handler := p.noting(p.bridge.Handler())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.down.Load() {
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// failures returns the calls that were answered with a failure.
func (p *portal) failures() []call {
	return slices.DeleteFunc(p.calls(), func(c call) bool { return c.status < 400 })
}

// post reports an action as another page might.
func (p *portal) post(body string) {
	response, err := http.Post(p.url+"/demo/actions", "application/json", strings.NewReader(body))
	require.NoError(p.t, err)
	response.Body.Close()
	require.Equal(p.t, http.StatusAccepted, response.StatusCode)
}

// named finds an element by its text or, without one, by its label.
func named(tag, name string) chromedp.Search {
	return chromedp.Search(fmt.Sprintf(`//%s[normalize-space()=%q or @aria-label=%q]`, tag, name, name))
}

// openPortal opens the page and returns the session's ID.
func openPortal(tab *browsertest.Tab, portal *portal) (session string) {
	tab.Do("come to the portal", chromedp.Navigate(portal.url+"/"), chromedp.WaitVisible(named("h1", "Vendors")))
	awaitRecorded(tab, 1)
	return tab.Texts("#session-id")
}

func awaitRecorded(tab *browsertest.Tab, n int) {
	tab.Await(fmt.Sprint(n, " actions are recorded"),
		fmt.Sprintf(`document.querySelector("#recorded").textContent.startsWith("%d action")`, n))
}

// openChat opens the widget and returns its first message.
func openChat(tab *browsertest.Tab) string {
	tab.Do("open the widget", chromedp.Click(named("button", "Open the assistant")))
	tab.Await("the widget speaks", `document.querySelectorAll("#chat-log .bubble.bot p").length > 0`)
	return tab.Texts("#chat-log .bubble.bot > p")
}

func testBridge(t *testing.T, browser context.Context) {
	for name, test := range map[string]func(*testing.T, *portal, *browsertest.Tab){
		"gives the widget the person's actions":          givesTheWidgetThePersonsActions,
		"every view works":                               everyViewWorks,
		"what is reported stays text, by its policy too": whatIsReportedStaysText,
		"the page is kind while the bridge is down":      thePageIsKindWhileTheBridgeIsDown,
		"the page fits its window":                       thePageFitsItsWindow,
	} {
		t.Run(name, func(t *testing.T) { test(t, startPortal(t), browsertest.Open(t, browser)) })
	}
}

func givesTheWidgetThePersonsActions(t *testing.T, portal *portal, tab *browsertest.Tab) {
	session := openPortal(tab, portal)
	tab.Do("open a vendor", chromedp.Click(chromedp.Search(`//a[contains(., "Acme Supplies")]`)),
		chromedp.WaitVisible(named("h1", "Acme Supplies")))
	tab.Do("try to approve it", chromedp.Click(named("button", "Approve vendor")))
	tab.Do("send a reminder", chromedp.Click(named("button", "Send reminder")))
	awaitRecorded(tab, 4)

	assert.Equal(t, "Hi! I can see you visited vendors and Acme Supplies, and clicked Approve vendor and Send reminder. "+
		"Acme Supplies is blocked. Missing documents: W-9 form, insurance certificate.", openChat(tab))
	assert.Equal(t, "W-9 form\nInsurance certificate", tab.Texts("#chat-log .missing li"))

	tab.Do("ask", chromedp.SendKeys(chromedp.ID("chat-input"), "What did I do?"+kb.Enter))
	tab.Await("the widget answers", `document.querySelectorAll("#chat-log ol li").length === 4`)
	assert.Equal(t, "Clicked Send reminder\nClicked Approve vendor\nOpened Acme Supplies\nOpened Vendors",
		tab.Texts("#chat-log ol li"))

	for i, question := range []string{"What is the weather?", "Who is the president?", "Why is the sky blue?",
		"When do I get paid for last year?"} {
		tab.Do("ask what it does not know", chromedp.SendKeys(chromedp.ID("chat-input"), question+kb.Enter))
		tab.Await("the widget answers", fmt.Sprintf(`[...document.querySelectorAll("#chat-log .bubble.bot")].filter((b) => `+
			`b.innerText.includes("I only know")).length === %d`, i+1))
	}

	tab.Do("upload what is missing", chromedp.KeyEvent(kb.Escape),
		chromedp.Click(named("button", "Upload document: W-9 form")),
		chromedp.Click(named("button", "Upload document: insurance certificate")),
		chromedp.Click(named("button", "Approve vendor")))
	awaitRecorded(tab, 7)
	known := portal.bridge.Context(session)
	require.NotNil(t, known.Vendor)
	assert.Equal(t, bridge.Vendor{ID: "acme-supplies", Name: "Acme Supplies", Status: bridge.Approved,
		MissingDocuments: []string{}}, *known.Vendor)
	assert.Equal(t, portal.url+"/#/vendors/acme-supplies", known.Actions[6].RawURL)
	assert.Empty(t, tab.Complaints())
	assert.Empty(t, portal.failures())
}

func everyViewWorks(t *testing.T, portal *portal, tab *browsertest.Tab) {
	session := openPortal(tab, portal)
	tab.Do("see what is missing", chromedp.Click(named("a", "Documents")),
		chromedp.WaitVisible(named("h1", "Missing documents")),
		chromedp.Click(named("button", "Request document: safety record from Borealis Logistics")))
	tab.Do("write a note", chromedp.Click(named("a", "Borealis Logistics")),
		chromedp.WaitVisible(named("h1", "Borealis Logistics")),
		chromedp.SendKeys(chromedp.ID("note"), "secret words"), chromedp.Click(named("button", "Add note")))
	awaitRecorded(tab, 5)
	tab.Do("see the activity", chromedp.Click(named("a", "Activity")), chromedp.WaitVisible(chromedp.CSS(".timeline li")))
	assert.Contains(t, tab.Texts(".timeline li b"), "Submit internal note form")
	assert.NotContains(t, fmt.Sprint(portal.bridge.Context(session)), "secret", "what is typed stays in the page")

	tab.Do("come again", chromedp.Reload(), chromedp.WaitVisible(chromedp.CSS(".timeline li")))
	assert.Equal(t, session, tab.Texts("#session-id"), "the session is that of the tab")
	tab.Do("begin anew", chromedp.Click(named("button", "New session")), chromedp.WaitVisible(named("h1", "Vendors")))
	awaitRecorded(tab, 1)
	assert.NotEqual(t, session, tab.Texts("#session-id"))
	assert.Equal(t, "Hi! I can see you visited vendors.", openChat(tab))
	tab.Do("close the widget", chromedp.KeyEvent(kb.Escape))
	assert.Equal(t, "chat-toggle false", tab.Eval(`document.activeElement.id + " " + `+
		`document.activeElement.getAttribute("aria-expanded")`))
	assert.Empty(t, tab.Complaints())
	assert.Empty(t, portal.failures())
}

func whatIsReportedStaysText(t *testing.T, portal *portal, tab *browsertest.Tab) {
	const markup = `<img src=x onerror="document.title='owned'">`
	session := openPortal(tab, portal)
	quoted := fmt.Sprintf("%q", markup)
	portal.post(`{"session_id":"` + session + `","title":` + quoted + `,"description":` + quoted + `,
		"vendor":{"id":"7","name":` + quoted + `,"status":"blocked","missing_documents":[` + quoted + `]}}`)

	assert.Equal(t, "Hi! I can see you visited vendors and clicked "+markup+". "+markup+" is blocked. "+
		"Missing documents: "+markup+".", openChat(tab))
	assert.Equal(t, markup, tab.Texts("#chat-log .missing li"))
	tab.Do("ask", chromedp.Click(named("button", "What did I do?")))
	tab.Await("the widget answers", `document.querySelectorAll("#chat-log ol li").length === 2`)
	tab.Do("ask with markup", chromedp.SendKeys(chromedp.ID("chat-input"), markup+kb.Enter))
	tab.Await("the widget answers", `document.querySelectorAll("#chat-log .bubble.you").length === 2`)
	tab.Do("see the activity", chromedp.KeyEvent(kb.Escape), chromedp.Click(named("a", "Activity")),
		chromedp.WaitVisible(chromedp.CSS(".timeline li")))
	assert.Contains(t, tab.Texts(".timeline li small"), markup)
	assert.Equal(t, "0", tab.Eval(`String(document.querySelectorAll("main img, #chat img").length)`))
	assert.Equal(t, "Activity · Procurement portal", tab.Eval("document.title"))
	assert.Empty(t, tab.Complaints())
	assert.Equal(t, "TypeError", tab.Eval(`(() => { try { document.body.innerHTML = "<b>x</b>"; return "taken" } catch `+
		`(e) { return e.name } })()`))
}

func thePageIsKindWhileTheBridgeIsDown(t *testing.T, portal *portal, tab *browsertest.Tab) {
	session := openPortal(tab, portal)
	portal.down.Store(true)
	tab.Do("open a vendor", chromedp.Click(chromedp.Search(`//a[contains(., "Delta Print")]`)),
		chromedp.WaitVisible(named("h1", "Delta Print")), chromedp.WaitVisible(chromedp.ID("banner")))
	assert.Contains(t, tab.Texts("#banner-text"), "cannot reach its server just now")
	tab.Do("open the widget", chromedp.Click(named("button", "Open the assistant")))
	tab.Await("the widget is sorry", `document.querySelector("#chat-log").innerText.includes("cannot reach the bridge `+
		`just now")`)

	portal.down.Store(false)
	tab.Do("try again", chromedp.Click(chromedp.Search(`//div[@id="chat-log"]//button[.="Try again"]`)))
	tab.Await("the widget speaks", `document.querySelector("#chat-log").innerText.includes("you visited vendors and `+
		`Delta Print")`)
	tab.Await("the page is content", `document.querySelector("#banner").hidden`)
	assert.Len(t, portal.bridge.Context(session).Actions, 2, "what was done meanwhile was sent, once")
}

func thePageFitsItsWindow(t *testing.T, portal *portal, tab *browsertest.Tab) {
	openPortal(tab, portal)
	for _, width := range []int64{390, 820, 1280} {
		for _, view := range []string{"vendors", "vendors/acme-supplies", "documents", "activity"} {
			tab.Do("look", chromedp.EmulateViewport(width, 800), chromedp.Navigate(portal.url+"/#/"+view),
				chromedp.WaitVisible(chromedp.CSS("h1")))
			assert.Equal(t, fmt.Sprint(width), tab.Eval("String(document.documentElement.scrollWidth)"), "%s at %d pixels",
				view, width)
		}
	}
	assert.Empty(t, tab.Complaints())
}

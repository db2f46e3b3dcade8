package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// The subtests share one browser.
func TestConsole(t *testing.T) {
	browser := browsertest.Start(t)
	t.Run("stays responsive with 10,000 sessions", func(t *testing.T) { staysResponsive(t, browser) })
	for name, test := range map[string]func(*testing.T, context.Context){
		"follows what is done within a second":               followsWithinASecond,
		"tells times by the service's clock":                 tellsTimesByTheServicesClock,
		"leaves markup text":                                 leavesMarkupText,
		"goes on after the last event it was sent":           resumes,
		"reads the list anew after a gap":                    readsAnewAfterAGap,
		"finds nobody who was erased":                        findsNobodyWhoWasErased,
		"tells the people of a session apart":                tellsPeopleOfASessionApart,
		"says what is wrong with a key":                      saysWhatIsWrongWithAKey,
		"reads the list again and again without the stream":  pollsWithoutTheStream,
		"keeps its place in the list that it reads again":    keepsItsPlace,
		"asks for the same one at a time":                    asksOneAtATime,
		"asks again where no answer comes":                   asksAgain,
		"waits for a server that is not ready":               waitsForAServer,
		"keeps its view in the fragment, and the key out":    keepsItsViewInTheFragment,
		"is used by keyboard":                                isUsedByKeyboard,
		"holds the order while one chooses":                  holdsTheOrder,
		"searches on where one search ends":                  searchesOn,
		"searches until there is an answer":                  searchesUntilAnswered,
		"searches for nothing once the search is left":       searchesNoMore,
		"shows what the agent sees":                          showsWhatTheAgentSees,
		"shows the flow":                                     showsTheFlow,
		"drops sessions that have expired, and shows states": refreshes,
		"is mounted in another page":                         isMounted,
		"names pages as the service does":                    namesPages,
		"renders notes without their markup":                 rendersNotes,
		"reads events however the stream is cut":             readsFrames,
		"leaves out an answer that a later one overtook":     leavesOutOvertakenAnswers,
		"fits its window and has a name for every control":   fitsItsWindow,
		"stays quiet where motion is not wanted":             staysQuiet,
		"shows its list in a low window":                     showsItsListInALowWindow,
		"shows the chosen filter in forced colors":           showsTheFilterInForcedColors,
		"reads out why there is no list":                     readsOutErrors,
		"leaves the focus in what a person's actions change": leavesTheFocus,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			test(t, browser)
		})
	}
}

// serveFake serves a fake until the test ends.
func serveFake(t *testing.T, f *fake) (url string) { return serve(t, f, f.handler()) }

// serve serves a fake behind a handler until the test ends.
func serve(t *testing.T, f *fake, handler http.Handler) (url string) {
	t.Helper()
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		f.drop()
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// open opens the console with a key that the tab has already.
func open(t *testing.T, browser context.Context, url, fragment, key string) *browsertest.Tab {
	t.Helper()
	tab := browsertest.Open(t, browser)
	storeKey := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: fmt.Sprintf(`if (location.protocol === "http:") sessionStorage.setItem("liveactivity.console.key", %q)`,
				key)})
		return err
	})
	tab.Do("open the console", storeKey, chromedp.EmulateViewport(1280, 800), chromedp.Navigate(url+"/"+fragment),
		chromedp.WaitVisible(chromedp.CSS(".la")))
	return tab
}

// rows selects the rows of the sessions in sight, a line each.
const rows = `.view:not([hidden]) .list-space .row`

func awaitRows(tab *browsertest.Tab, what string, texts ...string) {
	condition := fmt.Sprintf(`(() => { const shown = [...document.querySelectorAll(%q)].map((row) => `+
		`row.innerText).join("\n"); return `, rows)
	for _, text := range texts {
		condition += fmt.Sprintf("shown.includes(%q) && ", text)
	}
	tab.Await(what, condition+"true })()")
}

func awaitText(tab *browsertest.Tab, text string) {
	tab.Await(text, fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
}

func awaitLive(tab *browsertest.Tab) {
	tab.Await("the stream is open", `document.querySelector(".la")?.dataset.state === "live"`)
}

// evalAsync returns the value of a JavaScript expression that is a promise.
func evalAsync[T any](tab *browsertest.Tab, t *testing.T, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab.Context(), browsertest.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(t, err, expression)
	return value
}

func resumes(t *testing.T, browser context.Context) {
	f := newFake()
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	awaitLive(tab)
	f.act("s1", "u1", "ada@example.com", "User clicked Save", "https://app.example.com/plan", 0)
	awaitRows(tab, "the first action shows", "ada@example.com", "User clicked Save", "Plan")
	f.drop()
	tab.Await("the stream is away", `document.querySelector(".la").dataset.state === "away" && `+
		`document.querySelector(".status").innerText === "Reconnecting"`)
	assert.Contains(t, tab.Texts(rows), "ada@example.com", "what was there stays")
	awaitLive(tab)
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Equal(t, []string{"", "1"}, f.lastIDs)
	for _, r := range f.requests {
		assert.NotContains(t, r.URL.String(), fakeKey)
		assert.Empty(t, r.Referer())
		assert.Empty(t, r.Header.Get("Cookie"))
	}
}

func readsAnewAfterAGap(t *testing.T, browser context.Context) {
	const more = 250 // more than a page of the list
	f := newFake()
	f.rows = sessions(more, "gone%d", "gone%d@example.com")
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	awaitRows(tab, "the list shows", "gone0@example.com")
	awaitLive(tab)
	count := func(n int) string {
		return fmt.Sprintf(`document.querySelector(".now [role=grid]").getAttribute("aria-rowcount") === "%d"`, n+1)
	}
	tab.Await("all is read", `(() => { const list = document.querySelector(".now .list-scroll"); list.scrollTop = `+
		`list.scrollHeight; return `+count(more)+` })()`)
	tab.Eval(`document.querySelector(".now .list-scroll").scrollTop = 0; ""`)
	f.mu.Lock()
	f.rows = sessions(more, "new%d", "new%d@example.com")
	f.mu.Unlock()
	f.send("gap", `{"requested":"x","oldest":"y"}`)
	awaitRows(tab, "the list is read anew", "new0@example.com")
	tab.Await("nothing of before is left", count(200))
}

func tellsTimesByTheServicesClock(t *testing.T, browser context.Context) {
	f := newFake()
	people(f)
	f.rows = append(f.rows, row("s1", "", "ida@example.com", "", "https://app.example.com/", time.Hour, time.Hour))
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	for _, hours := range []int{2, -2} {
		shift := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
				Source: fmt.Sprintf(`{ const now = performance.timeOrigin + %d * 3600e3; `+
					`Date.now = () => now + performance.now(); }`, hours)})
			return err
		})
		tab.Do("put the browser's clock wrong", shift, chromedp.Reload())
		tab.Await("the count is right", `document.querySelector(".now .lead")?.innerText === `+
			`"3 people active in the last 5 minutes"`)
		tab.Await("the rows are right", `[...document.querySelectorAll(".now .list-space .row")].map((row) => `+
			`row.dataset.presence === "gone").join() === "false,false,false,true"`)
	}
}

func findsNobodyWhoWasErased(t *testing.T, browser context.Context) {
	f := newFake()
	f.rows = sessions(2, "s%d", "ada%d@example.com")
	tab := open(t, browser, serveFake(t, f), "#/search?q=ada", fakeKey)
	awaitRows(tab, "the search shows", "ada0@example.com", "ada1@example.com")
	awaitLive(tab)
	f.mu.Lock()
	f.rows = f.rows[1:]
	f.mu.Unlock()
	f.send("erase", `{"product_id":"acme","user_id":"u0","session_ids":["s0"]}`)
	tab.Await("one is left", fmt.Sprintf(`document.querySelectorAll(%q).length === 1`, rows))
}

// The search is not read again, so what the stream says stays.
func tellsPeopleOfASessionApart(t *testing.T, browser context.Context) {
	f := newFake()
	f.rows = sessions(1, "s%d", "ada%d@example.com")
	tab := open(t, browser, serveFake(t, f), "#/search?q=ada", fakeKey)
	awaitRows(tab, "the search shows", "ada0@example.com")
	awaitLive(tab)
	f.act("s0", "max", "", "User clicked Save on the home page", "https://app.example.com/", 1)
	awaitRows(tab, "another person acts", "User clicked Save", "max")
	assert.NotContains(t, tab.Texts(rows), "ada0@example.com")
}

func saysWhatIsWrongWithAKey(t *testing.T, browser context.Context) {
	f := newFake()
	url := serveFake(t, f)
	tab := browsertest.Open(t, browser)
	tab.Do("open the console", chromedp.Navigate(url), chromedp.WaitVisible(chromedp.ID("la-key")),
		chromedp.SendKeys(chromedp.ID("la-key"), "lak_wrong"+kb.Enter))
	awaitText(tab, "The server does not know this key.")
	assert.Equal(t, "la-key true 0", tab.Eval(`[document.activeElement.id, `+
		`document.activeElement.getAttribute("aria-invalid"), sessionStorage.length].join(" ")`))

	tab.Do("enter what no header can carry", chromedp.SendKeys(chromedp.ID("la-key"), "schlüssel ☃"+kb.Enter))
	tab.Await("the page asks again", `document.querySelector("#la-key").value === "" && `+
		`document.body.innerText.includes("does not know this key")`)

	f.answer(http.StatusForbidden)
	tab.Do("try a key that opens something else", chromedp.SendKeys(chromedp.ID("la-key"), fakeKey+kb.Enter))
	awaitText(tab, "This key does not open that. Refused by the test.")

	f.answer(0)
	tab.Do("enter the right one", chromedp.SendKeys(chromedp.ID("la-key"), fakeKey+kb.Enter))
	awaitText(tab, "Nobody is there yet.")
	awaitLive(tab)
	assert.Equal(t, url+"/ "+fakeKey+" Now · acme · liveactivity 0",
		tab.Eval(`[location.href, sessionStorage.getItem("liveactivity.console.key"), document.title, `+
			`localStorage.length].join(" ")`))

	f.answer(http.StatusUnauthorized) // the key is rotated
	f.drop()
	awaitText(tab, "The server does not know this key.")
	assert.Equal(t, "0", tab.Eval(`String(sessionStorage.length)`))
}

// A search begins a moment after the last keystroke.
func searchesNoMore(t *testing.T, browser context.Context) {
	f := newFake()
	tab := open(t, browser, serveFake(t, f), "#/search", fakeKey)
	tab.Await("the search shows", `document.querySelector(".search input") !== null && `+
		`!document.querySelector(".search").hidden`)
	tab.Eval(`(() => {
		const input = document.querySelector(".search input");
		input.value = "ada";
		input.dispatchEvent(new Event("input"));
		window.left = performance.now();
		location.hash = "#/flow";
		return "" })()`)
	tab.Await("it would have begun", `performance.now() - left > 500`)
	assert.Equal(t, "#/flow Flow · acme · liveactivity", tab.Eval(`location.hash + " " + document.title`))
}

// The connection of the first question was lost, unnoticed by either end.
func asksAgain(t *testing.T, browser context.Context) {
	f := newFake()
	f.rows = append(f.rows, row("s1", "", "ada@example.com", "", "https://app.example.com/", time.Hour, time.Second))
	handler := f.handler()
	var isAsked atomic.Bool
	tab := open(t, browser, serve(t, f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sessions/acme" && !isAsked.Swap(true) {
			<-r.Context().Done()
			return
		}
		handler.ServeHTTP(w, r)
	})), "", fakeKey)
	awaitText(tab, "The server cannot be reached.")
	awaitRows(tab, "the next question is answered", "ada@example.com")
}

// withoutStream returns the handler of a fake whose key does not open the stream.
func withoutStream(f *fake) http.Handler {
	handler := f.handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/stream/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// opening returns the handler of a fake that opens no stream before the channel is closed.
func opening(f *fake, open <-chan struct{}) http.Handler {
	handler := f.handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/stream/") {
			select {
			case <-open:
			case <-r.Context().Done():
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// No list jumps or is empty for a moment: not if it is polled, nor if it is read again, after a gap
// or because the stream opens late.
func keepsItsPlace(t *testing.T, browser context.Context) {
	late := make(chan struct{})
	for name, tt := range map[string]struct {
		handler    func(*fake) http.Handler
		people, at int // at so many pixels
		then       func(*fake)
	}{
		"polled":      {withoutStream, 350, 15000, func(*fake) {}}, // on the second page
		"after a gap": {(*fake).handler, 150, 3000, func(f *fake) { f.send("gap", `{"requested":"x","oldest":"y"}`) }},
		"opened late": {func(f *fake) http.Handler { return opening(f, late) }, 350, 15000, func(*fake) { close(late) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.rows = sessions(tt.people, "s%d", "p%d@example.com")
			tab := open(t, browser, serve(t, f, tt.handler(f)), "", fakeKey)
			awaitRows(tab, name, "p0@example.com")
			tab.Await("the place is reached", fmt.Sprintf(`(() => { const list = document.querySelector(".now .list-scroll"); `+
				`list.scrollTop = %d; return list.scrollTop === %[1]d })()`, tt.at))
			tab.Eval(`(() => {
				const list = document.querySelector(".now .list-scroll");
				const at = list.scrollTop;
				window.shown = [];
				const watch = setInterval(() => {
					if (list.scrollTop !== at) { shown.push(list.scrollTop); clearInterval(watch) }
				}, 5);
				new MutationObserver(() => { if (document.querySelector(".now .list").hidden) shown.push("nobody") })
					.observe(document.querySelector(".now"), {attributes: true, subtree: true});
				return "" })()`)
			lists := func() (n int) {
				f.mu.Lock()
				defer f.mu.Unlock()
				for _, r := range f.requests {
					if strings.HasPrefix(r.URL.Path, "/sessions/") {
						n++
					}
				}
				return n
			}
			before := lists()
			tt.then(f)
			waittest.Until(t, "it is read again", func() bool { return lists() > before+4 })
			assert.Empty(t, tab.Eval(`shown.join(" ")`), name)
			awaitRows(tab, name, fmt.Sprintf("p%d@example.com", tt.at/60+5))
		})
	}
}

// The page waits for a slow answer. A later one could overtake it, and more would pile up.
func asksOneAtATime(t *testing.T, browser context.Context) {
	f := newFake()
	f.rows = append(f.rows, row("s1", "", "ada@example.com", "", "https://app.example.com/", time.Hour, time.Second))
	f.details["s1"] = visit(f.rows[0])
	handler := f.handler()
	var mu sync.Mutex
	asking, most, asked := map[string]int{}, map[string]int{}, map[string]int{}
	count := func(path string, n int) {
		mu.Lock()
		defer mu.Unlock()
		asking[path] += n
		asked[path] += max(n, 0)
		most[path] = max(most[path], asking[path])
	}
	url := serve(t, f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/sessions/") {
			count(r.URL.Path, 1)
			defer count(r.URL.Path, -1)
			time.Sleep(2500 * time.Millisecond) // longer than until the next question
		}
		handler.ServeHTTP(w, r)
	}))
	for _, at := range [][2]string{{"#/person/s1", "/sessions/acme/s1"}, {"", "/sessions/acme"}} {
		tab := open(t, browser, url, at[0], fakeKey)
		awaitLive(tab)
		waittest.Until(t, "it is asked for again and again", func() bool {
			f.act("s1", "", "ada@example.com", "User clicked Save", "https://app.example.com/", 0)
			mu.Lock()
			defer mu.Unlock()
			assert.LessOrEqual(t, most[at[1]], 1, at[1])
			return asked[at[1]] > 2 || t.Failed()
		})
		tab.Do("leave", chromedp.Navigate("about:blank"))
	}
}

func pollsWithoutTheStream(t *testing.T, browser context.Context) {
	f := newFake()
	tab := open(t, browser, serve(t, f, withoutStream(f)), "", fakeKey)
	awaitText(tab, "Every 5 s")
	awaitText(tab, "Nobody is there yet.")
	f.act("s1", "", "ada@example.com", "User clicked Save", "https://app.example.com/plan", 0)
	awaitRows(tab, "the action shows", "ada@example.com", "User clicked Save")
}

func waitsForAServer(t *testing.T, browser context.Context) {
	f := newFake()
	f.answer(http.StatusServiceUnavailable)
	tab := open(t, browser, serveFake(t, f), "#/flow", fakeKey)
	awaitText(tab, "The server is not ready yet.")
	f.flow = figures()
	f.answer(0)
	awaitText(tab, "Written to the desk")
	awaitLive(tab)
	f.answer(http.StatusServiceUnavailable)
	f.drop()
	tab.Await("the page says so", `document.querySelector(".status").innerText === "The server is not ready" && `+
		`document.querySelector(".flow .note").innerText.includes("not ready yet")`)
	f.answer(0)
	awaitLive(tab)
	tab.Await("the note goes", `document.querySelector(".flow .note").hidden`)
}

func keepsItsViewInTheFragment(t *testing.T, browser context.Context) {
	const odd = `a/b%2F?q#"<é>`
	f := newFake()
	f.rows = append(f.rows, row("s1", "u1", "ada@example.com", "", "https://app.example.com/checkout",
		time.Minute, time.Second),
		row("s2", "01a20428-e7ca-7ba7-a0c8-1838b4dd0057", "", "", "https://app.example.com/checkout", time.Minute,
			2*time.Second), row(odd, "u3", "", "", "https://app.example.com/pricing", time.Minute, 3*time.Second))
	f.details[odd] = visit(f.rows[2])
	base := serveFake(t, f)
	tab := open(t, browser, base, "", fakeKey)
	awaitRows(tab, "all show", "ada@example.com", "Visitor", "u3")
	tab.Do("choose", chromedp.Click(chromedp.Search(`//button[.="Identified"]`)),
		chromedp.SendKeys(chromedp.CSS(".now input"), "check"))
	tab.Await("one is left", fmt.Sprintf(`document.querySelectorAll(%q).length === 1`, rows))
	const fragment = "#/now?who=identified&page=check"
	tab.Await("the fragment is that view", fmt.Sprintf(`location.hash === %q`, fragment))

	colleague := open(t, browser, base, fragment, fakeKey)
	colleague.Await("the colleague sees the same", fmt.Sprintf(`document.querySelectorAll(%q).length === 1`, rows))
	assert.Equal(t, "true check", colleague.Eval(`document.querySelector(".choice `+
		`button:nth-child(2)").getAttribute("aria-pressed") + " " + document.querySelector(".now input").value`))
	colleague.Do("go to a person whose id is odd", chromedp.Navigate(base+"/#/person/"+url.PathEscape(odd)))
	awaitText(colleague, "What the agent sees")
	assert.Equal(t, "u3", colleague.Texts("h1:not([id])"))
	colleague.Do("go back", chromedp.NavigateBack())
	colleague.Await("the list shows", `!document.querySelector(".now").hidden`)
	colleague.Do("search", chromedp.Click(chromedp.Search(`//nav/a[.="Search"]`)),
		chromedp.SendKeys(chromedp.CSS(".search input"), "ADA@"))
	awaitRows(colleague, "ada is found", "ada@example.com")
	colleague.Await("the fragment is the search", `location.hash === "#/search?q=ADA%40"`)
	colleague.Await("the title is the search", `document.title === "Search · acme · liveactivity"`)
	for _, nonsense := range []string{"#/person/%", "#/nothing", "#", "#/now?who=nobody&x=%", "#/person/"} {
		colleague.Do("go astray", chromedp.Navigate(base+"/"+nonsense))
		colleague.Await(nonsense, `!document.querySelector(".now").hidden`)
	}
	assert.Empty(t, colleague.Complaints())
}

// focused describes the element with the focus in a word or two.
const focused = `(document.activeElement.id || document.activeElement.innerText || ` +
	`document.activeElement.localName).split("\n")[0]`

func isUsedByKeyboard(t *testing.T, browser context.Context) {
	f := newFake()
	f.rows = sessions(300, "s%03d", "p%03d@example.com")
	f.details["s001"] = visit(f.rows[1])
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	awaitRows(tab, "the list shows", "p000@example.com")
	press := func(want string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			tab.Do(key, chromedp.KeyEvent(key))
		}
		tab.Await(fmt.Sprintf("%q brings the focus to %s", keys, want), fmt.Sprintf("%s === %q", focused, want))
	}
	// The list is one stop of Tab, and the last, once the page is complete.
	awaitLive(tab)
	tab.Await("a row can be reached", `document.querySelectorAll("[role=row][tabindex='0']").length === 1`)
	press("p000@example.com", strings.Split(strings.Repeat(kb.Tab, 9), "")...)
	assert.Equal(t, "2", tab.Eval(`getComputedStyle(document.activeElement).outlineWidth.replace("px", "")`),
		"the focus is seen")
	press("p001@example.com", kb.ArrowDown)
	press("p000@example.com", kb.ArrowUp, kb.ArrowUp)
	press("p199@example.com", kb.End) // the end of the part read; more follows
	tab.Await("more is read", `document.querySelector(".now [role=grid]").getAttribute("aria-rowcount") === "301"`)
	press("p299@example.com", kb.End)
	press("p000@example.com", kb.Home)
	press("p001@example.com", kb.ArrowDown)
	tab.Do("open", chromedp.KeyEvent(kb.Enter))
	tab.Await("the person shows", `location.hash === "#/person/s001" && document.activeElement.localName === "h1"`)
	press("p001@example.com", kb.Escape)
	press("la-now", kb.Escape)
	tab.Do("search", chromedp.KeyEvent("/"))
	tab.Await("the search has the focus", `document.activeElement === document.querySelector(".search input")`)
	// DevTools types the slash, too, although the page has prevented that.
	tab.Do("find", chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("p29"), chromedp.KeyEvent(kb.Enter))
	awaitRows(tab, "some are found", "p290@example.com", "p299@example.com")
	tab.Do("clear", chromedp.KeyEvent(kb.Escape))
	awaitText(tab, "Whom are you looking for?")
	assert.Equal(t, "0", tab.Eval(`String(document.querySelectorAll("[role=row][tabindex='0']").length - `+
		`document.querySelectorAll("[role=grid]").length + 1)`), "one row of each list is reached by Tab")
	assert.Empty(t, tab.Complaints())
}

func holdsTheOrder(t *testing.T, browser context.Context) {
	f := newFake()
	f.rows = sessions(100, "s%d", "p%d@example.com")
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	awaitRows(tab, "the list shows", "p0@example.com")
	awaitLive(tab)
	first := `document.querySelector('.now [aria-rowindex="2"] a')?.innerText`
	tab.Do("choose a row", chromedp.Focus(chromedp.CSS(`.now [aria-rowindex="3"]`)))
	f.act("s0", "", "p0@example.com", "User clicked Save", "https://app.example.com/", 9)
	f.act("s50", "", "p50@example.com", "User clicked Help", "https://app.example.com/", 9)
	tab.Await("the page says that there is more",
		`document.querySelector(".newer").offsetHeight > 0 && document.querySelector(".newer").innerText === "2 newer"`)
	awaitRows(tab, "a row in sight changes where it is", "User clicked Save")
	assert.Equal(t, "p0@example.com", tab.Eval(first))
	tab.Do("see the newer ones", chromedp.Click(chromedp.CSS(".newer")), chromedp.MouseEvent("mouseMoved", 5, 5))
	tab.Await("the newest comes first", first+` === "p50@example.com"`)
	f.act("s70", "", "p70@example.com", "User clicked Help", "https://app.example.com/", 9)
	tab.Await("the list follows again", first+` === "p70@example.com" && document.querySelector(".newer").hidden`)

	tab.Eval(`String(setInterval(() => document.querySelector(".now .list-scroll").dispatchEvent(new ` +
		`PointerEvent("pointermove", { pointerType: "mouse" })), 100))`)
	tab.Do("filter while the pointer holds the order", chromedp.SendKeys(chromedp.CSS(".now input"), "nowhere"))
	tab.Await("the filter applies", `document.querySelector(".now .note").innerText.includes("Nobody here fits the `+
		`filter")`)
}

func searchesOn(t *testing.T, browser context.Context) {
	f := newFake()
	for i := range 10_050 {
		f.rows = append(f.rows, row(fmt.Sprint("s", i), fmt.Sprint("u", i), "", "", "https://app.example.com/", time.Hour,
			time.Duration(i)*time.Millisecond))
	}
	f.rows[10_020]["email"] = "Zoe@Example.com"
	tab := open(t, browser, serveFake(t, f), "#/search?q=zoe", fakeKey)
	awaitText(tab, "Not among the sessions searched so far.")
	tab.Do("search on", chromedp.Click(chromedp.Search(`//button[.="Search further back"]`)))
	awaitRows(tab, "zoe is found", "Zoe@Example.com")
	assert.Equal(t, "1 session", tab.Texts(".search .lead"))
	tab.Eval(`document.querySelector(".search input").value = ""; ""`)
	tab.Do("search for nobody", chromedp.SendKeys(chromedp.CSS(".search input"), "<b>x"))
	awaitText(tab, "Not among the sessions searched so far.")
	tab.Do("search on", chromedp.Click(chromedp.Search(`//button[.="Search further back"]`)))
	awaitText(tab, "Nobody begins with “<b>x”.")
	f.answer(http.StatusInternalServerError)
	tab.Do("search while the server fails", chromedp.SendKeys(chromedp.CSS(".search input"), "y"))
	awaitText(tab, "The server could not answer.")
}

func searchesUntilAnswered(t *testing.T, browser context.Context) {
	f := newFake()
	f.rows = sessions(1, "s%d", "p%d@example.com")
	handler, answer := f.handler(), make(chan struct{})
	tab := open(t, browser, serve(t, f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("q") {
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		handler.ServeHTTP(w, r)
	})), "#/search", fakeKey)
	awaitLive(tab)
	f.answer(http.StatusServiceUnavailable)
	tab.Do("search", chromedp.SendKeys(chromedp.CSS(".search input"), "p0"))
	awaitText(tab, "Searching…")
	assert.Empty(t, tab.Texts(".search .lead"), "a number before the answer")
	close(answer)
	awaitText(tab, "The server is not ready yet.")
	assert.Empty(t, tab.Texts(".search .lead"), "a number without an answer")
	f.answer(0)
	awaitRows(tab, "the search is repeated", "p0@example.com")
	assert.Equal(t, "1 session", tab.Texts(".search .lead"))
}

func showsWhatTheAgentSees(t *testing.T, browser context.Context) {
	f := newFake()
	people(f)
	tab := open(t, browser, serveFake(t, f), "#/person/0198c2f4-7a11", fakeKey)
	awaitText(tab, "What the agent sees")
	assert.Equal(t, "Billing history\nPricing\nBilling history\nProjects detail\nDashboard", tab.Texts(".pages h3"))
	assert.Equal(t, "Conversation #215468 ↗", tab.Texts(".desk a"))
	assert.Equal(t, "https://app.intercom.com/a/apps/x/conversations/215468 noopener noreferrer _blank",
		tab.Eval(`(({href, rel, target}) => [href, rel, target].join(" "))(document.querySelector(".desk a"))`))

	// The page changes only the white space of the tool's answer, and the copied text not at all.
	tab.Eval(`copied = []; navigator.clipboard.writeText = async (text) => { copied.push(text) }; ""`)
	tab.Do("copy", chromedp.Click(chromedp.CSS(`[aria-label="Copy get_live_user_activity"]`)),
		chromedp.Click(chromedp.CSS(`[aria-label="Copy Note in Intercom"]`)),
		chromedp.Click(chromedp.Search(`//button[.="HTML"]`)),
		chromedp.Click(chromedp.CSS(`[aria-label="Copy Note in Intercom"]`)))
	tab.Await("all is copied", `copied.length === 3`)
	answer := evalAsync[string](tab, t, fmt.Sprintf(`fetch("mcp", {method: "POST", headers: {Authorization: "Bearer `+
		`%s"}, body: JSON.stringify({params: {arguments: {user_id: "user_42"}}})}).then((r) => r.json()).then((r) => `+
		`r.result.content[0].text)`, fakeKey))
	assert.Equal(t, answer, tab.Eval("copied[0]"))
	shown := tab.Eval(`document.querySelector(".agent pre").textContent`)
	assert.JSONEq(t, answer, shown)
	assert.Equal(t, strings.Join(strings.Fields(answer), ""), strings.Join(strings.Fields(shown), ""))
	note := f.details["0198c2f4-7a11"]["notes"].([]any)[0].(map[string]any)
	assert.Equal(t, note["text"], tab.Eval("copied[1]"))
	assert.Equal(t, note["html"], tab.Eval("copied[2]"))
	assert.Equal(t, note["html"], tab.Eval(`document.querySelector(".agent pre.plain").textContent`))

	f.mu.Lock() // they go on
	recent := f.details["0198c2f4-7a11"]["recent"].([]activity.Action)
	next := activity.NewAction(activity.TypeClick, activity.Target{Label: "Contact us"}, "https://app.example.com/help")
	next.TimestampStart = recent[len(recent)-1].TimestampStart + 1
	f.details["0198c2f4-7a11"]["recent"] = append(recent, next)
	f.mu.Unlock()
	act := func(index int) {
		f.act("0198c2f4-7a11", "user_42", "ada.lovelace@example.com", "User clicked Contact us on the help page",
			"https://app.example.com/help", index)
	}
	act(12)
	tab.Await("the timeline follows", `document.querySelector(".pages h3").innerText === "Help"`)

	assert.Equal(t, "0", tab.Eval(`String(document.querySelectorAll(".shares, .counts:not(:empty)").length)`),
		"the session has one person, who has no other")
	f.mu.Lock() // nor had, until now
	f.rows = append(f.rows, row("before", "user_42", "", "", "https://app.example.com/", time.Hour, time.Hour))
	f.details["before"] = map[string]any{"session": f.rows[len(f.rows)-1], "recent": recent[:3]}
	f.mu.Unlock()
	act(12)
	tab.Await("the counts are explained", `!!document.querySelector(".counts:not(:empty)")`)
	assert.Equal(t, fmt.Sprintf("%d actions in 2 sessions; %d of them in this one.", len(recent)+4, len(recent)+1),
		tab.Texts(".counts"))
	f.mu.Lock() // the other session has another action, and as many as before
	other := slices.Clone(recent[:3])
	other[2].Title = "Click Elsewhere"
	f.details["before"]["recent"] = other
	f.mu.Unlock()
	tab.Await("the answer of the tool follows",
		`document.querySelector(".agent pre").textContent.includes("Click Elsewhere")`)

	f.mu.Lock() // another person sat here before
	by := make([]string, len(recent)+1)
	for i := range by {
		by[i] = []string{"user_42", "user_7"}[min(1, max(0, 2-i))]
	}
	f.details["0198c2f4-7a11"]["by"] = by
	f.mu.Unlock()
	act(13)
	tab.Await("whose they are", `!!document.querySelector(".shares")`)
	assert.Contains(t, tab.Texts(".shares"),
		fmt.Sprintf("%d actions in this session: 2 by user_7, %d by ada.lovelace@example.com.", len(by), len(by)-2))
	assert.Equal(t, " by user_7\n by user_7", tab.Texts(".actions .what small"))

	f.mu.Lock()
	f.details["v"] = map[string]any{"session": row("v", "", "", "", "javascript:alert(1)", 0, 0),
		"recent": []activity.Action{{Title: "x", RawURL: "javascript:alert(1)", CanonicalURL: "javascript:alert(1)"}},
		"notes":  []any{map[string]any{"desk": "", "text": "plain <b>text</b>"}}}
	f.mu.Unlock()
	tab.Do("look at a visitor", chromedp.Evaluate[chromedp.Void](`location.hash = "#/person/v"`))
	awaitText(tab, "Agents ask by user id, and this visitor has none yet.")
	assert.Equal(t, "plain <b>text</b>", tab.Texts(".agent pre"))
	assert.Equal(t, "0", tab.Eval(`String(document.querySelectorAll(".pages a, .desk a").length)`),
		"not an address of the web")
	tab.Do("look at nobody", chromedp.Evaluate[chromedp.Void](`location.hash = "#/person/nobody"`))
	awaitText(tab, "Nothing is kept of this session.")
}

func showsTheFlow(t *testing.T, browser context.Context) {
	f := newFake()
	f.flow = figures()
	tab := open(t, browser, serveFake(t, f), "#/flow", fakeKey)
	tab.Await("the charts show", `document.querySelectorAll(".plot rect[height]").length === 60 * 7 + 3`)
	assert.Regexp(t, `^\d\d:\d\d \d\d:\d\d \d\d:\d\d$`,
		tab.Eval(`[...document.querySelectorAll(".chart:first-child .axis span")].map((e) => e.innerText).join(" ")`),
		"the axis has times")
	assert.Equal(t, "3\n0.4\n0\n2", tab.Texts(".figure"))
	assert.Equal(t, "Readers\nLag\nParked at Intercom\nParked at Zendesk", tab.Texts(".stat h3"))
	assert.Equal(t, "no conversation waits\nconversations that wait, 1 retrying; nothing is lost",
		tab.Texts(".stat:nth-child(n+3) small"))
	assert.Contains(t, tab.Texts(".storage"), "in Redis")
	assert.Contains(t, tab.Texts(".storage"), "831 MiB of 4.0 GiB")
	f.mu.Lock()
	f.flow["desks"] = []any{}
	f.mu.Unlock()
	tab.Await("a desk that is removed goes", `document.querySelectorAll(".figure").length === 2`)
	minutes := f.flow["minutes"].([]any)
	last := minutes[len(minutes)-1].(map[string]any)
	tab.Do("ask for the last minute", chromedp.Focus(chromedp.CSS(".plot")), chromedp.KeyEvent(kb.ArrowLeft))
	at := time.Unix(last["minute"].(int64), 0)
	want := fmt.Sprintf("%s: %d accepted, %d ignored, %d duplicate", at.Format("15:04"), last["accepted"], last["ignored"],
		last["duplicate"])
	assert.Equal(t, want, tab.Eval(`document.activeElement.getAttribute("aria-valuetext")`))
	assert.Equal(t, fmt.Sprint(last["accepted"]), tab.Texts(".chart:first-child .legend li:first-child b"))
}

func refreshes(t *testing.T, browser context.Context) {
	f := newFake()
	f.rows = append(f.rows, row("s1", "", "stays@example.com", "", "https://app.example.com/", time.Hour, 10*time.Second),
		row("s2", "", "goes@example.com", "", "https://app.example.com/", time.Hour, 20*time.Second))
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	awaitRows(tab, "both show", "stays@example.com", "goes@example.com")
	f.mu.Lock()
	f.rows = f.rows[:1]
	f.rows[0]["conversation_id"], f.rows[0]["state"] = "77", "proactive_assistance"
	f.mu.Unlock()
	awaitRows(tab, "the state shows", "#77", "Help offered")
	tab.Await("the other is gone", fmt.Sprintf(`document.querySelectorAll(%q).length === 1`, rows))
}

// A page of the same origin shows the console beside its own content, and keeps its own address and
// storage.
func isMounted(t *testing.T, browser context.Context) {
	f := newFake()
	people(f)
	handler := f.handler()
	url := serve(t, f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/shop/" {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><title>Shop</title><link rel="icon" href="../console/icon.svg">
		<main id="beside"></main>
		<script type="module">
			import {mount} from "../console/console.js";
			document.getElementById("beside").style.height = "600px";
			window.console_ = mount(document.getElementById("beside"), {key: %q, product: %q});
		</script>`, fakeKey, fakeProduct)
	}))
	tab := browsertest.Open(t, browser)
	tab.Do("open the shop", chromedp.Navigate(url+"/shop/#/basket"))
	awaitRows(tab, "the list shows", "ada.lovelace@example.com")
	awaitLive(tab)
	tab.Do("open a person", chromedp.Click(chromedp.Search(`//a[.="ada.lovelace@example.com"]`)))
	awaitText(tab, "What the agent sees")
	tab.Do("go back", chromedp.Click(chromedp.CSS("a.back")))
	awaitRows(tab, "the list shows again", "ada.lovelace@example.com")
	tab.Do("open the flow", chromedp.Click(chromedp.Search(`//nav/a[.="Flow"]`)))
	awaitText(tab, "Written to the desk")
	tab.Eval(`console_.open("0198c2f4-7a11"); ""`)
	awaitText(tab, "What the agent sees")
	assert.Equal(t, "#/basket Shop 0 600", tab.Eval(`[location.hash, document.title, sessionStorage.length, `+
		`document.querySelector(".la").offsetHeight].join(" ")`))
	tab.Eval(`console_.close(); ""`)
	assert.Equal(t, "0", tab.Eval(`String(document.getElementById("beside").children.length)`))
	waittest.Until(t, "the stream ends", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.readers) == 0
	})
	assert.Empty(t, tab.Complaints())
}

func namesPages(t *testing.T, browser context.Context) {
	tab := open(t, browser, serveFake(t, newFake()), "", fakeKey)
	long := strings.Repeat("very-", 30) + "long"
	canonical := []string{"", "/", "https://app.example.com", "https://app.example.com/",
		"https://app.example.com/Dashboard", "https://app.example.com/account/billing-history",
		"https://app.example.com/team_members", "https://app.example.com/projects/:id",
		"https://app.example.com/projects/:id/tasks/:id", "https://app.example.com/projects/:id/:id",
		"https://app.example.com/:id",
		":id", "https://app.example.com/#/orders/:id", "https://app.example.com/#!/orders/:id",
		"https://app.example.com/app#/orders", "https://app.example.com/#/", "#/orders", "/dashboard", "dashboard",
		"https://app.example.com/caf%C3%A9", "https://app.example.com/CAF%C3%89", "https://app.example.com/two%20words",
		"https://app.example.com/100%", "https://app.example.com/a--b__c", "https://app.example.com/---",
		"app://screen/checkout-step", "https://app.example.com/" + long,
		"https://app.example.com/" + strings.ReplaceAll(long, "-", ""), "https://app.example.com/a%E2%80%AEb",
		"https://app.example.com/<b>"}
	want := map[string]string{}
	for _, address := range canonical {
		want[address] = activity.PageName(address)
	}
	addresses := musttest.New(json.Marshal(canonical))
	got := evalAsync[map[string]string](tab, t,
		fmt.Sprintf(`import("./console/words.js").then(({pageName}) => Object.fromEntries(%s.map((address) => [address, `+
			`pageName(address)])))`, addresses))
	assert.Equal(t, want, got)
}

func rendersNotes(t *testing.T, browser context.Context) {
	tab := open(t, browser, serveFake(t, newFake()), "", fakeKey)
	for html, want := range map[string]string{
		"a<br>b<BR/>c":                        "a<br>b<br>c",
		"<p class=x onclick=y>a</p><p>b</p>":  "<p>a</p><p>b</p>",
		"&lt;img src=x onerror=alert(1)&gt;":  "&lt;img src=x onerror=alert(1)&gt;",
		"<img src=x onerror=alert(1)>":        "&lt;img src=x onerror=alert(1)&gt;",
		"<script>alert(1)</script>":           "&lt;script&gt;alert(1)&lt;/script&gt;",
		"<svg/onload=alert(1)>":               "&lt;svg/onload=alert(1)&gt;",
		"<ul><li>a</li></ul>":                 "<ul><li>a</li></ul>",
		"a < b && c > d":                      "a &lt; b &amp;&amp; c &gt; d",
		"&amp;lt; &#60;b&#x3E; &#0; &nope;":   "&amp;lt; &lt;b&gt; \ufffd &amp;nope;",
		"<b>never closed":                     "<b>never closed</b>",
		"</p></div>x":                         "x",
		`<a href="javascript:alert(1)">x</a>`: `&lt;a href="javascript:alert(1)"&gt;x&lt;/a&gt;`,
		"<style>*{display:none}</style>":      "&lt;style&gt;*{display:none}&lt;/style&gt;",
	} {
		got := evalAsync[string](tab, t, fmt.Sprintf(`import("./console/note.js").then(({rendered}) => `+
			`rendered(%q).innerHTML)`, html))
		assert.Equal(t, want, got, html)
	}
	deep := evalAsync[int](tab, t, `import("./console/note.js").then(({rendered}) => `+
		`rendered("<b>".repeat(100000)).querySelectorAll("b").length)`)
	assert.Equal(t, 100_000, deep, "an element for each, not inside each other without end")
}

func readsFrames(t *testing.T, browser context.Context) {
	tab := open(t, browser, serveFake(t, newFake()), "", fakeKey)
	const stream = "retry: 1000\nid: 1\ndata: {\"a\":\"é\"}\n\nevent: heartbeat\ndata: {}\n\n: comment\n\nid: 2\nevent: " +
		"gap\ndata: one\ndata:two\n\n\n\nid: 3\ndata: cut of"
	got := evalAsync[string](tab, t, fmt.Sprintf(`import("./console/stream.js").then(({Frames}) => {
		const all = new Set();
		for (let size = 1; size < 60; size++) {
			const frames = new Frames(), events = [];
			for (let at = 0; at < %[1]s.length; at += size) events.push(...frames.take(%[1]s.slice(at, at + size)));
			all.add(JSON.stringify(events));
		}
		return [...all].join("\n");
	})`, fmt.Sprintf("%q", stream)))
	assert.Equal(t, `[{"id":"1","event":"message","data":"{\"a\":\"é\"}"},{"id":"","event":"heartbeat","data":"{}"},`+
		`{"id":"2","event":"gap","data":"one\ntwo"}]`, got)
	endless := evalAsync[string](tab, t, `import("./console/stream.js").then(({Frames}) => { const f = new Frames(); `+
		`try { for (let i = 0; i < 100; i++) f.take("x".repeat(100000)); return "taken" } catch { return "refused" } })`)
	assert.Equal(t, "refused", endless, "an event without end")
}

// A session in an answer from before the list was read anew may have been erased since.
func leavesOutOvertakenAnswers(t *testing.T, browser context.Context) {
	tab := open(t, browser, serveFake(t, newFake()), "", fakeKey)
	got := evalAsync[map[string]int](tab, t, `import("./console/sessions.js").then(async ({Sessions}) => {
		const kept = {};
		for (const ask of ["refresh", "more"]) {
			const answers = [];
			const list = new Sessions({get: () => new Promise((answer) => answers.push(answer))});
			const before = list[ask](""), anew = list.reload();
			answers[1]({sessions: [], next: null});
			await anew;
			answers[0]({sessions: [{session_id: "erased", last_seen: 1}], next: null});
			await before;
			kept[ask] = list.byID.size;
		}
		return kept;
	})`)
	assert.Equal(t, map[string]int{"refresh": 0, "more": 0}, got)
}

func fitsItsWindow(t *testing.T, browser context.Context) {
	f := newFake()
	people(f)
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	awaitRows(tab, "the list shows", "Visitor")
	for _, view := range []string{"#/now", "#/flow", "#/search?q=user", "#/person/0198c2f4-7a11"} {
		tab.Do("look", chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = %q", view)))
		tab.Await(view, fmt.Sprintf(`document.querySelector(".view.%s")?.offsetHeight > 0`,
			strings.FieldsFunc(view, func(r rune) bool {
				return strings.ContainsRune("#/?", r)
			})[0]))
		for _, width := range []int64{320, 390, 820, 1280} {
			tab.Do("look", chromedp.EmulateViewport(width, 800))
			assert.Equal(t, fmt.Sprint(width, " ", width),
				tab.Eval(`document.documentElement.scrollWidth + " " + document.querySelector(".main").scrollWidth`),
				"%s at %d pixels", view, width)
		}
		unnamed := tab.Eval(`[...document.querySelectorAll("a, button, input, [role=slider], [role=grid], [role=meter]")]
			.filter((e) => e.offsetHeight > 0 && !(e.innerText || e.getAttribute("aria-label") || e.labels?.length))
			.map((e) => e.outerHTML).join("\n")`)
		assert.Empty(t, unnamed, "%s: without a name", view)
		misplaced := tab.Eval(`[...document.querySelectorAll("[role=grid] > :not([role=rowgroup]), ` +
			`[role=rowgroup] > :not([role=row]), [role=row] > :not([role=gridcell], [role=columnheader]), ` +
			`pre[aria-label]:not([role])")].map((e) => e.outerHTML).join("\n")`)
		assert.Empty(t, misplaced, "%s: where a reader of the screen takes no row or name", view)
		headings := tab.Eval(`String([...document.querySelectorAll("h1")].filter((e) => e.offsetHeight > 0).length)`)
		assert.Equal(t, "1", headings, view)
	}
	assert.Empty(t, tab.Complaints())
}

func staysQuiet(t *testing.T, browser context.Context) {
	f := newFake()
	people(f)
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	awaitLive(tab)
	awaitRows(tab, "the list shows", "Visitor")
	assert.NotEqual(t, "0", tab.Eval("String(document.getAnimations().length)"))
	tab.Do("ask for less motion", emulate("prefers-reduced-motion", "reduce"))
	// The text read aloud changes with the connection, never with users' actions.
	tab.Eval(`said = 0; for (const region of document.querySelectorAll("[role=status], [role=alert], [aria-live]"))
		new MutationObserver(() => said++).observe(region,
			{childList: true, characterData: true, subtree: true, attributes: true}); ""`)
	for i := range 5 {
		f.act("s1", "", "ada@example.com", fmt.Sprint("User clicked ", i), "https://app.example.com/plan", i)
	}
	awaitRows(tab, "the actions show", "User clicked 4")
	assert.Equal(t, "0 0", tab.Eval(`document.getAnimations().length + " " + said`))
}

// A window of 1280 by 1024 pixels, magnified four times.
func showsItsListInALowWindow(t *testing.T, browser context.Context) {
	f := newFake()
	f.rows = sessions(50, "s%d", "p%d@example.com")
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	awaitRows(tab, "the list shows", "p0@example.com")
	tab.Do("look", chromedp.EmulateViewport(320, 256))
	tab.Await("some rows have room", `document.querySelector(".now .list").offsetHeight > 2 * 88`)
	tab.Do("choose", chromedp.Focus(chromedp.CSS(`.now [aria-rowindex="2"]`)), chromedp.KeyEvent(kb.End))
	tab.Await("the last row is in sight", `document.activeElement.innerText.includes("p49@example.com") && `+
		`(({top, bottom}) => top >= 0 && bottom < innerHeight + 1)(document.activeElement.getBoundingClientRect())`)
}

func showsTheFilterInForcedColors(t *testing.T, browser context.Context) {
	tab := open(t, browser, serveFake(t, newFake()), "#/now?who=identified", fakeKey)
	awaitLive(tab)
	tab.Do("force colors", emulate("forced-colors", "active"))
	tab.Await("the chosen one differs from the others", `new Set([...document.querySelectorAll(".choice button")].map(`+
		`(e) => e.ariaPressed + getComputedStyle(e).color)).size === 2 && new Set([...document.querySelectorAll(`+
		`".choice button")].map((e) => getComputedStyle(e).color)).size === 2`)
}

func readsOutErrors(t *testing.T, browser context.Context) {
	for _, fragment := range []string{"#/now", "#/search?q=ada"} {
		f := newFake()
		handler := f.handler()
		tab := open(t, browser, serve(t, f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/sessions/") {
				f.guarded(func(http.ResponseWriter, *http.Request) error { return httpx.Unavailable(nil) }).ServeHTTP(w, r)
				return
			}
			handler.ServeHTTP(w, r)
		})), fragment, fakeKey)
		tab.Await("a region that is read out has the error", `[...document.querySelectorAll("[role=status]")].some((e) => `+
			`e.offsetHeight > 0 && e.innerText.includes("The server is not ready yet."))`)
	}
}

func leavesTheFocus(t *testing.T, browser context.Context) {
	f := newFake()
	people(f)
	tab := open(t, browser, serveFake(t, f), "#/person/0198c2f4-7a11", fakeKey)
	awaitText(tab, "What the agent sees")
	tab.Do("see the note's HTML", chromedp.Click(chromedp.Search(`//button[.="HTML"]`)))
	tab.Eval(`document.querySelector(".agent pre").scrollTop = 30; ""`)
	for i, control := range []string{`.desk a`, `.address a`, `.agent pre`,
		`.agent [aria-label="Copy Note in Intercom"]`} {
		tab.Do("reach a control", chromedp.Focus(chromedp.CSS(control)))
		focused := tab.Eval(`(e => e.ariaLabel ?? e.innerText)(document.activeElement)`)
		f.mu.Lock()
		next := activity.NewAction(activity.TypeClick, activity.Target{Label: fmt.Sprint("Next ", i)},
			fmt.Sprint("https://app.example.com/help-", i))
		f.details["0198c2f4-7a11"]["recent"] = append(f.details["0198c2f4-7a11"]["recent"].([]activity.Action), next)
		f.mu.Unlock()
		f.act("0198c2f4-7a11", "user_42", "ada.lovelace@example.com", next.Description, next.CanonicalURL, 12+i)
		awaitText(tab, fmt.Sprint("Click Next ", i))
		assert.Equal(t, focused, tab.Eval(`(e => e.ariaLabel ?? e.innerText)(document.activeElement)`), control)
	}
	assert.Equal(t, "30 true", tab.Eval(`document.querySelector(".agent pre").scrollTop + " " + `+
		`document.querySelector(".agent [aria-pressed]").ariaPressed`), "the place in the answer, and the HTML")
}

// emulate sets a preference of the reader's browser.
func emulate(feature, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
		return err
	})
}

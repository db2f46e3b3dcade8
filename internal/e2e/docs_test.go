package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// documented is the server's address in the documentation.
const documented = "https://live.example.com"

var scriptBlock = regexp.MustCompile("(?ms)^ *```js\n(.*?)^ *```$")

// docScripts returns the scripts of the documentation, by page. In a block, blank lines separate
// the scripts of different SDKs.
func docScripts(t *testing.T) map[string][]string {
	t.Helper()
	pages := musttest.New(filepath.Glob("../../docs/*.md"))
	scripts := map[string][]string{}
	for _, path := range append(pages, "../../README.md") {
		page := musttest.New(os.ReadFile(path))
		for _, block := range scriptBlock.FindAllStringSubmatch(string(page), -1) {
			parts := []string{block[1]}
			if !strings.HasPrefix(block[1], "import ") {
				parts = strings.Split(block[1], "\n\n")
			}
			for _, script := range parts {
				scripts[path] = append(scripts[path], strings.TrimSpace(script))
			}
		}
	}
	return scripts
}

// docPage says how a page runs a script of the documentation: with an SDK, between the lines of
// before and after. The last have the SDK report user_42.
type docPage struct{ begins, sdk, before, after string }

var docPages = []docPage{
	{"posthog.init(", depstest.PostHogJSFull, "", ""},
	{"window.difyChatbotConfig", depstest.PostHogJSFull,
		"posthog.init('<capture token>', {api_host: '" + documented + "'})", "posthog.identify('user_42')"},
	{"AnalyticsBrowser.load(", depstest.Segment, "var {AnalyticsBrowser} = AnalyticsNext; var sdk =",
		"sdk.identify('user_42'); sdk.page()"},
	{"new RudderAnalytics()", depstest.RudderStack, "var {RudderAnalytics} = rudderanalytics",
		"new RudderAnalytics().identify('user_42'); new RudderAnalytics().page()"},
	{"jitsuAnalytics(", depstest.Jitsu, "var sdk =", "sdk.identify('user_42').then(() => sdk.page())"},
	{"amplitude.init(", depstest.Amplitude, "", "amplitude.setUserId('user_42'); document.getElementById('add').click()"},
}

// Every script in the documentation runs unchanged with the real packages. A script for pages runs
// in a browser whose live.example.com is this test's server, and reports a user. A script for
// agents runs in Node.js and finds the tools.
func TestDocs_showScriptsThatRun(t *testing.T) {
	t.Parallel()
	s := startService(t)
	shop := startDocShop(t)
	secure := httptest.NewTLSServer(s.noting(s.live.Handler()))
	t.Cleanup(secure.Close)
	browser := browsertest.Start(t, chromedp.Flag("ignore-certificate-errors", true),
		chromedp.Flag("host-resolver-rules", "MAP live.example.com:443 "+secure.Listener.Addr().String()))
	pages, agents := 0, 0
	for path, scripts := range docScripts(t) {
		for _, script := range scripts {
			if strings.HasPrefix(script, "import ") {
				agents++
				s.runInNode(script)
				continue
			}
			i := slices.IndexFunc(docPages, func(p docPage) bool { return strings.HasPrefix(script, p.begins) })
			require.GreaterOrEqual(t, i, 0, "%s: nobody knows how to run %s", path, script)
			pages++
			s.runInPage(browsertest.Open(t, browser), fmt.Sprintf("%s/page-%d?sdk=%d", shop, pages, i), docPages[i], script)
		}
	}
	assert.Equal(t, 7, pages)
	assert.Equal(t, 3, agents)
}

// startDocShop starts a shop and returns its origin. Each of its pages loads the SDK of the docPage
// in its query.
func startDocShop(t *testing.T) string {
	files := map[string]string{}
	for i, page := range docPages {
		files[fmt.Sprintf("/sdk-%d.js", i)] = depstest.File(t, page.sdk)
	}
	return startSite(t, files, func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(r.FormValue("sdk"))
		assert.NoError(t, err)
		load := fmt.Sprintf(`<script src="/sdk-%d.js"></script>`, i)
		if docPages[i].sdk == depstest.Jitsu { // is a module
			load = fmt.Sprintf(`<script type="module">import {jitsuAnalytics} from '/sdk-%d.js'; `+
				`window.jitsuAnalytics = jitsuAnalytics</script>`, i)
		}
		_, _ = w.Write([]byte(`<!doctype html><link rel="icon" href="data:,"><title>Shop</title><button id="add">Add to ` +
			`cart</button>` + load))
	})
}

// runInPage runs a script in a page, and waits until user_42 has an action there.
func (s *service) runInPage(tab *browsertest.Tab, url string, p docPage, script string) {
	tab.Do("come to the shop", chromedp.Navigate(url))
	tab.Await("the page is loaded", `document.readyState === "complete"`)
	code := strings.Join([]string{p.before, script, p.after, "void 0"}, "\n")
	tab.Do("run the script", chromedp.Evaluate[chromedp.Void](strings.ReplaceAll(code, "<capture token>", s.token)))
	waittest.Until(s.t, p.begins+" reports the user", func() bool {
		_, raw := s.lookup("user_42")
		return strings.Contains(raw, url)
	})
	if p.begins == "posthog.init(" {
		page, _, _ := strings.Cut(url, "?")
		tab.Do("go on in a single-page app", chromedp.Evaluate[chromedp.Void](`history.pushState({}, '', '`+page+`/next')`))
		waittest.Until(s.t, "the next page is reported", func() bool {
			_, raw := s.lookup("user_42")
			return strings.Contains(raw, page+"/next")
		})
	}
	if p.begins == "window.difyChatbotConfig" {
		known := s.get("/context/" + productID + "?session_id=" + tab.Eval(`difyChatbotConfig.inputs.session_id`))
		assert.Contains(s.t, known, url, "the chat names the session in which the user acts")
	}
	assert.Empty(s.t, tab.Complaints(), script)
}

// runInNode runs an agent's script, which has the server's tools in tools or in live.
func (s *service) runInNode(script string) {
	script = strings.ReplaceAll(script, documented, s.url) + "\n" +
		"console.log(typeof tools === 'undefined' ? await live.listTools() : tools); process.exit()"
	assert.Contains(s.t, module(s.t, script, []string{"KEY=" + s.key}), "get_user_context")
}

// The programs of examples/agents run with the real packages, and their models get the user's
// actions.
func TestAgents_getTheUsersActions(t *testing.T) {
	t.Parallel()
	programs := musttest.New(filepath.Glob("../../examples/agents/*.mjs"))
	require.NotEmpty(t, programs)
	s := startService(t)
	s.answer(http.MethodPost, "/e/", `{"api_key":"`+s.token+`","event":"$pageview","distinct_id":"user_42",`+
		`"properties":{"$session_id":"s","$current_url":"https://app.example.com/pricing"}}`, "")
	for _, program := range programs {
		source := musttest.New(os.ReadFile(program))
		said := module(t, string(source), []string{"LIVEACTIVITY_URL=" + s.url, "LIVEACTIVITY_KEY=" + s.key}, "user_42")
		assert.Contains(t, said, "User landed on the pricing page", program)
	}
}

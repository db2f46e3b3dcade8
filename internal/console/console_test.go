package console_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func get(t *testing.T, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	newFake().handler().ServeHTTP(w, r)
	return w
}

// files are the page's files, as the page asks for them.
func files(t *testing.T) (targets []string) {
	t.Helper()
	entries := musttest.New(fs.ReadDir(os.DirFS("page"), "console"))
	for _, entry := range entries {
		targets = append(targets, "/console/"+entry.Name())
	}
	return append(targets, "/")
}

func TestHandler_letsThePageUseItsOwnOriginOnly(t *testing.T) {
	for _, target := range files(t) {
		w := get(t, http.MethodGet, target)
		require.Equal(t, http.StatusOK, w.Code, target)
		policy := map[string]string{}
		for _, directive := range strings.Split(w.Header().Get("Content-Security-Policy"), "; ") {
			name, sources, _ := strings.Cut(directive, " ")
			policy[name] = sources
		}
		assert.Equal(t, map[string]string{"default-src": "'none'", "script-src": "'self'", "style-src": "'self'",
			"connect-src": "'self'", "img-src": "'self'",
			"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'",
			"trusted-types": "'none'"}, policy, target)
		assert.Equal(t, "same-origin", w.Header().Get("Cross-Origin-Opener-Policy"), target)
		assert.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"), target)
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), target)
	}
}

func TestHandler_setsTheContentType(t *testing.T) {
	types := map[string]string{"": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	for _, target := range files(t) {
		w := get(t, http.MethodHead, target)
		assert.Equal(t, types[path.Ext(target)], w.Header().Get("Content-Type"), target)
		assert.Zero(t, w.Body.Len(), target)
		assert.Equal(t, "no-cache", w.Header().Get("Cache-Control"), target)
		again := get(t, http.MethodGet, target, "If-None-Match", w.Header().Get("ETag"))
		assert.Equal(t, http.StatusNotModified, again.Code, target)
	}
}

func TestHandler_hasNoOtherFiles(t *testing.T) {
	for _, target := range []string{"/console/", "/console/none.js", "/console/..%2Findex.html",
		"/console/%2e%2e%2fconsole.go", "/console/a/b", "/index.html"} {
		w := get(t, http.MethodGet, target)
		assert.Equal(t, http.StatusNotFound, w.Code, target)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"), target)
	}
	assert.Equal(t, http.StatusMethodNotAllowed, get(t, http.MethodPost, "/console/console.js").Code)
}

// The service may be reached below a path, and nothing of the page comes from
// elsewhere.
func TestPage_asksForRelativeAddressesOnly(t *testing.T) {
	elsewhere := regexp.MustCompile(`(?:href|src)="(?:/|https?:)|(?:import|from|fetch\(|url\()\s*["'](?:/|https?` +
		`:)|innerHTML|outerHTML|insertAdjacentHTML|document\.write`)
	for _, target := range files(t) {
		assert.Empty(t, elsewhere.FindAllString(get(t, http.MethodGet, target).Body.String(), -1), target)
	}
}

// The service's product, and its key.
const acme, acmeKey = "acme", "lak_acme"

// service is the real service.
type service struct {
	t    *testing.T
	live *liveactivity.Service
	url  string
}

// startService starts a service in memory.
func startService(t *testing.T) *service {
	t.Helper()
	product, _ := liveactivity.NewProduct(acme)
	live := musttest.New(liveactivity.New(&liveactivity.Options{Logger: slog.New(slog.DiscardHandler),
		Products: []liveactivity.Product{product}, Keys: []liveactivity.Key{{Key: acmeKey, ExternalID: acme}}}))
	web := httptest.NewServer(live.Handler())
	stop := waittest.Run(t, live.Run)
	t.Cleanup(func() {
		assert.NoError(t, stop())
		web.CloseClientConnections()
		web.Close()
	})
	return &service{t: t, live: live, url: web.URL}
}

// record reports an action of a user.
func (s *service) record(session, user, email, label, url string) {
	s.t.Helper()
	action := activity.NewAction(activity.TypeClick, activity.Target{Label: label}, url)
	_, err := s.live.Record(context.Background(), acme,
		[]activity.Event{{ID: fmt.Sprint(session, label, time.Now().UnixNano()), Time: time.Now(),
			SessionID: session, UserID: user, Email: email, Action: &action}})
	require.NoError(s.t, err)
}

// requireSoon requires that something is done within a second three times, beside the time that a
// busy machine needs for ten questions to the page. It tries more often and returns the number of
// tries.
func requireSoon(t *testing.T, tab *browsertest.Tab, do func(i int) time.Duration) int {
	t.Helper()
	var took []time.Duration
	for soon := 0; soon < 3; {
		require.Less(t, len(took), 12, "%v", took)
		began := time.Now()
		tab.Eval("''")
		busy := 10 * time.Since(began)
		last := do(len(took))
		if took = append(took, last); last < time.Second+busy {
			soon++
		}
	}
	t.Log("done after", took)
	return len(took)
}

func followsWithinASecond(t *testing.T, browser context.Context) {
	s := startService(t)
	tab := browsertest.Open(t, browser)
	tab.Do("enter the key", chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.url),
		chromedp.WaitVisible(chromedp.ID("la-key")), chromedp.SendKeys(chromedp.ID("la-key"), acmeKey+kb.Enter))
	awaitText(tab, "Nobody is there yet.")
	awaitLive(tab)
	clicks := requireSoon(t, tab, func(i int) time.Duration {
		label := fmt.Sprint("Button ", i)
		began := time.Now()
		s.record("s1", "user_42", "ada@example.com", label, "https://app.example.com/projects/42")
		awaitRows(tab, label, "ada@example.com", "user_42", "Projects detail", "User clicked "+label)
		return time.Since(began)
	})

	tab.Do("open the person", chromedp.Click(chromedp.Search(`//a[.="ada@example.com"]`)))
	awaitText(tab, "What the agent sees")
	clicks += requireSoon(t, tab, func(i int) time.Duration {
		label := fmt.Sprint("Link ", i)
		time.Sleep(time.Second) // actions that follow at once are shown together, a second later
		began := time.Now()
		s.record("s1", "user_42", "ada@example.com", label, "https://app.example.com/projects/42")
		awaitText(tab, "Click "+label)
		return time.Since(began)
	})
	assert.Contains(t, tab.Texts(".agent"), "session_id: s1")
	assert.Contains(t, tab.Texts(".agent pre"), `"user_id": "user_42"`)

	tab.Do("open the flow", chromedp.Click(chromedp.Search(`//nav/a[.="Flow"]`)))
	tab.Await("the flow shows", fmt.Sprintf(`document.querySelector(".chart:nth-child(2) .legend b")?.innerText === "%d"`,
		clicks))
	assert.Contains(t, tab.Texts(".storage"), "in memory")
	assert.Equal(t, "1", strings.Split(tab.Texts(".figure"), "\n")[0], "readers")
	tab.Do("search", chromedp.Click(chromedp.Search(`//nav/a[.="Search"]`)),
		chromedp.SendKeys(chromedp.CSS(".search input"), "USER_4"))
	awaitRows(tab, "ada is found", "ada@example.com")
	assert.Empty(t, tab.Complaints())
}

func leavesMarkupText(t *testing.T, browser context.Context) {
	const markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	const address = `<img/src=x/onerror=document.title=1>@example.com`
	s := startService(t)
	url := `javascript:document.title='owned'//` + markup
	s.record(markup, markup, address, markup, url)
	s.record("plain", "user_1", "", markup, "https://app.example.com/"+markup)
	tab := open(t, browser, s.url, "", acmeKey)
	awaitRows(tab, "both show", markup, "user_1")
	tab.Do("open the person", chromedp.Click(chromedp.CSS(`.now [aria-rowindex="3"]`)))
	awaitText(tab, "What the agent sees")
	assert.Equal(t, address, tab.Texts("h1:not([id])"))
	assert.Contains(t, tab.Texts(".what"), "Click <img src=x")
	assert.Contains(t, tab.Texts(".agent"), "session_id: "+markup[:40])
	assert.Equal(t, "", tab.Texts(".pages a, .desk a"), "no link but to the web")
	tab.Do("search", chromedp.Evaluate[chromedp.Void](`location.hash = "#/search?q=" + encodeURIComponent("<IMG")`))
	awaitRows(tab, "it is found", markup)
	assert.Equal(t, "0 Search · acme · liveactivity",
		tab.Eval(`document.querySelectorAll("main img, main script, main [onerror]").length + " " + document.title`))
	assert.Empty(t, tab.Complaints())
}

package console_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/browsertest"
)

// Products of the service, and their keys.
const (
	acme, acmeKey     = "acme", "lak_acme"
	globex, globexKey = "globex", "lak_globex"
)

// service is the real service.
type service struct {
	t    *testing.T
	live *liveactivity.Service
	web  *httptest.Server
	stop func()
}

// startService starts a service in memory at an address, or at any.
func startService(t *testing.T, address string) *service {
	t.Helper()
	options := &liveactivity.Options{Logger: slog.New(slog.DiscardHandler)}
	for product, key := range map[string]string{acme: acmeKey, globex: globexKey} {
		p, _ := liveactivity.NewProduct(product)
		options.Products = append(options.Products, p)
		options.Keys = append(options.Keys, liveactivity.Key{Key: key, ExternalID: product})
	}
	live, err := liveactivity.New(options)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	s := &service{t: t, live: live, web: &httptest.Server{Listener: listener,
		Config: &http.Server{Handler: live.Handler()}}}
	s.web.Start()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- live.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
		s.web.CloseClientConnections()
		s.web.Close()
	})
	t.Cleanup(s.stop)
	return s
}

// record reports an action of a user of a product.
func (s *service) record(product, session, user, email, label, url string) {
	s.t.Helper()
	action := activity.NewAction(activity.TypeClick, activity.Target{Label: label}, url)
	_, err := s.live.Record(context.Background(), product,
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
	s := startService(t, "127.0.0.1:0")
	tab := browsertest.Open(t, browser)
	tab.Do("enter the key", chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.web.URL),
		chromedp.WaitVisible(chromedp.ID("la-key")), chromedp.SendKeys(chromedp.ID("la-key"), acmeKey+kb.Enter))
	awaitText(tab, "Nobody is there yet.")
	awaitLive(tab)
	clicks := requireSoon(t, tab, func(i int) time.Duration {
		label := fmt.Sprint("Button ", i)
		began := time.Now()
		s.record(acme, "s1", "user_42", "ada@example.com", label, "https://app.example.com/projects/42")
		awaitRows(tab, label, "ada@example.com", "user_42", "Projects detail", "User clicked "+label)
		return time.Since(began)
	})

	tab.Do("open the person", chromedp.Click(chromedp.Search(`//a[.="ada@example.com"]`)))
	awaitText(tab, "What the agent sees")
	clicks += requireSoon(t, tab, func(i int) time.Duration {
		label := fmt.Sprint("Link ", i)
		time.Sleep(time.Second) // actions that follow at once are shown together, a second later
		began := time.Now()
		s.record(acme, "s1", "user_42", "ada@example.com", label, "https://app.example.com/projects/42")
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

func showsOneProduct(t *testing.T, browser context.Context) {
	s := startService(t, "127.0.0.1:0")
	s.record(acme, "s1", "user_42", "ada@example.com", "Export", "https://app.example.com/plan")
	tab := open(t, browser, s.web.URL, "", globexKey)
	awaitLive(tab)
	awaitText(tab, "Nobody is there yet.")
	s.record(acme, "s1", "user_42", "ada@example.com", "Export again", "https://app.example.com/plan")
	s.record(globex, "s9", "user_9", "grace@example.com", "Save", "https://app.example.com/ships")
	awaitRows(tab, "its own product shows", "grace@example.com")
	seen := tab.Eval("document.body.textContent")
	for _, fragment := range []string{"#/person/s1", "#/search?q=ada", "#/search?q=s", "#/flow"} {
		tab.Do("look", chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = %q", fragment)))
		switch fragment {
		case "#/person/s1":
			awaitText(tab, "Nothing is kept of this session.")
		case "#/search?q=ada":
			awaitText(tab, "Nobody begins with “ada”.")
		case "#/search?q=s":
			awaitRows(tab, "its own session is found", "grace@example.com")
		default:
			tab.Await("the flow shows", `document.querySelector(".chart:nth-child(2) .legend b")?.innerText === "1"`)
		}
		seen += tab.Eval("document.body.textContent")
	}
	assert.NotContains(t, seen, "ada@example.com")
	assert.NotContains(t, seen, "user_42")
	assert.NotContains(t, seen, "Export")
}

func leavesMarkupText(t *testing.T, browser context.Context) {
	const markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	const address = `<img/src=x/onerror=document.title=1>@example.com`
	s := startService(t, "127.0.0.1:0")
	url := `javascript:document.title='owned'//` + markup
	s.record(acme, markup, markup, address, markup, url)
	s.record(acme, "plain", "user_1", "", markup, "https://app.example.com/"+markup)
	tab := open(t, browser, s.web.URL, "", acmeKey)
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

func reconnectsAfterARestart(t *testing.T, browser context.Context) {
	s := startService(t, "127.0.0.1:0")
	tab := open(t, browser, s.web.URL, "", acmeKey)
	awaitLive(tab)
	s.record(acme, "s1", "", "before@example.com", "Save", "https://app.example.com/plan")
	awaitRows(tab, "the list shows", "before@example.com")
	s.stop()
	tab.Await("the page says so", `document.querySelector(".la").dataset.state === "away"`)
	assert.Contains(t, tab.Texts(rows), "before@example.com", "what was there stays")
	again := startService(t, s.web.Listener.Addr().String())
	awaitLive(tab)
	again.record(acme, "s2", "", "after@example.com", "Save", "https://app.example.com/plan")
	awaitRows(tab, "the list follows", "after@example.com")
	tab.Await("what the server forgot is gone", fmt.Sprintf(`document.querySelectorAll(%q).length === 1`, rows))
}

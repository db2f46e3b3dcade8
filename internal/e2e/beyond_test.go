package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/retriever"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// The admin key of the two servers of the service.
const adminKey = "adm-s3cr3t"

// beyond is a service of two servers, with all of its readers.
type beyond struct {
	t            *testing.T
	a, b         *service
	desk         *helpdesktest.Intercom
	conversation string
	records      http.Handler
	console      *browsertest.Tab
}

// startBeyond starts two servers on one Redis, of a product that lists events, errors and marks.
func startBeyond(t *testing.T) *beyond {
	desk := helpdesktest.NewIntercom(nil)
	t.Cleanup(desk.Close)
	redis := redistest.Start(t)
	var first *liveactivity.Options
	change := func(o *liveactivity.Options) {
		if first == nil {
			first = o
			now, p := 0, &o.Products[0]
			p.Events = liveactivity.EventRules{"Invoice Sent": {Properties: []string{"plan"}, Sentence: "sent an invoice"},
				"$exception": {}, "$rageclick": {}, "$dead_click": {}}
			p.IntegrationConfig.Desks = map[string]json.RawMessage{"intercom": desk.Config()}
			p.IntegrationConfig.Notes = &liveactivity.Notes{DebounceMS: &now, IntervalS: &now}
		}
		o.Products, o.Keys, o.AdminKey = first.Products, first.Keys, adminKey
		log := musttest.New(redislog.Open(redis.URL(), &redislog.Options{Logger: o.Logger}))
		t.Cleanup(func() { assert.NoError(t, log.Release()) })
		o.Log = log
	}
	v := &beyond{t: t, a: startService(t, change), b: startService(t, change), desk: desk}
	v.run(v.a.live.Run, v.b.live.Run)
	v.startRetriever()
	return v
}

// run runs functions until the test ends.
func (v *beyond) run(functions ...func(context.Context) error) {
	for _, run := range functions {
		stop := waittest.Run(v.t, run)
		v.t.Cleanup(func() {
			if err := stop(); !errors.Is(err, context.Canceled) { // a consumer ends with the error of its context
				assert.NoError(v.t, err)
			}
		})
	}
}

// startRetriever reads the stream of a into records, as liveactivity-retriever does.
func (v *beyond) startRetriever() {
	store := musttest.New(retriever.NewStore(nil))
	writer := musttest.New(stream.NewWriter(store.Add, &stream.WriterOptions{Erase: store.Erase}))
	consumer := musttest.New(stream.NewConsumer(v.a.url+"/stream/"+productID, v.a.key,
		stream.Handlers{Deliver: store.Learning(writer.Deliver)},
		&stream.ConsumerOptions{Since: time.Unix(0, 0), Logger: slog.New(slog.DiscardHandler)}))
	h := musttest.New(retriever.NewHandler(store, nil))
	v.records = http.HandlerFunc(h.ServeEvents)
	v.run(writer.Run, consumer.Run)
}

// link opens a conversation with the user's email, which links it.
func (v *beyond) link() {
	conversation, hook := v.desk.Created(v.a.url+"/chatbot-webhook/"+productID,
		helpdesktest.IntercomContact{Email: email}, "Hi")
	v.conversation = conversation
	response, err := http.DefaultClient.Do(hook)
	require.NoError(v.t, err)
	defer response.Body.Close()
	require.Equal(v.t, http.StatusOK, response.StatusCode)
}

// between passes pages' requests on: those with marks to b, and all others to a.
func (v *beyond) between() (url string) {
	servers := map[bool]http.Handler{false: proxyTo(v.t, v.a.url), true: proxyTo(v.t, v.b.url)}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		_, body := decode(raw)
		servers[strings.Contains(body, `"$rageclick"`) || strings.Contains(body, `"$dead_click"`)].ServeHTTP(w, r)
	}))
	v.t.Cleanup(web.Close)
	return web.URL
}

func proxyTo(t *testing.T, server string) http.Handler {
	target := musttest.New(url.Parse(server))
	return httputil.NewSingleHostReverseProxy(target)
}

// readers returns the text that each reader of the service gets now, by its name.
func (v *beyond) readers() map[string]func() string {
	page := func(s *service, method, path, body string) func() string {
		return func() string { return s.answer(method, path, body, "Bearer "+s.key) }
	}
	tool := func(name string) func() string {
		return page(v.b, http.MethodPost, "/mcp",
			fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"user_id":%q}}}`,
				name, userID))
	}
	streamed := func(s *service) func() string {
		reader := s.startReader("?since=0")
		return func() string { _, text := reader.read(); return text }
	}
	return map[string]func() string{
		"live activity":          page(v.a, http.MethodGet, "/users/"+productID+"/"+userID+"/live-activity", ""),
		"the other server's":     page(v.b, http.MethodGet, "/users/"+productID+"/"+userID+"/live-activity", ""),
		"stream":                 streamed(v.a),
		"the other's stream":     streamed(v.b),
		"context":                page(v.b, http.MethodGet, "/context/"+productID+"?user_id="+userID, ""),
		"context as text":        page(v.a, http.MethodGet, "/context/"+productID+"?format=text&email="+email, ""),
		"get_live_user_activity": tool("get_live_user_activity"),
		"get_user_context":       tool("get_user_context"),
		"notes":                  func() string { return strings.Join(v.desk.Notes(v.conversation), "\n") },
		"records": func() string {
			w := httptest.NewRecorder()
			v.records.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events?email="+email, nil))
			return w.Body.String()
		},
		"console": func() string { return v.console.Eval(`document.querySelector(".timeline").innerText`) },
	}
}

// beyondPage is a page whose button does nothing.
const beyondPage = `<!doctype html><html lang="en"><head><link rel="icon" href="data:,"><title>Checkout</title>
<script src="/array.js"></script><script>
posthog.init(%q, {api_host: %q, request_batching: false, capture_dead_clicks: true})</script></head>
<body><input id="card" name="card"><button id="pay" type="button">Pay</button></body></html>`

// startCheckout starts a site with posthog-js and its extensions, and returns its page.
func (v *beyond) startCheckout() (url string) {
	api, files := v.between(), map[string]string{"/array.js": depstest.File(v.t, depstest.PostHogJSFull)}
	return startSite(v.t, files, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, beyondPage, v.a.token, api)
	}) + "/checkout"
}

// Custom events, errors and marks of posthog-js reach every reader of every server, without any
// unlisted event and any typed text. An erasure ends them for good.
func testBeyondClicks(t *testing.T, browser context.Context) {
	v := startBeyond(t)
	tab := browsertest.Open(t, browser)
	tab.Do("come to the checkout", chromedp.Navigate(v.startCheckout()), chromedp.Poll[chromedp.Void](autocaptures))
	tab.Do("log in", logIn)
	v.a.await(userID, 1)
	v.link()
	tab.Do("pay", chromedp.Evaluate[chromedp.Void](`posthog.capture('Invoice Sent', {plan: 'pro', card: `+
		`'unlisted-hush'}); posthog.capture('Not Listed')`),
		chromedp.Evaluate[chromedp.Void](`for (const _ of [1, 2]) posthog.captureException(Object.assign(new `+
			`Error('card_declined'), {name: 'PaymentError', stack: 'PaymentError: card_declined\n    at payWithStack `+
			`(/app.js:1:2)'}))`),
		chromedp.Click(chromedp.ID("pay")), chromedp.Click(chromedp.ID("pay")), chromedp.Click(chromedp.ID("pay")))
	waittest.Until(t, "a click is dead, while the page is in front", func() bool {
		_, raw := v.a.lookup(userID)
		return strings.Contains(raw, `"dead"`)
	})
	// later, as a change of the focus is an answer to a click
	tab.Do("fill in the card", chromedp.SendKeys(chromedp.ID("card"), "typed-hush"+kb.Tab))
	v.console = browsertest.Open(t, browser)
	v.console.Do("watch the person", chromedp.Navigate(v.b.url), chromedp.WaitVisible(chromedp.ID("la-key")),
		chromedp.SendKeys(chromedp.ID("la-key"), v.b.key+kb.Enter),
		chromedp.WaitVisible(chromedp.Search(`//a[.="`+email+`"]`)))
	v.console.Do("open the person", chromedp.Click(chromedp.Search(`//a[.="`+email+`"]`)))

	readers := v.readers()
	for name, says := range readers {
		for _, did := range []string{"sent an invoice (plan: pro) on the checkout page",
			"saw an error on the checkout page: PaymentError: card_declined",
			"clicked Pay on the checkout page, repeatedly", "clicked Pay on the checkout page, and nothing happened"} {
			waittest.Until(t, name+": "+did, func() bool { return strings.Contains(says(), did) })
		}
		for _, secret := range []string{"hush", "Not Listed", "payWithStack"} {
			assert.NotContains(t, says(), secret, name)
		}
	}
	assert.Equal(t, 1, strings.Count(readers["live activity"](), "card_declined"), "the same error is said once")
	clicks, marks := 0, []string(nil)
	got, _ := v.b.lookup(userID)
	for _, a := range got.Actions {
		if a.Title == "Click Pay" {
			clicks++
			marks = append(marks, a.Marks...)
		}
	}
	assert.Equal(t, 3, clicks, "each click is there once")
	assert.ElementsMatch(t, []string{"dead", "rage"}, marks)
	v.checkErasure(readers)
	assert.Empty(t, tab.Complaints())
}

// checkErasure erases the visitor. After that, a mark of an erased click changes nothing.
func (v *beyond) checkErasure(readers map[string]func() string) {
	t := v.t
	v.b.answer(http.MethodDelete, "/users/"+productID+"/"+userID+"?notes=redact", "", "Bearer "+adminKey)
	for _, c := range v.b.calls() {
		if !strings.Contains(c.body, `"$dead_click"`) {
			continue
		}
		again := uuidField.ReplaceAllString(c.body, `"uuid":"`+uuid.NewString()+`"`)
		assert.Contains(t, v.a.answer(http.MethodPost, "/e/", again, ""), `"accepted":0`)
	}
	readers["stream"], readers["the other's stream"] = v.readers()["stream"], v.readers()["the other's stream"]
	for name, says := range readers {
		waittest.Until(t, name+" forgets", func() bool { return !strings.Contains(says(), "Pay") })
	}
}

package liveactivity_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// A failover loses activity and a registration. A server that had them and a new server then give
// the same answers.
func TestRedis_afterAFailoverServersAgree(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a := start(t, withRedis(redis.URL()))
	first := a.register(`{"product_id":"initech"}`)
	a.webhook(pageview("u1", "kept", "https://app.example.com/a"))
	lose := redis.Snapshot()
	a.webhook(pageview("u2", "lost", "https://app.example.com/b"))
	require.ElementsMatch(t, []any{"kept", "lost"}, a.sessionIDs(nil))
	second := a.register(`{"product_id":"initech","force":true}`)
	require.Equal(t, http.StatusOK, a.status(http.MethodGet, "/sessions/initech", "", bearer(second["key"])))
	a.register(`{"product_id":"hooli"}`)
	lose()
	for _, s := range []*service{a, start(t, withRedis(redis.URL()))} {
		assert.Equal(t, []any{"kept"}, s.sessionIDs(nil))
		assert.Len(t, s.lookup("ada")["actions"], 1)
		assert.NotContains(t, s.do(http.MethodGet, "/admin/products", "", withAdminKey).body, "hooli")
		assert.Equal(t, http.StatusOK, s.status(http.MethodGet, "/sessions/initech", "", bearer(first["key"])))
		assert.Equal(t, http.StatusUnauthorized, s.status(http.MethodGet, "/sessions/initech", "", bearer(second["key"])))
	}
}

// The sessions in a server's memory go with Redis' data, also where it comes back without any.
func TestRedis_mayLoseEverything(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := start(t, withRedis(redis.URL()))
	for range 2 {
		s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
		require.Equal(t, []any{"s1"}, s.sessionIDs(nil))
		require.NoError(t, redis.Client().FlushAll(t.Context()).Err())
		assert.Empty(t, s.sessionIDs(nil))
	}
}

// While Redis is away, clients get 503 with Retry-After and streams stay open. Afterwards
// everything goes on by itself.
func TestRedis_mayBeAwayForAWhile(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := start(t, withRedis(redis.URL()))
	stream := s.stream("/stream/acme", bearer(acmeKey))
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	assert.Equal(t, "https://app.example.com/a", stream.nextBatch().Actions[0]["raw_url"])

	redis.Kill()
	for _, d := range doors() {
		s.refuses(d)
	}
	assert.Equal(t, http.StatusOK, s.status(http.MethodGet, "/healthz", ""))
	assert.Equal(t, http.StatusOK, s.status(http.MethodGet, "/metrics", ""))

	redis.Restart()
	waittest.Until(t, "the server is ready", s.isReady)
	s.webhook(pageview("u2", "s1", "https://app.example.com/b"))
	assert.Equal(t, "https://app.example.com/b", stream.nextBatch().Actions[0]["raw_url"])
	assert.Len(t, s.lookup("ada")["actions"], 2)
}

// A server starts while Redis is away. Only the engine logs the outage.
func TestRedis_mayComeLater(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	before := start(t, withRedis(redis.URL())).register(`{"product_id":"initech"}`)
	redis.Kill()
	s := start(t, withRedis(redis.URL()))
	assert.False(t, s.isReady())
	lookup := func() int {
		return s.status(http.MethodGet, "/users/initech/ada/live-activity", "", bearer(before["key"]))
	}
	ingest := func() int { return s.post(before, pageview("u1", "s1", "https://a.example/a")).status }
	for name, ask := range map[string]func() int{"lookup": lookup, "ingest": ingest} {
		assert.Equal(t, http.StatusServiceUnavailable, ask(), "%s: it is unknown whether the product is registered", name)
	}
	warned := regexp.MustCompile(`"WARN","msg":"([^"]*)".*refused`).FindAllStringSubmatch(s.log.String(), -1)
	for _, line := range warned {
		assert.Equal(t, "cannot connect to Redis", line[1])
	}
	redis.Restart()
	for name, ask := range map[string]func() int{"lookup": lookup, "ingest": ingest} {
		status := http.StatusServiceUnavailable
		waittest.Until(t, "the server works with Redis: "+name, func() bool {
			status = ask()
			return status != http.StatusServiceUnavailable
		})
		assert.Equal(t, http.StatusOK, status, name)
	}
	assert.True(t, s.isReady())
}

// A registration at one server opens the product at the others at once. The credentials that it
// replaces are void there, also for open streams.
func TestRedis_sharesRegistrations(t *testing.T) {
	redis := redistest.Start(t)
	a, b := start(t, withRedis(redis.URL())), start(t, withRedis(redis.URL()))
	first := a.register(`{"product_id":"initech"}`)
	require.Equal(t, http.StatusOK, b.post(first, pageview("u1", "s1", "https://app.example.com/a")).status)
	stream := b.stream("/stream/initech", bearer(first["key"]))
	second := a.register(`{"product_id":"initech","force":true}`)
	assert.Equal(t, http.StatusOK, b.status(http.MethodGet, "/users/initech/ada/live-activity", "", bearer(second["key"])))
	waittest.Until(t, "the old key is refused", func() bool {
		return b.status(http.MethodGet, "/users/initech/ada/live-activity", "",
			bearer(first["key"])) == http.StatusUnauthorized
	})
	require.Equal(t, http.StatusOK, b.post(second, pageview("u2", "s1", "https://app.example.com/b")).status)
	assert.Empty(t, stream.rest(), "the stream of the old key ends, and is sent nothing more")
}

// inTime bounds the time of an answer while storage hangs.
const inTime = 5 * time.Second

// doors are requests that each need storage, in the order they are made.
func doors() []door {
	event := pageview("u2", "s1", "https://app.example.com/b")
	batch := `{"api_key":"` + acmeToken + `","batch":[` + event + `]}`
	return []door{
		{"webhook", 20, http.MethodPost, "/webhook/acme", event, []string{"X-PostHog-Secret: " + acmeSecret}},
		{"webhook of an unknown product", 20, http.MethodPost, "/webhook/initech", event, []string{"X-PostHog-Secret: x"}},
		{"/e/", 20, http.MethodPost, "/e/", batch, nil},
		{"/capture", 1, http.MethodPost, "/capture", batch, nil},
		{"/batch/", 1, http.MethodPost, "/batch/", batch, nil},
		{"/track", 1, http.MethodPost, "/track", batch, nil},
		{"/engage", 1, http.MethodPost, "/engage", batch, nil},
		{"/i/v0/e/", 1, http.MethodPost, "/i/v0/e/", batch, nil},
		{"an unknown token", 20, http.MethodPost, "/e/", strings.ReplaceAll(batch, acmeToken, "phc_unknown"), nil},
		{"capture v1", 20, http.MethodPost, "/i/v1/analytics/events", `{"batch":[` + event + `]}`,
			[]string{bearer(acmeToken)}},
		{"lookup", 20, http.MethodGet, "/users/acme/ada/live-activity", "", []string{bearer(acmeKey)}},
		{"lookup with an unknown key", 1, http.MethodGet, "/users/acme/ada/live-activity", "", []string{bearer("unknown")}},
		{"sessions", 8, http.MethodGet, "/sessions/acme", "", []string{bearer(acmeKey)}},
		{"flow", 20, http.MethodGet, "/flow/acme", "", []string{bearer(acmeKey)}},
		{"stream", 8, http.MethodGet, "/stream/acme", "", []string{bearer(acmeKey)}},
		{"MCP", 8, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call",` +
			`"params":{"name":"get_live_user_activity","arguments":{"user_id":"ada"}}}`,
			[]string{bearer(acmeKey), "Content-Type: application/json"}},
		{"register", 8, http.MethodPost, "/admin/products", `{"product_id":"hooli"}`, []string{withAdminKey}},
		{"registrations", 8, http.MethodGet, "/admin/products", "", []string{withAdminKey}},
		{"unregister", 8, http.MethodDelete, "/admin/products/initech", "", []string{withAdminKey}},
		{"MCP with a token", 20, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`,
			[]string{bearer("lat_acme~x~y"), "Content-Type: application/json"}},
		{"register a client", 20, http.MethodPost, "/oauth/register", `{"redirect_uris":["https://claude.ai/cb"]}`, nil},
		{"the sign-in page", 8, http.MethodGet,
			"/oauth/authorize?client_id=client_00000000000000000000000000000000&redirect_uri=https://claude.ai/cb", "", nil},
		{"tokens", 20, http.MethodPost, "/oauth/token", "grant_type=refresh_token&client_id=x&refresh_token=lar_acme~x~y",
			nil},
		{"revoke", 8, http.MethodPost, "/oauth/revoke", "token=lar_acme~x~y", nil},
		{"grants", 8, http.MethodGet, "/admin/grants/acme", "", []string{withAdminKey}},
		{"readiness", 8, http.MethodGet, "/readyz", "", nil},
	}
}

type door struct {
	name         string
	atOnce       int
	method, path string
	body         string
	headers      []string
}

// refuses checks that a service whose storage is away asks to come again.
func (s *service) refuses(d door) {
	r := s.do(d.method, d.path, d.body, d.headers...)
	assert.Equal(s.t, http.StatusServiceUnavailable, r.status, "%s: %s", d.name, r.body)
	assert.NotEmpty(s.t, r.header.Get("Retry-After"), d.name)
}

// While Redis neither answers nor hangs up, every request gets an answer in time, however many
// wait. Afterwards everything goes on by itself. No other test of the package runs meanwhile.
func TestRedis_mayHang(t *testing.T) {
	t.Parallel() // it mostly waits
	redis := redistest.Start(t)
	s := start(t, withRedis(redis.URL()))
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	crowd := func(ask func(d door)) time.Duration {
		var asking sync.WaitGroup
		began := time.Now()
		for _, d := range doors() {
			for range d.atOnce {
				asking.Go(func() { ask(d) })
			}
		}
		asking.Wait()
		return time.Since(began)
	}
	busy := crowd(func(door) { s.do(http.MethodGet, "/healthz", "") })
	redis.Pause()
	took := crowd(s.refuses)
	// Waiting twice takes eight seconds. A busy machine takes a while for so many requests.
	assert.Less(t, took, inTime*3/2+5*busy, "as many that need no storage take %v", busy)
	assert.Equal(t, http.StatusOK, s.status(http.MethodGet, "/healthz", ""))

	redis.Resume()
	waittest.Until(t, "the server is ready", s.isReady)
	s.webhook(pageview("u3", "s1", "https://app.example.com/c"))
}

// Most of these large requests wait for room to be decoded. They do not wait the same time once
// more when it is their turn.
func TestIngest_waitsOnceWhileStorageHangs(t *testing.T) {
	event := pageview("u1", "s1", "https://app.example.com/a")
	body := zip(t, []byte(`{"api_key":"`+acmeToken+`","batch":[`+event+`],"x":"`+strings.Repeat("x", 7<<20)+`"}`))
	log := &watchtest.Log{Log: musttest.New(memorylog.New(nil))}
	log.Before = func(ctx context.Context, op watchtest.Op) error {
		if op.Name == "append" {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	synctest.Test(t, func(t *testing.T) {
		s := newService(io.Discard, func(o *liveactivity.Options) { o.Log = log })
		longest := time.Duration(0)
		var mu sync.Mutex
		var asking sync.WaitGroup
		for range 8 { // there is room for at most six
			asking.Go(func() {
				began := time.Now()
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/e/", bytes.NewReader(body)))
				assert.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
				assert.NotEmpty(t, w.Header().Get("Retry-After"))
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(began))
			})
		}
		asking.Wait()
		assert.Less(t, longest, inTime)
		assert.Greater(t, longest, inTime/2, "they wait for storage to come back")
	})
}

// fullStorage requires that a service without room says so until there is room, and then has
// everything that it acknowledged.
func fullStorage(t *testing.T, s *service, fill, free func()) {
	posted := 0
	event := func() string {
		posted++
		return pageview(fmt.Sprint("u", posted), "s1",
			fmt.Sprintf("https://app.example.com/%d?%s", posted, strings.Repeat("x", 1000)))
	}
	post := func() reply { return s.do(http.MethodPost, "/webhook/acme", event(), "X-PostHog-Secret: "+acmeSecret) }
	require.Equal(t, http.StatusOK, post().status)
	waittest.Until(t, "the server is ready", s.isReady)
	fill()
	for refused := 0; refused < 10; { // some may still fit after the first that does not
		if refused++; post().status == http.StatusOK {
			refused = 0
		}
		require.Less(t, posted, 10_000)
	}
	waittest.Until(t, "the server is not ready", func() bool { return !s.isReady() })
	for name, r := range map[string]func() reply{
		"ingest": post,
		"SDK": func() reply {
			return s.do(http.MethodPost, "/e/", `{"api_key":"`+acmeToken+`","batch":[`+event()+`]}`)
		},
		"register": func() reply {
			return s.do(http.MethodPost, "/admin/products",
				`{"product_id":"initech","allowed_origins":["https://app.example.com`+strings.Repeat(`","https://app.example.com`,
					4<<10)+`"]}`, withAdminKey)
		},
		"readiness": func() reply { return s.do(http.MethodGet, "/readyz", "") },
	} {
		answer := r()
		assert.Equal(t, http.StatusServiceUnavailable, answer.status, "%s: %s", name, answer.body)
		assert.NotEmpty(t, answer.header.Get("Retry-After"), name)
	}
	before := s.lookup("ada")["actions"]
	assert.NotEmpty(t, before, "what is there can be read")

	free()
	waittest.Until(t, "the server is ready", s.isReady)
	posted = 20_000
	require.Equal(t, http.StatusOK, post().status)
	after := s.lookup("ada")["actions"].([]any)
	assert.Contains(t, after[len(after)-1].(map[string]any)["raw_url"], "/20001?")
}

func TestRedis_mayBeFull(t *testing.T) {
	redis := redistest.Start(t)
	s := start(t, withRedis(redis.URL()))
	set := func(maxMemory string) {
		require.NoError(t, redis.Client().ConfigSet(t.Context(), "maxmemory", maxMemory).Err())
	}
	fullStorage(t, s, func() { set("1mb") }, func() { set("0") })
}

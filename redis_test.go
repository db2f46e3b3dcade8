package liveactivity_test

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// A product has one quota of strangers' links, over all servers and desks.
func TestRedis_sharesTheQuotaOfStrangers(t *testing.T) {
	redis := redistest.Start(t)
	d := newDesks()
	servers := []*service{d.start(t, withRedis(redis.URL())), d.start(t, withRedis(redis.URL()))}
	answers := map[int]int{}
	for i := range connector.MaxStrangeLinks + 10 {
		s := servers[i%2]
		session, desk := fmt.Sprint("s", i), []string{"zendesk", "intercom"}[i/2%2]
		s.webhook(pageview(session, session, "https://app.example.com/a"))
		r := s.do(http.MethodPost, "/sessions/link",
			fmt.Sprintf(`{"product_id":"acme","session_id":%q,"conversation_id":"%d","desk":%q}`,
				session, 1000+i, desk), "Origin: https://app.acme.example")
		if answers[r.status]++; r.status != http.StatusOK {
			assert.NotEmpty(t, r.header.Get("Retry-After"))
		}
	}
	assert.Equal(t, map[int]int{http.StatusOK: connector.MaxStrangeLinks, http.StatusTooManyRequests: 10}, answers)
}

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

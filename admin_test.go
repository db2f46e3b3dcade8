package liveactivity_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const withAdminKey = "X-Admin-Key: " + adminKey

// register registers a product, which must succeed, and returns the answer.
func (s *service) register(body string) map[string]string {
	s.t.Helper()
	r := s.do(http.MethodPost, "/admin/products", body, withAdminKey)
	require.Equal(s.t, http.StatusCreated, r.status, r.body)
	assert.Equal(s.t, "no-store", r.header.Get("Cache-Control"))
	fields := map[string]string{}
	for name, value := range r.json(s.t) {
		fields[name] = value.(string)
	}
	return fields
}

func TestAdmin_listsProductsForTheAdminKeyWithoutSecrets(t *testing.T) {
	s := start(t, func(c *liveactivity.Options) { c.PublicURL = "https://live.example.com/base/" })
	refusals := map[string]bool{}
	for name, tt := range map[string]struct {
		header string
		want   int
	}{
		"none":                 {"X-None: x", 401},
		"empty":                {"X-Admin-Key: ", 401},
		"wrong":                {"X-Admin-Key: wrong", 401},
		"a product's key":      {bearer(acmeKey), 401},
		"wrong bearer":         {bearer("wrong"), 401},
		"the key, another way": {"Authorization: Basic " + adminKey, 401},
		"header":               {withAdminKey, 200},
		"bearer":               {bearer(adminKey), 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			r := s.do(http.MethodGet, "/admin/products", "", tt.header)
			assert.Equal(t, tt.want, r.status)
			if tt.want == 200 {
				assert.Equal(t, "no-store", r.header.Get("Cache-Control"), "a shared cache knows nothing of X-Admin-Key")
				assertSilent(t, r.body)
				products := r.json(t)["products"].([]any)
				require.Len(t, products, 2)
				assert.Equal(t, "globex", products[1].(map[string]any)["product_id"])
				assert.Equal(t, map[string]any{
					"product_id": "acme", "webhook_url": "https://live.example.com/base/webhook/acme",
					"stream_url":        "https://live.example.com/base/stream/acme",
					"live_activity_url": "https://live.example.com/base/users/acme/{user_id}/live-activity",
					"mcp_url":           "https://live.example.com/base/mcp",
				}, products[0])
				return
			}
			assert.Equal(t, "Bearer", r.header.Get("WWW-Authenticate"))
			refusals[r.body] = true
			assert.Equal(t, http.StatusUnauthorized, s.status(http.MethodPost, "/admin/products", `{"product_id":"x"}`,
				tt.header))
		})
	}
	assert.Len(t, refusals, 1, "a 401 never says which part was wrong")
}

// The credentials and URLs in the answer open the product at once, in every way.
func TestAdmin_registersAProduct(t *testing.T) {
	s := start(t)
	p := s.register(`{"product_id":"initech","integration_config":{"zendesk":{"base_url":"https://initech.zendesk.com",` +
		`"oauth_token":"x","signing_secret":["a","b"]}}}`)
	assert.Equal(t, map[string]string{
		"product_id": "initech", "webhook_url": s.url + "/webhook/initech", "stream_url": s.url + "/stream/initech",
		"live_activity_url": s.url + "/users/initech/{user_id}/live-activity", "mcp_url": s.url + "/mcp",
		"webhook_secret": p["webhook_secret"], "key": p["key"], "capture_token": p["capture_token"],
	}, p)
	path := func(url string) string { return strings.TrimPrefix(url, s.url) }

	stream := s.stream(path(p["stream_url"]), bearer(p["key"]))
	require.Equal(t, http.StatusOK, s.post(p, pageview("u1", "s1", "https://app.example.com/a")).status)
	r := s.do(http.MethodPost, "/e/", `{"api_key":"`+p["capture_token"]+`","batch":[`+pageview("u2", "s1",
		"https://app.example.com/b")+`]}`)
	require.Equal(t, http.StatusOK, r.status)
	r = s.do(http.MethodGet, strings.Replace(path(p["live_activity_url"]), "{user_id}", "ada", 1), "", bearer(p["key"]))
	assert.Equal(t, 2.0, r.json(t)["count"])
	assert.Equal(t, "initech", stream.nextBatch().ProductID)
	assert.Equal(t, http.StatusOK, s.status(http.MethodPost, path(p["mcp_url"]), toolsList, bearer(p["key"]), asJSON))
	assert.Equal(t, http.StatusForbidden, s.status(http.MethodGet, "/users/acme/ada/live-activity", "", bearer(p["key"])))
	assert.Contains(t, s.do(http.MethodGet, "/admin/products", "", withAdminKey).body, `"product_id":"initech"`)
}

// A removed product leaves no trace at any server, even if it is registered again before a server has
// noticed.
func TestAdmin_removesAProduct(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		a, b := on.start(t, newDesks(), func(o *liveactivity.Options) { o.Heartbeat = 100 * time.Millisecond })
		a.webhook(pageview("u1", "s1", "https://app.example.com/a"))
		report := func(s *service, p map[string]string) int {
			return s.post(p, pageview("u1", "s1", "https://app.example.com/a")).status
		}
		remove := func() int { return a.status(http.MethodDelete, "/admin/products/initech", "", withAdminKey) }
		old := a.register(`{"product_id":"initech"}`)
		stream := b.stream("/stream/initech", bearer(old["key"]))
		require.Equal(t, http.StatusOK, report(a, old))
		assert.Equal(t, "initech", stream.nextBatch().ProductID)

		assert.Equal(t, http.StatusNoContent, remove())
		assert.Equal(t, http.StatusNotFound, report(a, old))
		for _, path := range []string{"/users/initech/ada/live-activity", "/sessions/initech", "/flow/initech"} {
			assert.Equal(t, http.StatusUnauthorized, a.status(http.MethodGet, path, "", bearer(old["key"])))
		}
		for _, f := range stream.rest() {
			assert.Equal(t, "heartbeat", f.Event)
		}
		assert.Equal(t, http.StatusNotFound, remove())
		assert.NotContains(t, b.do(http.MethodGet, "/admin/products", "", withAdminKey).body, "initech")

		for range 3 {
			fresh := a.register(`{"product_id":"initech"}`)
			for _, s := range []*service{a, b} {
				assert.Zero(t, s.flow("initech", fresh["key"]).total())
				found, _ := s.sessionsOf("initech", fresh["key"], "")
				assert.Empty(t, found)
			}
			require.Equal(t, http.StatusOK, report(b, fresh))
			f := b.flow("initech", fresh["key"])
			assert.Equal(t, 1, f.total().Accepted)
			assert.Zero(t, f.Readers, "the removed product's stream is over")
			fresh = a.register(`{"product_id":"initech","force":true}`)
			lookup := b.do(http.MethodGet, "/users/initech/ada/live-activity", "", bearer(fresh["key"])).json(t)
			assert.Equal(t, 1.0, lookup["count"], "the event was no duplicate, and other secrets make no other product")
			found, _ := b.sessionsOf("initech", fresh["key"], "")
			assert.Len(t, found, 1)
			require.Equal(t, http.StatusNoContent, remove())
		}
		assert.Equal(t, 1.0, b.lookup("ada")["count"], "other products keep what they have")
	})
}

// The next registration of an ID never finds an event of the removed one, and loses no event that
// it has acknowledged, however many requests and removals run at either server.
func TestAdmin_partsRegistrationsOfOneID(t *testing.T) {
	const rounds = 12
	url := redistest.Start(t).URL()
	here, there := start(t, withRedis(url)), start(t, withRedis(url))
	failed := 0
	for round := range rounds {
		if !partsRegistrations(t, here, there, round) {
			failed++
		}
	}
	assert.Zero(t, failed, "of %d rounds", rounds)
}

// partsRegistrations removes a product under load and registers it again. It reports whether the
// new registration has all of its own events and no others.
func partsRegistrations(t *testing.T, here, there *service, round int) bool {
	var running sync.WaitGroup
	done := make(chan struct{})
	report := func(p map[string]string, of string, n int) int {
		return there.post(p, pageview(fmt.Sprintf("%s-%d-%d", of, round, n), "s1", "https://"+of+".example.com/a")).status
	}
	old := here.register(`{"product_id":"initech"}`)
	waittest.Until(t, "the first registration is taken", func() bool { return report(old, "old", 0) == http.StatusOK })
	for w := range 8 {
		running.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-done:
					return
				default:
					report(old, "old", 1000*w+n)
				}
			}
		})
	}
	remove := func() { here.do(http.MethodDelete, "/admin/products/initech", "", withAdminKey) }
	running.Go(remove) // which may take longer than the next registration
	var fresh map[string]string
	waittest.Until(t, "the product is registered anew", func() bool {
		r := here.do(http.MethodPost, "/admin/products", `{"product_id":"initech"}`, withAdminKey)
		return r.status == http.StatusCreated && json.Unmarshal([]byte(r.body), &fresh) == nil
	})
	const kept = 5
	for n := range kept {
		waittest.Until(t, "the new registration is taken", func() bool {
			return report(fresh, "new", n) == http.StatusOK
		})
	}
	close(done)
	running.Wait()
	found := there.do(http.MethodGet, "/users/initech/ada/live-activity", "", bearer(fresh["key"])).body
	remove()
	return strings.Count(found, `"https://new.example.com/a","canonical_url`) == kept && !strings.Contains(found, "old.")
}

// Fields that the server sets are refused, and so are references to the environment: they are the product file's, and
// from outside they would read the server's secrets.
func TestAdmin_refusesARegistrationThatIsWrong(t *testing.T) {
	t.Setenv("SOME_SECRET", "https://s3cr3t.example")
	s := start(t)
	for body, says := range map[string]string{
		`{"product_id":"x","webhook_secret":"s3cr3t"}`:                              "webhook_secret",
		`{"product_id":"x","capture_tokens":["phc_x"]}`:                             "capture_tokens",
		`{"product_id":"x","":{"product_id":"y"}}`:                                  "not a known field",
		`{"product_id":"x","identity":{"secrets":["s3cr3t "]}}`:                     "identity.secrets[0]",
		`{"product_id":"x","allowed_origins":["${SOME_SECRET}"]}`:                   "allowed_origins[0]",
		`{"product_id":"x","force":"true"}`:                                         "must be true or false.",
		`{"product_id":"x","Events":{}}`:                                            `did you mean "events"?`,
		`{"product_id":"x","integration_config":{"zendesk":{"base_url":"s3cr3t"}}}`: "integration_config.zendesk.base_url",
	} {
		r := s.do(http.MethodPost, "/admin/products", body, withAdminKey)
		assert.Equal(t, http.StatusBadRequest, r.status, body)
		assert.Contains(t, r.detail(t), says, body)
		assert.Regexp(t, `[^.?][.?]$`, r.detail(t), "one sentence")
	}
	assert.Len(t, s.do(http.MethodGet, "/admin/products", "", withAdminKey).json(t)["products"], 2,
		"nothing was registered")
}

func TestAdmin_isNotThereWithoutAKey(t *testing.T) {
	s := start(t, func(c *liveactivity.Options) { c.AdminKey = "" })
	for _, header := range []string{"X-None: x", "X-Admin-Key: ", "X-Admin-Key: x", "Authorization: Bearer ",
		withAdminKey} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
			assert.Equal(t, http.StatusNotFound, s.status(method, "/admin/products", `{"product_id":"x"}`, header))
		}
	}
}

func TestMetrics_goWithTheirProduct(t *testing.T) {
	s := start(t)
	p := s.register(`{"product_id":"initech"}`)
	require.Equal(t, http.StatusOK, s.post(p, pageview("u1", "s1", "https://app.example.com/a")).status)
	named := func() int {
		return strings.Count(s.do(http.MethodGet, "/metrics", "").body, `product_id="initech"`)
	}
	require.Greater(t, named(), 4)
	require.Equal(t, http.StatusNoContent, s.status(http.MethodDelete, "/admin/products/initech", "", withAdminKey))
	waittest.Until(t, "its series are gone", func() bool { return named() == 0 })
	s.register(`{"product_id":"initech"}`)
	assert.Positive(t, named(), "the sizes of its new log")
}

// audited returns the lines of the audit log, without their times: key, product and door.
func (s *service) audited() (lines []string) {
	for line := range strings.Lines(s.log.String()) {
		var l map[string]any
		require.NoError(s.t, json.Unmarshal([]byte(line), &l))
		if l["audit"] == true {
			assert.Equal(s.t, "INFO", l["level"])
			assert.Len(s.t, l, 7, "nothing else: %s", line)
			lines = append(lines, strings.Join([]string{l["key"].(string), l["product_id"].(string), l["door"].(string)}, " "))
		}
	}
	return lines
}

func TestAdmin_logsEachChangeWithItsProduct(t *testing.T) {
	s := start(t)
	s.register(`{"product_id":"initech"}`)
	s.register(`{"product_id":"initech","force":true}`)
	s.do(http.MethodDelete, "/users/acme/ada", "", withAdminKey)
	s.do(http.MethodDelete, "/users/acme?email=", "", withAdminKey)
	s.webhook(`{"type":"delete","messageId":"d1","userId":"bob"}`)
	s.do(http.MethodDelete, "/admin/products/initech", "", withAdminKey)
	s.do(http.MethodDelete, "/admin/products/initech", "", withAdminKey)
	var changes []string
	for line := range strings.Lines(s.log.String()) {
		if _, change, ok := strings.Cut(line, `"level":"INFO","msg":"a p`); ok {
			changes = append(changes, strings.TrimSpace(change))
		}
	}
	assert.Equal(t, []string{`roduct was registered","product_id":"initech","force":false}`,
		`roduct was registered","product_id":"initech","force":true}`,
		`erson's data were erased","product_id":"acme"}`, `erson's data were erased","product_id":"acme"}`,
		`roduct was removed","product_id":"initech"}`}, changes)
}

func TestAudit_logsTheReaderAndNothingOfThePerson(t *testing.T) {
	s := start(t, func(o *liveactivity.Options) { o.Keys[0].Name, o.Keys[1].Name = "Billing bot", "agent" })
	p := s.register(`{"product_id":"initech","name":"desk"}`)
	s.webhook(pageview("u1", "s1", "https://app.example.com/secret-page"))
	s.lookup("ada")
	s.do(http.MethodGet, "/users/acme/ada/live-activity", "", bearer("wrong"))
	s.do(http.MethodGet, "/sessions/acme/s1", "", bearer(acmeKey))
	s.callTool("ada")
	s.do(http.MethodGet, "/users/initech/ada/live-activity", "", bearer(p["key"]))
	s.do(http.MethodGet, "/users/globex/ada/live-activity", "", bearer(globexKey))
	s.do(http.MethodGet, "/stream/acme?session_id=s1", "", bearer("wrong"))
	s.stream("/stream/acme?session_id=s1", bearer(acmeKey))
	s.stream("/stream/acme", bearer(acmeKey))
	assert.Equal(t, []string{"Billing bot acme live-activity", "Billing bot acme session",
		"agent acme get_live_user_activity", "desk initech live-activity", " globex live-activity",
		"Billing bot acme stream"}, s.audited())
	for line := range strings.Lines(s.log.String()) {
		assert.False(t, strings.Contains(line, `"audit"`) &&
			(strings.Contains(line, "ada") || strings.Contains(line, "secret-page")), line)
	}
}

package liveactivity_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/logtest"
)

// A server goes on where the previous one stopped.
func TestDataDir_survivesARestart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, withDataDir(dir))
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	s.webhook(pageview("u2", "s1", "https://app.example.com/b"))
	initech := s.register(`{"product_id":"initech"}`)
	first := s.stream("/stream/acme?since=1", bearer(acmeKey)).next()
	s.stop()

	s = start(t, withDataDir(dir))
	assert.Equal(t, 2.0, s.lookup("ada")["count"], "the first lookup waits until the server has caught up")
	assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/readyz", "").status)
	resumed := s.stream("/stream/acme", bearer(acmeKey), "Last-Event-ID: "+first.ID)
	assert.Equal(t, "https://app.example.com/b", resumed.nextBatch().Actions[0]["raw_url"])
	s.webhook(pageview("u2", "s1", "https://app.example.com/b"))
	s.webhook(pageview("u3", "s1", "https://app.example.com/c"))
	third := resumed.nextBatch()
	assert.Equal(t, "https://app.example.com/c", third.Actions[0]["raw_url"], "the repeated one is not streamed again")
	assert.Equal(t, 2.0, third.Actions[0]["index"], "the session's count goes on")
	assert.Equal(t, 3.0, s.lookup("ada")["count"])

	assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/users/initech/ada/live-activity", "",
		bearer(initech["key"])).status)
	assert.Equal(t, http.StatusConflict, s.do(http.MethodPost, "/admin/products", `{"product_id":"initech"}`,
		withAdminKey).status)
	again := s.register(`{"product_id":"initech","force":true}`)
	s.stop()

	s = start(t, withDataDir(dir))
	assert.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, "/users/initech/ada/live-activity", "",
		bearer(initech["key"])).status)
	assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/users/initech/ada/live-activity", "",
		bearer(again["key"])).status)
}

// Until it has read its log, a server takes events but answers no lookup and does not report itself
// ready.
func TestDataDir_isNotReadyBeforeItHasCaughtUp(t *testing.T) {
	opts := testOptions(&logtest.Buffer{}, withDataDir(t.TempDir()))
	s, err := liveactivity.New(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, release(opts)) })
	assert.Equal(t, http.StatusServiceUnavailable, ask(s, http.MethodGet, "/readyz", "").Code)
	assert.Equal(t, http.StatusOK, ask(s, http.MethodPost, "/webhook/acme",
		pageview("u1", "s1", "https://app.example.com/a"), "X-PostHog-Secret: "+acmeSecret).Code)
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, path := range []string{"/users/acme/ada/live-activity", "/context/acme?user_id=ada"} {
		w := askWith(soon, s, http.MethodGet, path, "", bearer(acmeKey))
		assert.Equal(t, http.StatusServiceUnavailable, w.Code, path)
		assert.NotEmpty(t, w.Header().Get("Retry-After"))
	}
	w := askWith(soon, s, http.MethodPost, "/mcp", toolsList, bearer(acmeKey), asJSON)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
}

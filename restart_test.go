package liveactivity_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
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
	assert.True(t, s.isReady())
	resumed := s.stream("/stream/acme", bearer(acmeKey), "Last-Event-ID: "+first.ID)
	assert.Equal(t, "https://app.example.com/b", resumed.nextBatch().Actions[0]["raw_url"])
	s.webhook(pageview("u2", "s1", "https://app.example.com/b"))
	s.webhook(pageview("u3", "s1", "https://app.example.com/c"))
	third := resumed.nextBatch()
	assert.Equal(t, "https://app.example.com/c", third.Actions[0]["raw_url"], "the repeated one is not streamed again")
	assert.Equal(t, 2.0, third.Actions[0]["index"], "the session's count goes on")
	assert.Equal(t, 3.0, s.lookup("ada")["count"])

	assert.Equal(t, http.StatusOK, s.status(http.MethodGet, "/users/initech/ada/live-activity", "",
		bearer(initech["key"])))
	assert.Equal(t, http.StatusConflict, s.status(http.MethodPost, "/admin/products", `{"product_id":"initech"}`,
		withAdminKey))
}

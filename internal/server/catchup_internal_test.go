package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/config"
	"github.com/liveactivity/liveactivity/internal/products"
)

// A lookup that waits for the server to catch up does not hold up its stop.
func TestWhenCaughtUp_doesNotWaitForAServerThatStops(t *testing.T) {
	registry := products.New()
	acme, err := registry.AddFixed(config.Product{ProductID: "acme"})
	require.NoError(t, err)
	s, err := New(Config{Addr: "127.0.0.1:0", DataDir: t.TempDir()}, registry, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Release()) })
	close(s.stopping)
	r := httptest.NewRequest(http.MethodGet, "/users/acme/ada/live-activity", nil)
	r.Header.Set("Authorization", "Bearer "+acme.Key)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Nil(t, r.Context().Err())
}

package liveactivity

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lookup that waits for the service to catch up does not hold up its stop.
func TestWhenCaughtUp_doesNotWaitForAServiceThatStops(t *testing.T) {
	acme, key := NewProduct("acme")
	s, err := New(&Options{Products: []Product{acme}, Keys: []Key{key}, Log: newMemoryLog(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s.Stopping()
	r := httptest.NewRequest(http.MethodGet, "/users/acme/ada/live-activity", nil)
	r.Header.Set("Authorization", "Bearer "+key.Key)
	w := httptest.NewRecorder()
	began := time.Now()
	s.Handler().ServeHTTP(w, r)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Less(t, time.Since(began), catchUpPatience)
}

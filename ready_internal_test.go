package liveactivity

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// Storage that hangs from the start gets its 503 as soon as storage that hangs later.
func TestWhenCaughtUp_answersWithin5Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{stages: []<-chan struct{}{make(chan struct{})}, stopping: make(chan struct{})}
		w := httptest.NewRecorder()
		began := time.Now()
		s.whenCaughtUp(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Less(t, time.Since(began), 5*time.Second)
	})
}

func TestProgress_isHowFarTheLogIsReadBack(t *testing.T) {
	fresh, err := New(&Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	assert.Equal(t, eventlog.Progress{Done: true}, fresh.Progress(), "there is nothing to read")

	dir, acme := t.TempDir(), Product{ProductID: "acme"}
	open := func() (*boltlog.Log, *Service) {
		log, err := boltlog.Open(dir, nil)
		require.NoError(t, err)
		s, err := New(&Options{Products: []Product{acme}, Log: log, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		return log, s
	}
	log, before := open()
	for _, id := range []string{"e1", "e2", "e3"} {
		a := activity.NewAction(activity.TypePageview, activity.Target{}, "https://a.example/"+id)
		_, err := before.Record(t.Context(), "acme",
			[]activity.Event{{ID: id, Time: time.Now(), SessionID: id, UserID: "ada", Action: &a}})
		require.NoError(t, err)
	}
	require.NoError(t, log.Release())
	log, s := open()
	assert.Equal(t, eventlog.Progress{}, s.Progress())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	live, err := s.LiveActivity(t.Context(), "acme", "ada", 0)
	require.NoError(t, err)
	assert.Len(t, live.Actions, 3)
	assert.Equal(t, eventlog.Progress{Read: 3, Entries: 3, Done: true}, s.Progress())
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, log.Release())
}

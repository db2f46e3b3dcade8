package liveactivity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/registry"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// ErrNotReady says that the service has not caught up with its log yet.
var ErrNotReady = errors.New("liveactivity: catching up with the log")

// catchUpRetry is how long to wait before asking storage again that could not
// be read.
const catchUpRetry = time.Second

// catchUp fills the store from a log that was there before the service, until
// it has succeeded or ctx ends.
func (s *Service) catchUp(ctx context.Context) {
	if !s.engine.isBehind() {
		return
	}
	began := time.Now()
	for {
		err := s.replay(ctx)
		if err == nil {
			if n := s.read.Load(); n > 0 {
				s.log.Info("the log was read back", "entries", n, "seconds", time.Since(began).Seconds())
			}
			close(s.caughtUp)
			return
		}
		if ctx.Err() == nil {
			s.log.Warn("cannot catch up with the log", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(catchUpRetry):
		}
	}
}

// replay files what the log holds of the products.
func (s *Service) replay(ctx context.Context) error {
	if err := s.products.Load(ctx); err != nil && !errors.Is(err, registry.ErrUnreadable) {
		return err
	}
	ids := s.products.IDs()
	s.read.Store(0)
	s.entries.Store(s.engine.entries(ids))
	for _, id := range ids {
		if _, err := eventlog.Replay(ctx, s.engine.Log, id, counted{s.engine.filing, &s.read}); err != nil {
			return fmt.Errorf("product %s: %w", id, err)
		}
	}
	return nil
}

// counted is a store that counts the batches it is given.
type counted struct {
	activity.Store
	n *atomic.Int64
}

// Add implements [activity.Store].
func (c counted) Add(ctx context.Context, b activity.Batch) error {
	c.n.Add(1)
	return c.Store.Add(ctx, b)
}

// Progress is how far a service has read its log back.
type Progress struct {
	Read    int64 // entries
	Entries int64 // that there were when it began; zero where the log cannot say
	Done    bool  // lookups can be answered
}

// Progress returns how far the service has read its log back, which it does at the
// start of Run where the log was there before and does not file actions itself.
func (s *Service) Progress() Progress {
	return Progress{Read: s.read.Load(), Entries: s.entries.Load(), Done: isClosed(s.caughtUp)}
}

// catchUpPatience is how long a lookup waits for the service to catch up. Most
// logs are read in less.
const catchUpPatience = 5 * time.Second

// awaitCatchUp waits a while until the service has caught up.
func (s *Service) awaitCatchUp(ctx context.Context) error {
	if isClosed(s.caughtUp) {
		return nil
	}
	patience, cancel := context.WithTimeout(ctx, catchUpPatience)
	defer cancel()
	select {
	case <-s.caughtUp:
		return nil
	case <-s.stopping:
	case <-patience.Done():
	}
	return ErrNotReady
}

// whenCaughtUp lets requests wait a while until the service has caught up.
func (s *Service) whenCaughtUp(next http.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		if err := s.awaitCatchUp(r.Context()); err != nil {
			return httpx.Unavailable(err)
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

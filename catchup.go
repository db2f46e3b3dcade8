package liveactivity

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/outage"
	"github.com/liveactivity/liveactivity/internal/registry"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// catchUpRetry is how long to wait before asking storage again that could not
// be read.
const catchUpRetry = time.Second

// catchUp loads the registrations, until it has succeeded or ctx ends, and then
// waits for the log. From then on lookups can be answered.
func (s *Service) catchUp(ctx context.Context) {
	if isClosed(s.caughtUp) {
		return
	}
	for err := s.products.Load(ctx); err != nil && !errors.Is(err, registry.ErrUnreadable); err = s.products.Load(ctx) {
		if ctx.Err() == nil {
			s.log.Log(ctx, outage.Level(err, slog.LevelWarn), "cannot catch up with the log", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(catchUpRetry):
		}
	}
	select {
	case <-ctx.Done():
	case <-s.readBack:
		close(s.caughtUp)
	}
}

// report takes over how far the log has read itself back.
func (s *Service) report(p eventlog.Progress) {
	s.progress.Store(&p)
	if !p.Done {
		return
	}
	if p.Read > 0 {
		s.log.Info("the log was read back", "entries", p.Read, "seconds", time.Since(s.began).Seconds())
	}
	close(s.readBack)
}

// Progress returns how far the service has read its log back into memory, at the
// start of Run. With Done, lookups can be answered.
func (s *Service) Progress() eventlog.Progress {
	var p eventlog.Progress
	if last := s.progress.Load(); last != nil {
		p = *last
	}
	p.Done = isClosed(s.caughtUp)
	return p
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

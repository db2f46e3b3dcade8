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

// After a start a service is behind in two ways: it does not know the products registered at
// other servers, and an engine may have to read its log back. Requests that only append are
// served meanwhile; lookups wait.
//
//	Run       engine.Run reads back and reports → readBack is closed
//	catchUp   loads the registrations, then awaits readBack → caughtUp is closed
//	lookups   await caughtUp, for catchUpPatience at most
//
// A new log in memory has caught up from the beginning.

// catchUpRetry is how long to wait before asking storage again that could not
// be read.
const catchUpRetry = time.Second

// catchUp loads the registrations, until it has succeeded or ctx ends, and then waits for the
// log. From then on lookups can be answered. Registrations that cannot be decoded do not hold
// it up.
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

// report takes over how far the log has read itself back. The engine calls it with Done once.
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

// awaitCatchUp waits until the service has caught up: for catchUpPatience at most, and no
// longer than ctx or until a stop begins. Its error is ErrNotReady.
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

// whenCaughtUp lets requests wait a while until the service has caught up, and answers 503 if
// it has not: within 5 seconds.
func (s *Service) whenCaughtUp(next http.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), catchUpPatience-100*time.Millisecond)
		defer cancel()
		if err := s.awaitCatchUp(ctx); err != nil {
			return httpx.Unavailable(err)
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

package liveactivity

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/serve"
)

// After a start, a service must load the products registered at other servers, and its engine may
// have to read the log back. Until then it serves requests that only append, and lookups wait for
// both, for catchUpPatience at most. A service on a new log in memory has caught up from the start.

// isCaughtUp reports whether lookups can be answered.
func (s *Service) isCaughtUp() bool {
	return !slices.ContainsFunc(s.stages, func(stage <-chan struct{}) bool { return !isClosed(stage) })
}

// catchUpPatience is the longest time that a lookup waits for the service to catch up, so that it is
// answered within 5 seconds. Most logs are read in less.
const catchUpPatience = 4900 * time.Millisecond

// awaitCatchUp waits until the service has caught up. It returns ErrNotReady after catchUpPatience,
// or once ctx ends or a stop begins.
func (s *Service) awaitCatchUp(ctx context.Context) error {
	if s.isCaughtUp() {
		return nil
	}
	patience, cancel := context.WithTimeout(ctx, catchUpPatience)
	defer cancel()
	for _, stage := range s.stages {
		select {
		case <-stage:
		case <-s.stopping:
			return ErrNotReady
		case <-patience.Done():
			return ErrNotReady
		}
	}
	return nil
}

// whenCaughtUp delays requests until the service has caught up. If that takes too long, it answers 503.
func (s *Service) whenCaughtUp(next http.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		if err := s.awaitCatchUp(r.Context()); err != nil {
			return httpx.Unavailable(err)
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// pingResult is the result of the last check that storage is writable.
type pingResult struct {
	turn chan struct{} // of capacity 1; its holder may use the other fields
	at   time.Time
	err  error
}

const (
	pingTimeout = 2 * time.Second // limit of a check
	pingHolds   = time.Second     // lifetime of a result, so that many calls cost one check
)

// ping returns nil if storage is writable, or was less than a second ago. A disconnecting caller does
// not end a check, since others may be waiting for it.
func (s *Service) ping(ctx context.Context) error {
	s.lastPing.turn <- struct{}{} // every holder ends soon after pingTimeout
	defer func() { <-s.lastPing.turn }()
	if time.Since(s.lastPing.at) < pingHolds {
		return s.lastPing.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
	defer cancel()
	s.lastPing.err = s.engine.Ping(ctx)
	s.lastPing.at = time.Now()
	return s.lastPing.err
}

// ready returns nil if the service can answer lookups, accepts events and is not stopping.
func (s *Service) ready(r *http.Request) error {
	if isClosed(s.stopping) {
		return serve.NotReady("The server is stopping.", nil)
	}
	if !s.isCaughtUp() {
		return serve.NotReady("The server is still reading its log.", nil)
	}
	if err := s.ping(r.Context()); err != nil {
		return serve.NotReady("The storage cannot be written to.", err)
	}
	return nil
}

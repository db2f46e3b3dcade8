package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

var errCatchingUp = errors.New("catching up with the log")

// catchUpRetry is how long to wait before asking storage again that could not
// be read.
const catchUpRetry = time.Second

// catchUp fills the memory from a log that was there before the server, until
// it has succeeded or ctx ends.
func (s *Server) catchUp(ctx context.Context) {
	if !s.storage.behind {
		return
	}
	began := time.Now()
	for {
		err := s.storage.catchUp(ctx, s.products)
		if err == nil {
			s.log.Debug("caught up with the log", "seconds", time.Since(began).Seconds())
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

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// catchUpPatience is how long a lookup waits for the server to catch up. Most
// logs are read in less.
const catchUpPatience = 5 * time.Second

// whenCaughtUp lets requests wait a while until the server has caught up.
func (s *Server) whenCaughtUp(next http.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		if !isClosed(s.caughtUp) {
			patience, cancel := context.WithTimeout(r.Context(), catchUpPatience)
			defer cancel()
			select {
			case <-s.caughtUp:
			case <-s.stopping:
				return httpx.Unavailable(errCatchingUp)
			case <-patience.Done():
				return httpx.Unavailable(errCatchingUp)
			}
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

package serve

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Service is what is behind a handler and has to outlive its requests.
type Service interface {
	Handler() http.Handler
	// Stopping is called when the stop begins, before the requests in flight
	// are waited for.
	Stopping()
	// Run returns some time after its context has ended, or else with why it
	// cannot go on.
	Run(ctx context.Context) error
}

// Serve serves a service on the listener, which it closes, until ctx ends or
// something fails. Then it finishes the requests in flight, ends the context of
// Run, and returns when Run has returned.
func Serve(ctx context.Context, listener net.Listener, service Service, log *slog.Logger) error {
	server := New(service.Handler(), log)
	group, ctx := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return server.Serve(listener) })
	group.Go(func() error { return service.Run(running) })
	group.Go(func() error {
		<-ctx.Done()
		defer stop()
		service.Stopping()
		limit, cancel := context.WithTimeout(running, requestTime)
		defer cancel()
		if err := server.Shutdown(limit); err != nil {
			log.Warn("requests were cut off", "err", err)
		}
		return nil
	})
	return group.Wait()
}

// requestTime is how much of ShutdownTime requests in flight may take: streams
// are to have some of it.
const requestTime time.Duration = ShutdownTime * 2 / 3

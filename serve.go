package liveactivity

import (
	"context"
	"net"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/serve"
)

// Serve serves the service on a listener until ctx ends or its log fails, and closes
// the listener. Then it finishes the requests in flight, sends every stream the rest of
// the log, closes the log and returns, at the latest 8 seconds after the stop began. A
// stop in order returns nil. A service is served once.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	return s.ServeHandler(ctx, listener, s.Handler())
}

// ServeHandler is Serve with another handler, such as a mux that has [Service.Handler]
// at "/" beside the pages of the program.
func (s *Service) ServeHandler(ctx context.Context, listener net.Listener, handler http.Handler) error {
	return serve.Serve(ctx, listener, serve.Service{
		Handler: handler, Stopping: s.Stopping, Run: []func(context.Context) error{s.Run},
	}, s.log)
}

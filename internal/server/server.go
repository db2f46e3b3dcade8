// Package server puts the parts of liveactivity together into one service.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/observe"
	"github.com/liveactivity/liveactivity/internal/products"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/stream"
)

// Config of a [Server]. Zero durations and sizes mean the defaults of the
// packages that use them.
type Config struct {
	Addr        string
	AdminKey    string // opens the admin endpoints; empty closes them
	PublicURL   string // how the world reaches the server; empty for the bound address
	DataDir     string // the folder of a log that lasts; empty for none
	RedisURL    string // of a log that lasts and is shared; empty for none
	RedisPrefix string // of all keys in Redis; empty for the default
	ActivityTTL time.Duration
	MaxEvents   int
	LogMaxBytes int64
	Heartbeat   time.Duration
}

// Validate returns everything that is wrong with the addresses and places
// of the configuration, in the names of the flags.
func (c Config) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := serve.CheckAddr(c.Addr); err != nil {
		fail("--addr: %w", err)
	}
	if c.PublicURL != "" {
		if u, err := url.Parse(c.PublicURL); err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			fail("--public-url: must be a URL such as https://live.example.com")
		}
	}
	if c.DataDir != "" && c.RedisURL != "" {
		fail("--data-dir, --redis-url: state is kept in one place, choose one of them")
	}
	return errors.Join(errs...)
}

// Server is a liveactivity service.
type Server struct {
	config   Config
	products *products.Registry
	log      *slog.Logger

	storage *storage
	streams *stream.Handler
	handler http.Handler

	publicURL atomic.Pointer[string] // as configured, or else as bound
	caughtUp  chan struct{}          // closed when lookups can be answered
	stopping  chan struct{}          // closed when the server begins to stop
}

// New opens the storage and returns a server that does nothing yet. It must
// serve, or be freed by Release.
func New(config Config, registry *products.Registry, log *slog.Logger) (*Server, error) {
	storage, err := openStorage(config, log)
	if err != nil {
		return nil, err
	}
	registry.Attach(storage.log)
	s := &Server{config: config, products: registry, log: log, storage: storage, caughtUp: make(chan struct{}), stopping: make(chan struct{})}
	if !storage.behind {
		close(s.caughtUp)
	}
	s.publicURL.Store(&s.config.PublicURL)
	reg := serve.NewRegistry()
	reg.MustRegister(storage.collectors...)
	s.handler = s.routes(reg)
	return s, nil
}

// Release lets go of the storage. Serve does so itself.
func (s *Server) Release() error { return s.storage.release() }

// routes puts every endpoint in its place.
func (s *Server) routes(reg *prometheus.Registry) http.Handler {
	keys := s.products.Keys()
	lookup := activity.NewLookup(s.storage.store, s.config.MaxEvents)
	s.streams = stream.NewHandler(s.storage.log, &stream.HandlerOptions{Heartbeat: s.config.Heartbeat, Logger: s.log, Metrics: reg})
	recorder := stream.NewRecorder(s.storage.log, s.storage.filing, &stream.RecorderOptions{TTL: s.config.ActivityTTL, Metrics: reg})
	ingest := posthog.NewHandler(recorder, s.products, &posthog.Options{TTL: s.config.ActivityTTL, Metrics: reg})
	mcp := mcptool.NewHandler(lookup, keys, &mcptool.Options{Logger: s.log})

	// An SDK's host may have been given a path.
	mux := httpx.NewMux(func(w http.ResponseWriter, r *http.Request) bool {
		if !posthog.IsSDKPath(r.URL.Path) {
			return false
		}
		ingest.ServeSDK(w, r)
		return true
	})
	for _, pattern := range posthog.SDKPatterns() {
		mux.Handle(pattern, http.HandlerFunc(ingest.ServeSDK))
	}
	mux.Handle("POST /webhook/{product_id}", http.HandlerFunc(ingest.ServeWebhook))
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", keys.Require(access.MCP, s.whenCaughtUp(lookup)))
	mux.Handle("/mcp", s.whenCaughtUp(mcp))
	mux.Handle("/mcp/{$}", s.whenCaughtUp(mcp))
	mux.Handle("GET /stream/{product_id}", keys.Require(access.Stream, s.streams))
	serve.Mount(mux, reg, s.ready)
	if s.config.AdminKey != "" {
		admin := newAdmin(s.config.AdminKey, s.products, s.URLs)
		mux.Handle("POST /admin/products", admin.require(admin.register))
		mux.Handle("GET /admin/products", admin.require(admin.list))
	}
	route := func(r *http.Request) string {
		switch pattern := httpx.Route(r); {
		case pattern != "":
			return pattern
		case posthog.IsSDKPath(r.URL.Path):
			return "SDK below a path"
		}
		return "none"
	}
	return observe.New(s.log, reg).Wrap(route, mux)
}

// pingTimeout is how long storage may take to show that it is there.
const pingTimeout = 2 * time.Second

func (s *Server) ready(r *http.Request) error {
	if isClosed(s.stopping) {
		return serve.NotReady("The server is stopping.", nil)
	}
	if !isClosed(s.caughtUp) {
		return serve.NotReady("The server is still reading its log.", nil)
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	if err := s.storage.ping(ctx); err != nil {
		return serve.NotReady("The storage cannot be written to.", err)
	}
	return nil
}

// Handler returns the HTTP side of the server, for tests that bring their own listener.
func (s *Server) Handler() http.Handler { return s.handler }

// URLs returns the addresses of the service, once it runs.
func (s *Server) URLs() URLs { return URLs{strings.TrimRight(*s.publicURL.Load(), "/")} }

// Run listens and serves until ctx ends; then it finishes the requests that
// are under way, sends every stream what it has not read, and returns. The
// function started, if not nil, is called when the server is about to take
// requests.
func (s *Server) Run(ctx context.Context, started func(*Server, net.Addr)) error {
	listener, err := net.Listen("tcp", s.config.Addr)
	if err != nil {
		return errors.Join(fmt.Errorf("cannot listen on %s: %w", s.config.Addr, err), s.Release())
	}
	return s.Serve(ctx, listener, started)
}

// Serve is Run on a listener, which it closes.
func (s *Server) Serve(ctx context.Context, listener net.Listener, started func(*Server, net.Addr)) error {
	if s.config.PublicURL == "" {
		bound := serve.URL(listener.Addr())
		s.publicURL.Store(&bound)
	}
	httpServer := serve.New(s.handler, s.log)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return httpServer.Serve(listener) })
	group.Go(func() error { return s.storage.serve(ctx, s.products, s.log) })
	group.Go(func() error {
		s.catchUp(ctx)
		s.tidy(ctx)
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		s.stop(httpServer)
		return nil
	})
	if started != nil {
		started(s, listener.Addr())
	}
	return errors.Join(group.Wait(), s.storage.release())
}

// stop ends everything in order: no new connections, then the requests under
// way, then the log, then its readers.
func (s *Server) stop(httpServer *serve.Server) {
	close(s.stopping)
	s.log.Info("stopping")
	ctx, cancel := context.WithTimeout(context.Background(), serve.ShutdownTime)
	defer cancel()
	requests, cancelRequests := context.WithTimeout(ctx, serve.ShutdownTime*2/3)
	defer cancelRequests()
	if err := httpServer.Shutdown(requests); err != nil {
		s.log.Warn("requests were cut off", "err", err)
	}
	if err := s.storage.log.Close(); err != nil {
		s.log.Warn("the log was not closed", "err", err)
	}
	if err := s.streams.Wait(ctx); err != nil {
		s.log.Warn("streams were cut off", "err", err)
	}
	s.log.Info("stopped")
}

// tidyEvery is how often expired data is freed.
const tidyEvery = time.Minute

func (s *Server) tidy(ctx context.Context) {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := s.storage.expire(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("expired data was not removed", "err", err)
			}
		}
	}
}

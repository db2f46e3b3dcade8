// Package serve connects this module's services to the network: an HTTP server
// with limits and a graceful shutdown, and the endpoints that operators expect.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/outage"
)

// Limits of a server. They do not cut off streams, which write under their own
// deadlines. A proxy must be the one that closes an idle connection, or it may send a
// request into its end. Google's load balancer keeps one for 10 minutes, Cloudflare for 15.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = readTimeout + 10*time.Second // includes the answer to a body that never arrives
	idleTimeout       = 16 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// New returns a server with limits that logs connection errors at debug level, since strangers
// can cause any number of them.
func New(handler http.Handler, log *slog.Logger) *http.Server {
	silent := &silentConns{}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnState:         silent.note,
	}
	server.RegisterOnShutdown(func() { time.AfterFunc(silentTime, silent.close) })
	return server
}

// UntilClosed serves until the server is shut down or closed, and then returns nil.
func UntilClosed(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve: %w", err)
	}
	return nil
}

// ShutdownTime is the time for a shutdown; longer requests are cut off.
const ShutdownTime = 8 * time.Second

// requestTime is the part of ShutdownTime for requests in flight: the rest is
// for streams.
const requestTime = ShutdownTime * 2 / 3

// Service is a handler and the work that runs alongside it. During shutdown the handler
// still serves the requests in flight, so that work continues until they are finished.
type Service struct {
	Handler http.Handler
	// Stopping is called when the shutdown begins, before the wait for requests
	// in flight; it may be nil.
	Stopping func()
	// Run has the functions that outlive the requests. Each returns some time
	// after its context has ended, or earlier with the reason why it cannot
	// continue.
	Run []func(ctx context.Context) error
}

// Listen listens on a TCP address. Its error names the flag.
func Listen(flag, addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen on %s: %w", flag, addr, err)
	}
	return listener, nil
}

// Serve serves a service on the listener, which it closes, until ctx ends or something fails.
// Then it finishes the requests in flight, ends the context of the Run functions, and returns
// once they have returned. Requests that take longer than two thirds of ShutdownTime are cut
// off; the Run functions have no limit here. The error is the first failure, or nil if ctx
// ended.
func Serve(ctx context.Context, listener net.Listener, service Service, log *slog.Logger) error {
	server := New(service.Handler, log)
	group, ctx := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return UntilClosed(server, &watched{Listener: listener, log: log}) })
	for _, run := range service.Run {
		group.Go(func() error {
			if err := run(running); running.Err() == nil || !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		defer stop()
		if service.Stopping != nil {
			service.Stopping()
		}
		limit, cancel := context.WithTimeout(running, requestTime)
		defer cancel()
		if err := server.Shutdown(limit); err != nil {
			log.Warn("requests were cut off", "err", err)
			_ = server.Close() // the listener is already closed
		}
		return nil
	})
	return group.Wait()
}

// watched is a listener that logs its failures, such as too few file descriptors. The server
// repeats a failed call, and its clients notice nothing but silence.
type watched struct {
	net.Listener
	log  *slog.Logger
	pace outage.Pace
}

func (w *watched) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) && w.pace.Due(time.Minute) {
		w.log.Warn("cannot accept connections", "err", err)
	}
	return conn, err
}

// URL returns the URL of a bound address, on localhost if it is unspecified.
func URL(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return "http://localhost:" + strconv.Itoa(tcp.Port)
	}
	return "http://" + addr.String()
}

// CheckAddr returns the mistake in a listen address, if any.
func CheckAddr(addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return errors.New("must be HOST:PORT, such as 127.0.0.1:8080")
	}
	return nil
}

// NewRegistry returns a registry with the process's metrics.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// MountMetrics adds /metrics to the mux.
func MountMetrics(mux *httpx.Mux, reg *prometheus.Registry) {
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
}

// Mount adds /healthz and /readyz to the mux. The function ready returns the reason why
// requests cannot be served at the moment, or nil; [NotReady] makes such errors. It is called
// for every request, concurrently, and should not wait long.
func Mount(mux *httpx.Mux, ready func(*http.Request) error) {
	mux.Handle("GET /healthz", httpx.Handler(func(w http.ResponseWriter, _ *http.Request) error {
		return httpx.WriteLive(w, map[string]string{"status": "ok"})
	}))
	mux.Handle("GET /readyz", httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		if err := ready(r); err != nil {
			return err
		}
		return httpx.WriteLive(w, map[string]string{"status": "ready"})
	}))
}

// NotReady returns the answer with the reason; the cause is for the log.
func NotReady(why string, cause error) error {
	e := httpx.Unavailable(cause)
	e.Detail = why
	return e
}

// OnceCaughtUp returns a function for Mount: a service that keeps a stream's
// data is ready once it has caught up, and stays ready while the stream is
// interrupted.
func OnceCaughtUp(consumer interface{ CaughtUp() bool }) func(*http.Request) error {
	return func(*http.Request) error {
		if !consumer.CaughtUp() {
			return NotReady("The event stream has not been caught up with.", nil)
		}
		return nil
	}
}

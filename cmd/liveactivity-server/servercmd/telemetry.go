package servercmd

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/otlp"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/serve"
)

// openMetrics prepares the server for /metrics at its separate address, and makes the
// service register its metrics there. Without such an address it returns nil. The caller
// must serve the listener and close it.
func (s *settings) openMetrics() (*http.Server, net.Listener, error) {
	if s.MetricsAddr == "" {
		return nil, nil, nil
	}
	listener, err := serve.Listen("--metrics-addr", s.MetricsAddr)
	if err != nil {
		return nil, nil, err
	}
	reg, mux := serve.NewRegistry(), httpx.NewMux(nil)
	serve.MountMetrics(mux, reg)
	s.Metrics = reg
	return serve.New(mux, s.Logger), listener, nil
}

// exportTimeout limits the final export when the server stops.
const exportTimeout = 5 * time.Second

// newService returns the service, and a function that ends the export of its traces and
// metrics, which the environment enables. Call exported after the service has stopped, so
// that the export includes its final values; if newService fails, it has already called
// exported.
func (s *settings) newService(ctx context.Context) (_ *liveactivity.Service, exported func(), err error) {
	exporter, err := otlp.Open(ctx, &otlp.Options{Logger: s.Logger})
	if err != nil {
		return nil, nil, err
	}
	exported = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
		defer cancel()
		if err := exporter.Close(ctx); err != nil {
			s.Logger.Warn("the last telemetry is lost", "err", err)
		}
	}
	s.Tracer = exporter.Tracer()
	service, err := liveactivity.New(&s.Options)
	if err == nil {
		metrics := service.Metrics()
		if registry, ok := s.Metrics.(prometheus.Gatherer); ok {
			metrics = registry
		}
		err = exporter.Export(ctx, metrics)
	}
	if err != nil {
		exported()
		return nil, nil, err
	}
	return service, exported, nil
}

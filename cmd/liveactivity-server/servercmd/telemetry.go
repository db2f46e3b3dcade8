package servercmd

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/otlp"
)

// exportTimeout bounds the last export of a server that stops.
const exportTimeout = 5 * time.Second

// newService returns the service, and a function that ends the export of its traces and
// metrics, which the environment switches on.
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

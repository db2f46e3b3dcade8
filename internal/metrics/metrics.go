// Package metrics registers collectors so that two owners of the same kind can
// share a registry.
package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/internal/options"
)

// Register registers a collector and returns the one to use: c or, if an equal
// one is already registered, that one, so that both owners count together. To
// separate them, pass registries made with [prometheus.WrapRegistererWith]. A
// nil registry leaves c unregistered. If the registry holds a different
// collector with the same name, that is a mistake in the option Metrics.
//
// It is for collectors that are written to. A collector that calls a function
// when it is read, such as a GaugeFunc, would only ever read the first owner's
// values.
func Register[C prometheus.Collector](wrong *options.Mistakes, reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := registered.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		wrong.Require(false, "Metrics", "cannot be registered on: "+err.Error())
	}
	return c
}

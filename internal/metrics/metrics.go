// Package metrics registers collectors so that two of a kind can share a
// registry.
package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/internal/options"
)

// Register registers a collector and returns the one to use: c or, where an
// equal one is registered already, that one, so that two of a kind count
// together. To keep them apart a caller passes registries of
// [prometheus.WrapRegistererWith]. A nil registry leaves c unregistered. A
// registry that holds another collector of the same name is a mistake in the
// option Metrics.
//
// It is for collectors that are written to. One that calls a function when it
// is read, such as a GaugeFunc, would go on reading for the first owner only.
func Register[C prometheus.Collector](wrong *options.Mistakes, reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		if existing, ok := registered.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		wrong.Require(false, "Metrics", "cannot be registered on: "+err.Error())
	}
	return c
}

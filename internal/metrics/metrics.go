// Package metrics registers collectors so that two of a kind can share a
// registry.
package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector and returns the one to use: c or, where an
// equal one is registered already, that one, so that two of a kind count
// together. To keep them apart a caller passes registries of
// [prometheus.WrapRegistererWith]. A nil registry leaves c unregistered.
// Register panics where the registry holds another collector of the same name,
// like MustRegister.
//
// It is for collectors that are written to. One that calls a function when it
// is read, such as a GaugeFunc, would go on reading for the first owner only.
func Register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
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
		panic(err)
	}
	return c
}

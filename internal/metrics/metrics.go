// Package metrics registers collectors so that two owners of the same kind can
// share a registry.
package metrics

import (
	"errors"
	"sync"

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

// Registry registers collectors with another registerer, and can remove a product's series
// from all of them. Its methods are safe for concurrent use.
type Registry struct {
	prometheus.Registerer

	mu      sync.Mutex
	vectors []vector
}

// vector is a collector with a series for each combination of labels.
type vector interface {
	DeletePartialMatch(labels prometheus.Labels) int
}

// Register implements [prometheus.Registerer].
func (r *Registry) Register(c prometheus.Collector) error {
	err := r.Registerer.Register(c)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		c = registered.ExistingCollector
	}
	if v, ok := c.(vector); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.vectors = append(r.vectors, v)
	}
	return err
}

// Forget removes the series with that product_id. If the product is counted again, its series
// begin at zero.
func (r *Registry) Forget(productID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.vectors {
		v.DeletePartialMatch(prometheus.Labels{"product_id": productID})
	}
}

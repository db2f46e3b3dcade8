package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/option"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/options"
)

func counter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "x_total", Help: "X."})
}

func TestRegister_twoOfAKindCountTogether(t *testing.T) {
	var wrong options.Mistakes
	reg := prometheus.NewRegistry()
	metrics.Register(&wrong, reg, counter()).Inc()
	metrics.Register(&wrong, reg, counter()).Add(2)
	assert.Equal(t, map[string]float64{"": 3}, metricstest.By(t, reg, "x_total"))
	require.NoError(t, wrong.Err())
}

func TestRegister_wrappedRegistriesKeepThemApart(t *testing.T) {
	var wrong options.Mistakes
	reg := prometheus.NewRegistry()
	for _, product := range []string{"acme", "globex"} {
		wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"product_id": product}, reg)
		metrics.Register(&wrong, wrapped, counter()).Inc()
		metrics.Register(&wrong, wrapped, counter()).Inc()
	}
	assert.Equal(t, map[string]float64{"acme": 2, "globex": 2}, metricstest.By(t, reg, "x_total", "product_id"))
	require.NoError(t, wrong.Err())
}

func TestRegister_withoutARegistryReturnsTheCollector(t *testing.T) {
	var wrong options.Mistakes
	c := counter()
	assert.Same(t, c, metrics.Register(&wrong, nil, c))
	require.NoError(t, wrong.Err())
}

func TestRegister_reportsAnotherCollectorOfTheName(t *testing.T) {
	reg := prometheus.NewRegistry()
	metrics.Register(new(options.Mistakes), reg, counter())
	for name, other := range map[string]prometheus.Collector{
		"another help text": prometheus.NewCounter(prometheus.CounterOpts{Name: "x_total", Help: "Y."}),
		"another label":     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x_total", Help: "X."}, []string{"label"}),
	} {
		wrong := options.Mistakes{Package: "p"}
		assert.Same(t, other, metrics.Register(&wrong, reg, other), name)
		var mistake *option.Error
		require.ErrorAs(t, wrong.Err(), &mistake, name)
		assert.Equal(t, "Metrics", mistake.Option, name)
	}
	// The description is the same, but the kind is another.
	wrong := options.Mistakes{Package: "p"}
	metrics.Register(&wrong, reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: "x_total", Help: "X."}))
	require.Error(t, wrong.Err())
}

func TestRegistry_forgetsAProduct(t *testing.T) {
	var wrong options.Mistakes
	inner := prometheus.NewRegistry()
	vec := func() *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x_total", Help: "X."}, []string{"product_id", "result"})
	}
	metrics.Register(&wrong, inner, vec()) // by another service
	reg := &metrics.Registry{Registerer: inner}
	shared := metrics.Register(&wrong, reg, vec())
	for _, product := range []string{"acme", "globex"} {
		shared.WithLabelValues(product, "a").Inc()
		shared.WithLabelValues(product, "b").Inc()
	}
	reg.Forget("acme")
	assert.Equal(t, map[string]float64{"globex": 2}, metricstest.By(t, inner, "x_total", "product_id"))
	require.NoError(t, wrong.Err())
}

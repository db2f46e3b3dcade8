package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/metrics"
)

func counter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "x_total", Help: "X."})
}

// values returns those of the metric x_total.
func values(t *testing.T, reg prometheus.Gatherer) (all []float64) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	for _, m := range families[0].GetMetric() {
		all = append(all, m.GetCounter().GetValue())
	}
	return all
}

func TestRegister_twoOfAKindCountTogether(t *testing.T) {
	reg := prometheus.NewRegistry()
	metrics.Register(reg, counter()).Inc()
	metrics.Register(reg, counter()).Add(2)
	assert.Equal(t, []float64{3}, values(t, reg))
}

func TestRegister_wrappedRegistriesKeepThemApart(t *testing.T) {
	reg := prometheus.NewRegistry()
	for _, product := range []string{"acme", "globex"} {
		wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"product_id": product}, reg)
		metrics.Register(wrapped, counter()).Inc()
		metrics.Register(wrapped, counter()).Inc()
	}
	assert.Equal(t, []float64{2, 2}, values(t, reg))
}

func TestRegister_withoutARegistryReturnsTheCollector(t *testing.T) {
	c := counter()
	assert.Same(t, c, metrics.Register(nil, c))
}

func TestRegister_panicsWhereAnotherCollectorHasTheName(t *testing.T) {
	reg := prometheus.NewRegistry()
	metrics.Register(reg, counter())
	assert.Panics(t, func() {
		metrics.Register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: "x_total", Help: "Y."}))
	})
	assert.Panics(t, func() {
		metrics.Register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x_total", Help: "X."}, []string{"label"}))
	})
	assert.Panics(t, func() { // the same description, but of another kind
		metrics.Register(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: "x_total", Help: "X."}))
	})
}

// Package metricstest reads metrics in tests.
package metricstest

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// Sum returns the sum of a metric's series, or of those with a label of each of these values. The
// value of a histogram is the sum of its samples.
func Sum(t testing.TB, reg prometheus.Gatherer, name string, values ...string) (sum float64) {
	t.Helper()
	for _, m := range series(t, reg, name) {
		if !slices.ContainsFunc(values, func(value string) bool { return !slices.Contains(labels(m), value) }) {
			sum += value(m)
		}
	}
	return sum
}

// By returns the sums of a metric's series by their values of these labels, or of all labels. Several
// values are in the alphabetical order of the labels, with spaces between them.
func By(t testing.TB, reg prometheus.Gatherer, name string, of ...string) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	for _, m := range series(t, reg, name) {
		sums[strings.TrimSpace(strings.Join(labels(m, of...), " "))] += value(m)
	}
	return sums
}

func series(t testing.TB, reg prometheus.Gatherer, name string) []*dto.Metric {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}

// labels returns the values of these labels, or of all.
func labels(m *dto.Metric, of ...string) (values []string) {
	for _, label := range m.GetLabel() {
		if len(of) == 0 || slices.Contains(of, label.GetName()) {
			values = append(values, label.GetValue())
		}
	}
	return values
}

func value(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
}

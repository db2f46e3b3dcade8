package liveactivity

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/registry"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// register adds what shows how much the engine holds to a registry. Engines of
// several services on one registry are summed.
func (e engine) register(wrong *options.Mistakes, reg prometheus.Registerer) {
	if log, ok := e.Log.(counter); ok {
		metrics.Register(wrong, reg, &logCollector{}).add(log)
	}
	if users, ok := e.users(); ok {
		metrics.Register(wrong, reg, &usersCollector{}).add(users)
	}
}

// summed is what a collector sums.
type summed[T any] struct {
	mu  sync.Mutex
	all []T
}

func (s *summed[T]) add(one T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

func (s *summed[T]) list() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// usersCollector shows how many users the stores hold.
type usersCollector struct{ summed[*activity.Memory] }

var users = prometheus.NewDesc("liveactivity_users", "Users whose activity is held in memory.", nil, nil)

// Describe implements [prometheus.Collector].
func (c *usersCollector) Describe(ch chan<- *prometheus.Desc) { ch <- users }

// Collect implements [prometheus.Collector].
func (c *usersCollector) Collect(ch chan<- prometheus.Metric) {
	n := 0
	for _, m := range c.list() {
		n += m.Users()
	}
	ch <- prometheus.MustNewConstMetric(users, prometheus.GaugeValue, float64(n))
}

// logCollector shows what the logs hold.
type logCollector struct{ summed[counter] }

var (
	logEntries = prometheus.NewDesc("liveactivity_log_entries", "Entries held by the log.", []string{"product_id"}, nil)
	logBytes   = prometheus.NewDesc("liveactivity_log_bytes", "What the log's entries cost where they are kept, in bytes.", []string{"product_id"}, nil)
	logDropped = prometheus.NewDesc("liveactivity_log_dropped_total", "Entries dropped before their time because the log was full.", []string{"product_id"}, nil)
)

// Describe implements [prometheus.Collector].
func (c *logCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- logEntries
	ch <- logBytes
	ch <- logDropped
}

// Collect implements [prometheus.Collector].
func (c *logCollector) Collect(ch chan<- prometheus.Metric) {
	sums := map[string]eventlog.Stats{}
	for _, log := range c.list() {
		for productID, stats := range log.Stats() {
			sum := sums[productID]
			sums[productID] = eventlog.Stats{Entries: sum.Entries + stats.Entries, Bytes: sum.Bytes + stats.Bytes, Dropped: sum.Dropped + stats.Dropped}
		}
	}
	delete(sums, registry.OwnProduct)
	for productID, stats := range sums {
		ch <- prometheus.MustNewConstMetric(logEntries, prometheus.GaugeValue, float64(stats.Entries), productID)
		ch <- prometheus.MustNewConstMetric(logBytes, prometheus.GaugeValue, float64(stats.Bytes), productID)
		ch <- prometheus.MustNewConstMetric(logDropped, prometheus.CounterValue, float64(stats.Dropped), productID)
	}
}

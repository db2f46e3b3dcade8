package liveactivity

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
)

// collectors returns what shows how much the engine holds.
func (e engine) collectors() (all []prometheus.Collector) {
	if log, ok := e.Log.(counter); ok {
		all = append(all, logCollector{log})
	}
	if users, ok := e.users(); ok {
		all = append(all, usersCollector(users))
	}
	return all
}

// usersCollector shows how many users a store holds.
func usersCollector(m *activity.Memory) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "liveactivity_users",
		Help: "Users whose activity is held in memory.",
	}, func() float64 { return float64(m.Users()) })
}

// logCollector shows what a log holds.
type logCollector struct{ log counter }

var (
	logEntries = prometheus.NewDesc("liveactivity_log_entries", "Entries held by the log.", []string{"product_id"}, nil)
	logBytes   = prometheus.NewDesc("liveactivity_log_bytes", "What the log's entries cost where they are kept, in bytes.", []string{"product_id"}, nil)
	logDropped = prometheus.NewDesc("liveactivity_log_dropped_total", "Entries dropped before their time because the log was full.", []string{"product_id"}, nil)
)

// Describe implements [prometheus.Collector].
func (c logCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- logEntries
	ch <- logBytes
	ch <- logDropped
}

// Collect implements [prometheus.Collector].
func (c logCollector) Collect(ch chan<- prometheus.Metric) {
	for productID, stats := range c.log.Stats() {
		if productID == ownProduct {
			continue
		}
		ch <- prometheus.MustNewConstMetric(logEntries, prometheus.GaugeValue, float64(stats.Entries), productID)
		ch <- prometheus.MustNewConstMetric(logBytes, prometheus.GaugeValue, float64(stats.Bytes), productID)
		ch <- prometheus.MustNewConstMetric(logDropped, prometheus.CounterValue, float64(stats.Dropped), productID)
	}
}

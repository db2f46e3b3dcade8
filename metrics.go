package liveactivity

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// logCollector exports the sizes of logs. Services that share a registry share a collector, which sums
// their logs. mu guards services, from which none is removed.
type logCollector struct {
	mu       sync.Mutex
	services []*Service
}

func (c *logCollector) add(s *Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.services = append(c.services, s)
}

var (
	logUsers   = prometheus.NewDesc("liveactivity_users", "Users whose activity is held in memory.", nil, nil)
	logEntries = prometheus.NewDesc("liveactivity_log_entries", "Entries held by the log.", []string{"product_id"}, nil)
	logBytes   = prometheus.NewDesc("liveactivity_log_bytes",
		"Size of the log's entries in their storage, in bytes.", []string{"product_id"}, nil)
	logDropped = prometheus.NewDesc("liveactivity_log_dropped_total",
		"Entries dropped before their time because the log was full.", []string{"product_id"}, nil)
)

// Describe implements [prometheus.Collector].
func (c *logCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- logUsers
	ch <- logEntries
	ch <- logBytes
	ch <- logDropped
}

// Collect implements [prometheus.Collector]. It calls Stats of each log, which may take a second. A
// product whose stats cannot be read is missing, and so is one that is not served.
func (c *logCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	services := c.services // add never changes an element, so no log is called with the lock held
	c.mu.Unlock()
	sums, users := map[string]eventlog.Stats{}, 0
	for _, s := range services {
		for productID, stats := range s.engine.Stats() {
			users += stats.Users
			if _, served := s.products.Version(productID); !served {
				continue
			}
			sum := sums[productID]
			sums[productID] = eventlog.Stats{Entries: sum.Entries + stats.Entries, Bytes: sum.Bytes + stats.Bytes,
				Dropped: sum.Dropped + stats.Dropped}
		}
	}
	ch <- prometheus.MustNewConstMetric(logUsers, prometheus.GaugeValue, float64(users))
	for productID, stats := range sums {
		ch <- prometheus.MustNewConstMetric(logEntries, prometheus.GaugeValue, float64(stats.Entries), productID)
		ch <- prometheus.MustNewConstMetric(logBytes, prometheus.GaugeValue, float64(stats.Bytes), productID)
		ch <- prometheus.MustNewConstMetric(logDropped, prometheus.CounterValue, float64(stats.Dropped), productID)
	}
}

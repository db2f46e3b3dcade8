// Package streammetrics turns the counts of a consumer, a writer or a summarizer into
// Prometheus metrics.
//
//	registry.MustRegister(streammetrics.Consumer(consumer), streammetrics.Writer(writer))
//
// To register the collectors of several consumers in one registry, give each its
// own label:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"product": "acme"}, registry).
//		MustRegister(streammetrics.Consumer(acme))
package streammetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

// Consumer returns a collector of liveactivity_consumer_*. It counts from the consumer's
// creation, and reads the counts at each collection.
func Consumer(c *stream.Consumer) prometheus.Collector {
	return collector(func(metrics sender) {
		const prefix = "liveactivity_consumer_"
		s := c.Stats()
		metrics.count(prefix+"connects_total", "Times the stream was opened.", s.Connects)
		metrics.count(prefix+"interruptions_total", "Times the stream could not be opened, or ended.", s.Interruptions)
		metrics.count(prefix+"gaps_total", "Times the server no longer had all entries that were asked for.", s.Gaps)
		metrics.count(prefix+"handler_failures_total", "Times a handler returned an error; it is called again.",
			s.HandlerFailures)
		metrics.count(prefix+"parked_total", "Times a session fell behind because its handler kept failing.", s.Parked)
		metrics.countEach(prefix+"acknowledged_total", "Entries acknowledged.", "type", map[string]uint64{
			activity.BatchType: s.AcknowledgedActions, stream.SummaryType: s.AcknowledgedSummaries,
			"other": s.AcknowledgedOthers})
		metrics.countEach(prefix+"skipped_total",
			"Entries skipped: malformed, too_large, refused by a permanent error, or held_too_long.",
			"reason", map[string]uint64{"malformed": s.SkippedMalformed, "too_large": s.SkippedTooLarge,
				"refused": s.SkippedRefused, "held_too_long": s.SkippedHeldTooLong})
		metrics.gauge(prefix+"pending", "Entries in flight.", s.Pending)
		metrics.gauge(prefix+"behind", "Sessions that are behind or held: their entries wait in the log.", s.Behind)
	})
}

// Writer returns a collector of liveactivity_writer_*.
func Writer(w *stream.Writer) prometheus.Collector {
	return collector(func(metrics sender) {
		const prefix = "liveactivity_writer_"
		s := w.Stats()
		metrics.count(prefix+"written_total", "Merged batches written.", s.Written)
		metrics.count(prefix+"failures_total", "Writes that failed and are retried.", s.Failures)
		metrics.count(prefix+"refused_total", "Merged batches skipped because of a permanent error.", s.Refused)
		metrics.gauge(prefix+"pending", "Batches added and not written.", s.Pending)
	})
}

// Summarizer returns a collector of liveactivity_summaries_total.
func Summarizer(s *stream.Summarizer) prometheus.Collector {
	return collector(func(metrics sender) {
		n := s.Stats()
		metrics.countEach("liveactivity_summaries_total",
			"Summaries tried, by result: ok, model_failed, overwrite_failed.",
			"result", map[string]uint64{"ok": n.OK, "model_failed": n.ModelFailed, "overwrite_failed": n.OverwriteFailed})
	})
}

// collector sends all metrics of one consumer, writer or summarizer, always the same ones. It is
// safe for concurrent use.
type collector func(metrics sender)

// Describe implements [prometheus.Collector].
func (c collector) Describe(descs chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, descs) }

// Collect implements [prometheus.Collector].
func (c collector) Collect(metrics chan<- prometheus.Metric) { c(metrics) }

// sender receives the metrics of a collection.
type sender chan<- prometheus.Metric

func (s sender) count(name, help string, n uint64) {
	s <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, float64(n))
}

// countEach sends a counter for each value of a label.
func (s sender) countEach(name, help, label string, counts map[string]uint64) {
	desc := prometheus.NewDesc(name, help, []string{label}, nil)
	for value, n := range counts {
		s <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), value)
	}
}

func (s sender) gauge(name, help string, n int64) {
	s <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, float64(n))
}

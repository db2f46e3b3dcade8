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
	const prefix = "liveactivity_consumer_"
	acknowledged := func(s stream.ConsumerStats) []float64 {
		return []float64{float64(s.AcknowledgedActions), float64(s.AcknowledgedSummaries), float64(s.AcknowledgedOthers)}
	}
	skipped := func(s stream.ConsumerStats) []float64 {
		return []float64{float64(s.SkippedMalformed), float64(s.SkippedTooLarge), float64(s.SkippedRefused),
			float64(s.SkippedHeldTooLong)}
	}
	return &collector[stream.ConsumerStats]{c.Stats, []metric[stream.ConsumerStats]{
		counter(prefix+"connects_total", "Times the stream was opened.",
			func(s stream.ConsumerStats) uint64 { return s.Connects }),
		counter(prefix+"interruptions_total", "Times the stream could not be opened, or ended.",
			func(s stream.ConsumerStats) uint64 { return s.Interruptions }),
		counter(prefix+"gaps_total", "Times the server no longer had all entries that were asked for.",
			func(s stream.ConsumerStats) uint64 { return s.Gaps }),
		counter(prefix+"handler_failures_total", "Times a handler returned an error; it is called again.",
			func(s stream.ConsumerStats) uint64 { return s.HandlerFailures }),
		counter(prefix+"parked_total", "Times a session fell behind because its handler kept failing.",
			func(s stream.ConsumerStats) uint64 { return s.Parked }),
		counters(prefix+"acknowledged_total", "Entries acknowledged.",
			"type", []string{activity.BatchType, stream.SummaryType, "other"}, acknowledged),
		counters(prefix+"skipped_total",
			"Entries skipped: malformed, too_large, refused by a permanent error, or held_too_long.",
			"reason", []string{"malformed", "too_large", "refused", "held_too_long"}, skipped),
		gauge(prefix+"pending", "Entries in flight.",
			func(s stream.ConsumerStats) int64 { return s.Pending }),
		gauge(prefix+"behind", "Sessions that are behind or held: their entries wait in the log.",
			func(s stream.ConsumerStats) int64 { return s.Behind }),
	}}
}

// Writer returns a collector of liveactivity_writer_*.
func Writer(w *stream.Writer) prometheus.Collector {
	const prefix = "liveactivity_writer_"
	return &collector[stream.WriterStats]{w.Stats, []metric[stream.WriterStats]{
		counter(prefix+"written_total", "Merged batches written.",
			func(s stream.WriterStats) uint64 { return s.Written }),
		counter(prefix+"failures_total", "Writes that failed and are retried.",
			func(s stream.WriterStats) uint64 { return s.Failures }),
		counter(prefix+"refused_total", "Merged batches skipped because of a permanent error.",
			func(s stream.WriterStats) uint64 { return s.Refused }),
		gauge(prefix+"pending", "Batches added and not written.",
			func(s stream.WriterStats) int64 { return s.Pending }),
	}}
}

// Summarizer returns a collector of liveactivity_summaries_total.
func Summarizer(s *stream.Summarizer) prometheus.Collector {
	results := func(s stream.SummarizerStats) []float64 {
		return []float64{float64(s.OK), float64(s.ModelFailed), float64(s.OverwriteFailed)}
	}
	return &collector[stream.SummarizerStats]{s.Stats, []metric[stream.SummarizerStats]{
		counters("liveactivity_summaries_total", "Summaries tried, by result: ok, model_failed, overwrite_failed.",
			"result", []string{"ok", "model_failed", "overwrite_failed"}, results),
	}}
}

// metric is a metric computed from stats, with one value for each of its labels, in
// their order.
type metric[S any] struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string // nil for a metric without a label
	values func(S) []float64
}

// counters returns a counter for each value of a label.
func counters[S any](name, help, label string, labels []string, values func(S) []float64) metric[S] {
	return metric[S]{prometheus.NewDesc(name, help, []string{label}, nil), prometheus.CounterValue, labels, values}
}

func counter[S any](name, help string, value func(S) uint64) metric[S] {
	values := func(s S) []float64 { return []float64{float64(value(s))} }
	return metric[S]{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, nil, values}
}

func gauge[S any](name, help string, value func(S) int64) metric[S] {
	values := func(s S) []float64 { return []float64{float64(value(s))} }
	return metric[S]{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, nil, values}
}

// collector collects the metrics of one consumer, writer or summarizer. It is safe
// for concurrent use.
type collector[S any] struct {
	stats   func() S
	metrics []metric[S]
}

// Describe implements [prometheus.Collector].
func (c *collector[S]) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		descs <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector[S]) Collect(metrics chan<- prometheus.Metric) {
	stats := c.stats()
	for _, m := range c.metrics {
		for i, value := range m.values(stats) {
			metrics <- prometheus.MustNewConstMetric(m.desc, m.kind, value,
				m.labels[min(i, len(m.labels)):min(i+1, len(m.labels))]...)
		}
	}
}

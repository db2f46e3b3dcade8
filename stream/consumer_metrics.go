package stream

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
)

// consumerMetrics are the metrics of a [Consumer].
type consumerMetrics struct {
	connects, reconnects, gaps, failures prometheus.Counter
	actions, summaries, others           prometheus.Counter // finished entries
	skipped                              *prometheus.CounterVec
	pending                              prometheus.Gauge
}

func newConsumerMetrics(reg prometheus.Registerer) consumerMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "liveactivity_consumer_" + name, Help: help})
	}
	finished := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liveactivity_consumer_finished_total",
		Help: "Entries that handlers have finished.",
	}, []string{"type"})
	m := consumerMetrics{
		actions:    finished.WithLabelValues(activity.BatchType),
		summaries:  finished.WithLabelValues(SummaryType),
		others:     finished.WithLabelValues("other"),
		connects:   counter("connects_total", "Times the stream was opened."),
		reconnects: counter("interruptions_total", "Times the stream could not be opened, or ended."),
		gaps:       counter("gaps_total", "Times the server no longer had all entries that were asked for."),
		failures:   counter("handler_failures_total", "Times a handler returned an error; it is called again."),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "liveactivity_consumer_skipped_total",
			Help: "Entries that were passed over: malformed, or too large.",
		}, []string{"reason"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "liveactivity_consumer_pending",
			Help: "Entries received and not finished.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.connects, m.reconnects, m.gaps, m.failures, finished, m.skipped, m.pending)
	}
	return m
}

// finished returns the counter of finished entries of a type. The types that a
// server may come up with share one.
func (m consumerMetrics) finished(typ string) prometheus.Counter {
	switch typ {
	case activity.BatchType:
		return m.actions
	case SummaryType:
		return m.summaries
	}
	return m.others
}

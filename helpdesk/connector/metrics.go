package connector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
)

// connectorMetrics are the metrics of a [Connector].
type connectorMetrics struct {
	webhooks *prometheus.CounterVec
	replies  *prometheus.CounterVec
	links    *prometheus.CounterVec
	notes    *prometheus.CounterVec
	delay    *prometheus.HistogramVec
	retries  *prometheus.CounterVec
	lost     *prometheus.CounterVec
	parked   *prometheus.GaugeVec
	since    *prometheus.GaugeVec
}

func newMetrics(wrong *options.Mistakes, reg prometheus.Registerer) connectorMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metrics.Register(wrong, reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"product_id", "desk"}, labels...)))
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return metrics.Register(wrong, reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"product_id", "desk"}, labels...)))
	}
	return connectorMetrics{
		webhooks: counter("liveactivity_webhooks_total", "Webhooks of help desks, by what was answered.", "status"),
		replies:  counter("liveactivity_replies_total", "Messages to reply to, by what became of them: written, retried, echo, untrusted, expired, refused, dropped.", "result"),
		links:    counter("liveactivity_links_total", "Links of sessions to conversations, by result: linked, already_linked, pending, refused, ended.", "result"),
		notes:    counter("liveactivity_notes_total", "Notes written into conversations, by kind: actions, summary.", "kind"),
		delay: metrics.Register(wrong, reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "liveactivity_notes_delay_seconds",
			Help:    "Time from the append of an action to the note that shows it, for the oldest action of each note.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600},
		}, []string{"product_id", "desk"})),
		retries: counter("liveactivity_notes_retries_total", "Requests to desks that failed and are made again, by status of the answer; 0 for none.", "status"),
		lost:    counter("liveactivity_notes_lost_total", "Actions that are in no note, by reason: trimmed from the log, refused by the desk, or of a conversation that has gone.", "reason"),
		parked:  gauge("liveactivity_notes_parked", "Conversations whose notes are overdue, because their desk is away or limits them.", "partition"),
		since:   gauge("liveactivity_notes_parked_since_seconds", "Since when the oldest of the overdue notes has something to say, in epoch seconds; 0 for none.", "partition"),
	}
}

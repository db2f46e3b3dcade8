package connector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
)

// connectorMetrics are the metrics of a [Connector]. Their labels are the product, the desk's
// name or a trigger's ID, and words from a fixed list: nothing that a visitor can choose. They
// also work without a registry.
type connectorMetrics struct {
	webhooks, replies, links, notes, retries, lost, deleted *prometheus.CounterVec
	delay                                                   *prometheus.HistogramVec
	offers, suppressed, transitions                         *prometheus.CounterVec // of the assistance
}

// newMetrics registers the metrics, or none if the registry is nil. Whenever metrics are
// collected, each is called: it calls see with the delivery of each followed product. A metric
// that cannot be registered is a mistake, added to wrong.
func newMetrics(wrong *options.Mistakes, reg prometheus.Registerer, each func(see func(d *delivery))) connectorMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metrics.Register(wrong, reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help},
			append([]string{"product_id"}, labels...)))
	}
	desks := []string{"product_id", "desk"}
	metrics.Register(wrong, reg, &overdue{each: each,
		parked: prometheus.NewDesc("liveactivity_notes_parked",
			"Conversations whose notes are overdue, because their desk is away or limits requests.", desks, nil),
		since: prometheus.NewDesc("liveactivity_notes_parked_since_seconds",
			"Since when the oldest of the overdue notes has something to say, in epoch seconds; 0 for none.", desks, nil)})
	return connectorMetrics{
		webhooks: counter("liveactivity_webhooks_total", "Webhooks of help desks, by status of the answer.",
			"desk", "status"),
		replies: counter("liveactivity_replies_total",
			"Messages to reply to, by result: written, retried, lost (in doubt), left (to people), withheld (link or "+
				"length), echo, expired, refused, dropped (replies are off).", "desk", "result"),
		links: counter("liveactivity_links_total",
			"Links of sessions to conversations, by result: linked, already_linked, pending, refused, ended.", "desk", "result"),
		notes: counter("liveactivity_notes_total", "Notes written into conversations, by kind: actions, summary.",
			"desk", "kind"),
		delay: metrics.Register(wrong, reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "liveactivity_notes_delay_seconds",
			Help:    "Time from the append of an action to the note that shows it, for the oldest action of each note.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600},
		}, desks)),
		retries: counter("liveactivity_notes_retries_total",
			"Requests to desks that failed and are made again, by status of the answer; 0 for none.", "desk", "status"),
		lost: counter("liveactivity_notes_lost_total",
			"Actions that are in no note, by reason: trimmed from the log, refused by the desk, or of a conversation "+
				"that has gone.", "desk", "reason"),
		deleted: counter("liveactivity_conversations_deleted_total",
			"Conversations that were deleted because nobody reacted to an offer and nobody had written there.", "desk"),
		offers: counter("liveactivity_offers_total",
			"Proactive offers, by trigger and result: made, refused, late, ambiguous (then made or lost), accepted, ignored.",
			"trigger_id", "result"),
		suppressed: counter("liveactivity_offers_suppressed_total",
			"Moments in which a trigger matched and no offer was made, by reason.", "trigger_id", "reason"),
		transitions: counter("liveactivity_assistance_transitions_total", "Moves of the assistance from state to state.",
			"from", "to"),
	}
}

// overdue collects the number of overdue notes when metrics are collected, and counts
// nothing in between.
type overdue struct {
	each          func(see func(d *delivery))
	parked, since *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (o *overdue) Describe(to chan<- *prometheus.Desc) { to <- o.parked; to <- o.since }

// Collect implements [prometheus.Collector].
func (o *overdue) Collect(to chan<- prometheus.Metric) {
	o.each(func(d *delivery) {
		backlog, since := d.backlog(time.Now())
		for desk, late := range since {
			at := 0.0
			if !late.IsZero() {
				at = activity.Seconds(late)
			}
			to <- prometheus.MustNewConstMetric(o.parked, prometheus.GaugeValue, float64(backlog.Desks[desk].Parked),
				d.productID, desk)
			to <- prometheus.MustNewConstMetric(o.since, prometheus.GaugeValue, at, d.productID, desk)
		}
	})
}

package stream

import "github.com/prometheus/client_golang/prometheus"

// metrics of a [Handler].
type metrics struct {
	subscribers *prometheus.GaugeVec
	gaps        *prometheus.CounterVec
	sent        prometheus.Counter
	lag         prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		subscribers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "liveactivity_stream_subscribers",
			Help: "Open streams.",
		}, []string{"product_id"}),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "liveactivity_stream_gaps_total",
			Help: "Times a reader was told that entries it had not read are no longer retained.",
		}, []string{"product_id"}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "liveactivity_stream_sent_total",
			Help: "Entries written to readers.",
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "liveactivity_stream_lag_seconds",
			Help:    "Time from an entry's append to its write, for the oldest entry of each write.",
			Buckets: []float64{.001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 5, 30, 300, 3600},
		}),
	}
	if reg != nil {
		reg.MustRegister(m.subscribers, m.gaps, m.sent, m.lag)
	}
	return m
}

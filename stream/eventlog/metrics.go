package eventlog

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
)

// handlerMetrics are the metrics of a [Handler]. Handlers on one registry share them.
// subscribers and gaps are by product; sent and lag, in seconds, cover all products, so that
// their cost does not grow with the number of products.
type handlerMetrics struct {
	subscribers *prometheus.GaugeVec
	gaps        *prometheus.CounterVec
	sent        prometheus.Counter
	lag         prometheus.Histogram
}

// newHandlerMetrics registers the metrics on reg, or leaves them unregistered if it is nil. If
// the registry refuses them, it adds that to wrong.
func newHandlerMetrics(wrong *options.Mistakes, reg prometheus.Registerer) handlerMetrics {
	return handlerMetrics{
		subscribers: metrics.Register(wrong, reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "liveactivity_stream_subscribers",
			Help: "Open streams.",
		}, []string{"product_id"})),
		gaps: metrics.Register(wrong, reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "liveactivity_stream_gaps_total",
			Help: "Times a reader was sent a gap: entries it had not read are no longer retained.",
		}, []string{"product_id"})),
		sent: metrics.Register(wrong, reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "liveactivity_stream_sent_total",
			Help: "Entries written to readers.",
		})),
		lag: metrics.Register(wrong, reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "liveactivity_stream_lag_seconds",
			Help:    "Time from an entry's append to its write, for the oldest entry of each write.",
			Buckets: []float64{.001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 5, 30, 300, 3600},
		})),
	}
}

package assist

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
)

// assistantMetrics are the metrics of an [Assistant].
type assistantMetrics struct {
	offers      *prometheus.CounterVec
	suppressed  *prometheus.CounterVec
	transitions *prometheus.CounterVec
}

func newMetrics(wrong *options.Mistakes, reg prometheus.Registerer) assistantMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metrics.Register(wrong, reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"product_id"}, labels...)))
	}
	return assistantMetrics{
		offers: counter("liveactivity_offers_total",
			"Proactive offers, by trigger and result: made, refused, late, ambiguous (then made or lost), accepted, ignored.", "trigger_id", "result"),
		suppressed: counter("liveactivity_offers_suppressed_total",
			"Moments in which a trigger matched and no offer was made, by reason.", "trigger_id", "reason"),
		transitions: counter("liveactivity_assistance_transitions_total", "Moves of the assistance from state to state.", "from", "to"),
	}
}

// took counts and logs what a step that is stored made of a machine.
func (a *Assistant) took(c conversation, m assistance.Machine, effects []assistance.Effect) {
	for _, effect := range effects {
		switch effect := effect.(type) {
		case assistance.Moved:
			if effect.From == assistance.Proactive && effect.To == assistance.Thinking {
				a.offered(c, m.Trigger(), "ignored")
			}
			a.metrics.transitions.WithLabelValues(c.productID, string(effect.From), string(effect.To)).Inc()
			a.logger.Info("assistance moved", "product_id", c.productID, "desk", c.desk, "conversation_id", c.id, "from", effect.From, "to", effect.To)
		case assistance.Guide:
			a.offered(c, effect.TriggerID, "accepted")
		}
	}
}

// offered counts what became of an offer.
func (a *Assistant) offered(c conversation, trigger, result string) {
	a.metrics.offers.WithLabelValues(c.productID, trigger, result).Inc()
	if result == "made" {
		a.opts.Meter.Count(c.productID, activity.Flow{Offers: 1})
	}
}

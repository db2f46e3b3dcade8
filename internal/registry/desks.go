package registry

import (
	"time"

	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/proactive/assist"
)

// connected returns a product as the connector knows it.
func connected(product productfile.Product, desks []connector.Desk) connector.Product {
	notes := connector.DefaultNotes()
	if n := product.IntegrationConfig.Notes; n != nil {
		set := func(d *time.Duration, n *int, unit time.Duration) {
			if n != nil {
				*d = time.Duration(*n) * unit
			}
		}
		set(&notes.Debounce, n.DebounceMS, time.Millisecond)
		set(&notes.Bin, n.BinSeconds, time.Second)
		set(&notes.PreLinkWindow, n.PreLinkWindowS, time.Second)
		if n.SummaryThreshold != nil {
			notes.SummaryThreshold = *n.SummaryThreshold
		}
	}
	return connector.Product{Desks: desks, Notes: notes, AllowedOrigins: product.AllowedOrigins}
}

// assisted returns a product as the proactive engine knows it. A configuration
// that is not valid has no core.
func assisted(product productfile.Product, desks []connector.Desk, triggers []proactive.Trigger) assist.Product {
	config := product.IntegrationConfig.Proactive
	if config == nil {
		return assist.Product{Desks: desks}
	}
	assisted := assist.Product{Labels: config.ReplyOptionLabels, Desks: desks}
	if selected, err := config.Select(triggers...); err == nil && config.Enabled {
		assisted.Core, _ = assistance.NewCore(config, selected...) // nil after an error, which Validate reports
	}
	return assisted
}

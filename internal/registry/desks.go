package registry

import (
	"time"

	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/origin"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/proactive"
)

// connected returns a product in the connector's form. Settings that the product omits come
// from [connector.DefaultNotes]. If its configuration of offers is invalid, the product is
// served without offers. A public reply may also link to the hosts of the product's own pages.
func connected(product productfile.Product, desks []connector.Desk, triggers []proactive.Trigger) connector.Product {
	notes := connector.DefaultNotes()
	if n := product.IntegrationConfig.Notes; n != nil {
		set := func(d *time.Duration, n *int, unit time.Duration) {
			if n != nil {
				*d = time.Duration(*n) * unit
			}
		}
		set(&notes.Debounce, n.DebounceMS, time.Millisecond)
		set(&notes.Interval, n.IntervalS, time.Second)
		set(&notes.Bin, n.BinSeconds, time.Second)
		set(&notes.PreLinkWindow, n.PreLinkWindowS, time.Second)
		if n.SummaryThreshold != nil {
			notes.SummaryThreshold = *n.SummaryThreshold
		}
	}
	connected := connector.Product{
		Desks: desks, Notes: notes, AllowedOrigins: product.AllowedOrigins,
		IdentitySecrets: product.Identity.Secrets,
		LinkHosts:       append(origin.Hosts(product.AllowedOrigins), product.LinkHosts...),
		TakesClaims:     product.Identity.Unverified == productfile.UnverifiedReplies}
	if config := product.IntegrationConfig.Proactive; config != nil {
		connected.Labels = config.ReplyOptionLabels
		if selected, err := config.Select(triggers...); err == nil && config.Enabled {
			connected.Assistance = assistance.NewCore(config, selected...) // nil after an error, which Validate reports
		}
	}
	return connected
}

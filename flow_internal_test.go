package liveactivity

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/flow"
)

func TestFlowDesks_listsConfiguredAndAwaitedDesks(t *testing.T) {
	product := connector.Product{Desks: []connector.Desk{{Name: "zendesk"}, {Name: "chatwoot"}}}
	waiting := map[string]flow.Desk{"zendesk": {Parked: 3, Retrying: 1}, "intercom": {Parked: 2}, "aside": {Parked: 1}}
	for range 20 { // a map has no order
		desks, parked := flowDesks(product, waiting)
		assert.Equal(t, 6, parked)
		assert.Equal(t, []flowDesk{{"aside", flow.Desk{Parked: 1}}, {"chatwoot", flow.Desk{}},
			{"intercom", flow.Desk{Parked: 2}}, {"zendesk", flow.Desk{Parked: 3, Retrying: 1}}}, desks)
	}
}

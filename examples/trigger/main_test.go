package main

import (
	"testing"

	"github.com/liveactivity/liveactivity/proactive/proactivetest"
)

func TestUndecided_matchesAUserWhoReturnsToTheCart(t *testing.T) {
	proactivetest.Run(t, `
		t+0s  /cart
		t+5s  click "Colour"
		t+9s  /shoes
		t+20s /cart
		t+30s /shirts      → no offer
		t+40s /cart        → offer undecided "Shipping costs"
		t+44s says "talk to somebody" → guide "Talk to somebody"
	`, undecided{})
}

func TestUndecided_excludesAUserWhoChecksOut(t *testing.T) {
	proactivetest.Run(t, `
		t+0s  /cart
		t+10s /shoes
		t+20s /cart
		t+30s /checkout/address
		t+40s /cart        → no offer
		t+50s /shoes
		t+60s /cart        → no offer
	`, undecided{})
}

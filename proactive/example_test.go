package proactive_test

import (
	"fmt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/proactive/proactivetest"
)

// paymentTrouble is a trigger of one's own: the user has tried two different
// ways to pay.
type paymentTrouble struct{}

func (paymentTrouble) ID() string { return "payment_trouble" }

func (paymentTrouble) Evaluate(c proactive.TriggerContext) (proactive.Result, bool) {
	tried := map[string]bool{}
	for _, a := range c.Actions {
		if a.Type == activity.TypeSubmit && proactive.Under(a.CanonicalURL, "/checkout") {
			tried[a.Title] = true
		}
	}
	return proactive.Result{Body: "Is the payment not going through?", ReplyOptionLabels: []string{"Pay by invoice"}},
		len(tried) == 2
}

// A custom trigger comes before the ping-pong trigger, which is on by default. A
// test of it is a script.
func Example() {
	fmt.Println(proactivetest.Check(`
		t+0s  /checkout
		t+9s  submit "card"
		t+15s submit "card"                  → no offer
		t+30s submit "bank transfer"         → offer payment_trouble "Pay by invoice"
		t+34s says "pay by invoice"          → guide "Pay by invoice", state guidance
		t+40s /checkout; t+41s /account; t+42s /checkout → no offer state
	`, &proactive.Config{}, paymentTrouble{}))
	// Output: <nil>
}

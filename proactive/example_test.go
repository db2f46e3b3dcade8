package proactive_test

import (
	"fmt"
	"time"

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
	return proactive.Result{Body: "Is the payment not going through?", ReplyOptionLabels: []string{"Pay by invoice"}}, len(tried) == 2
}

// A custom trigger comes before the ping-pong trigger, which is on by default. A
// test of it is a script.
func Example() {
	config := &proactive.Config{}
	registry, err := config.Registry(paymentTrouble{})
	if err != nil {
		fmt.Println(err)
		return
	}
	core, err := proactive.NewCore(registry, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(proactivetest.Check(`
		t+0s  /checkout
		t+9s  submit "card"
		t+15s submit "card"                  → no offer
		t+30s submit "bank transfer"         → offer payment_trouble "Pay by invoice"
		t+34s says "pay by invoice"          → guide "Pay by invoice", state guidance
		t+40s /checkout; t+41s /account; t+42s /checkout → no offer state
	`, core))
	// Output: <nil>
}

// A replay plays what a session did, to see which offers would have been made.
func ExampleReplay() {
	registry, _ := (&proactive.Config{}).Registry()
	core, _ := proactive.NewCore(registry, &proactive.Config{IdleTeardown: proactive.KeepOnIdle})
	replay := proactive.NewReplay(core, proactive.Session{ProductID: "acme", SessionID: "s1"}, &proactive.ReplayOptions{
		Decided: func(now time.Time, d proactive.Decision) {
			fmt.Println(now.Format(time.TimeOnly), d.Match.Result.TriggerID, d.Reason)
		},
	})
	start := time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)
	for i, page := range []string{"pricing", "docs", "pricing", "docs", "pricing", "docs", "billing", "docs"} {
		action := activity.NewAction(activity.TypePageview, activity.Target{}, "https://app.example.com/"+page)
		action.TimestampStart = activity.Seconds(start.Add(time.Duration(i) * 6 * time.Second))
		replay.Act(action, action.Start())
	}
	// Output:
	// 12:00:12 canonical_url_ping_pong offered
	// 12:00:30 canonical_url_ping_pong cooldown
	// 12:00:42 canonical_url_ping_pong offered
}

package intake_test

import (
	"fmt"
	"log"
	"time"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/segment"
)

// A product lists the custom events that become actions, and their properties that are shown.
func ExampleNewEvents() {
	events := intake.NewEvents(intake.Rules{"Invoice *": {Properties: []string{"plan"}}})
	_, err := segment.Source.Decode([]byte(`{"type": "track", "event": "Invoice Sent", "anonymousId": "d1",
		"properties": {"plan": "pro", "card": "4111", "url": "https://x.example/billing"}}`),
		intake.Request{Arrived: time.Now(), Webhook: true, Events: events}, func(m *intake.Meaning) {
			fmt.Println(m.Action.Description)
		})
	if err != nil {
		log.Fatal(err)
	}
	// Output: User did Invoice Sent (plan: pro) on the billing page
}

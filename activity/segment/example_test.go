package segment_test

import (
	"fmt"
	"log"
	"time"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/segment"
)

// A page view of an anonymous visitor, and its meaning.
func Example() {
	_, err := segment.Source.Decode([]byte(`{"type": "page", "anonymousId": "d1",
		"properties": {"url": "https://x.example/billing"}}`),
		intake.Request{Arrived: time.Now(), Webhook: true}, func(m *intake.Meaning) {
			fmt.Println(m.SessionID, m.Action.Description)
		})
	if err != nil {
		log.Fatal(err)
	}
	// Output: d1 User landed on the billing page
}

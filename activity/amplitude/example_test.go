package amplitude_test

import (
	"fmt"
	"log"
	"time"

	"github.com/liveactivity/liveactivity/activity/amplitude"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// A page view of a device, and its meaning.
func Example() {
	_, err := amplitude.Source.Decode([]byte(`{"api_key": "key", "events": [{"event_type": "[Amplitude] Page Viewed",
		"device_id": "d1", "session_id": 17, "event_properties": {"[Amplitude] Page URL": "https://x.example/billing"}}]}`),
		intake.Request{Arrived: time.Now(), Webhook: true}, func(m *intake.Meaning) {
			fmt.Println(m.SessionID, m.Action.Description)
		})
	if err != nil {
		log.Fatal(err)
	}
	// Output: d1:17 User landed on the billing page
}

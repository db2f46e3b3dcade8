package flat_test

import (
	"fmt"
	"log"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/flat"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// A company's own server names its fields as it likes.
func ExampleNew() {
	source := flat.New(&flat.Config{Name: "shop", Kind: flat.Kind,
		Fields:  flat.Fields{Event: "name", SessionID: "cart", URL: "page.url"},
		Actions: map[string]string{"viewed": activity.TypePageview}})
	_, err := source.Decode([]byte(`{"name": "viewed", "cart": "c1", "page": {"url": "https://x.example/billing"}}`),
		intake.Request{Arrived: time.Now(), Webhook: true}, func(m *intake.Meaning) {
			fmt.Println(m.SessionID, m.Action.Description)
		})
	if err != nil {
		log.Fatal(err)
	}
	// Output: c1 User landed on the billing page
}

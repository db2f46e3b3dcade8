package sessions_test

import (
	"fmt"
	"log"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

func ExampleMemory() {
	now, err := sessions.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Save"}, "https://x.example/billing")
	click.TimestampStart = activity.Seconds(time.Now())
	now.Add("acme", &activity.Batch{SessionID: "s1", Email: "ada@example.com",
		Actions: []activity.BatchAction{{Action: click}}})
	listing, err := now.List("acme", sessions.Query{Prefix: "ada@"}, time.Now())
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range listing.Sessions {
		fmt.Println(s.SessionID, s.LastAction)
	}
	// Output: s1 User clicked Save on the billing page
}

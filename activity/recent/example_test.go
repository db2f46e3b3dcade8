package recent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// A service in small: a store, something that adds to it, and the endpoint that reads from it.
func Example() {
	store, err := recent.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}

	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"},
		"https://app.acme.example/reports/42?tab=q3")
	click.ID = "event_1"
	click.TimestampStart = activity.Seconds(time.Now())
	err = store.Add(context.Background(), activity.Batch{
		Type: activity.BatchType, ProductID: "acme", SessionID: "session_1", UserID: "user_42", Count: 1,
		Actions: []activity.BatchAction{{Action: click, SessionID: "session_1", UserID: "user_42"}},
	})
	if err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	lookup, err := recent.NewLookup(store, 0)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", lookup)

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/users/acme/user_42/live-activity?limit=10", nil))
	var live recent.LiveActivity
	if err := json.NewDecoder(w.Body).Decode(&live); err != nil {
		panic(err)
	}
	for _, action := range live.Actions {
		fmt.Println(action.Description)
		fmt.Println(action.CanonicalURL)
	}
	// Output:
	// User clicked Export CSV on the reports detail page
	// https://app.acme.example/reports/:id
}

// An agent inside the same program needs no HTTP.
func ExampleLookup_Get() {
	store, err := recent.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	lookup, err := recent.NewLookup(store, 0)
	if err != nil {
		log.Fatal(err)
	}
	live, err := lookup.Get(context.Background(), "acme", "user_42", 10)
	fmt.Println(live.Count, err)
	// Output: 0 <nil>
}

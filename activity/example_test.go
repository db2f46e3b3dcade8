package activity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// A service in small: a store, something that adds to it, and the endpoint
// that reads from it.
func Example() {
	store, err := activity.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}

	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"}, "https://app.acme.example/reports/42?tab=q3")
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
	lookup, err := activity.NewLookup(store, 0)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", lookup)
	server := httptest.NewServer(mux)
	defer server.Close()

	res, err := http.Get(server.URL + "/users/acme/user_42/live-activity?limit=10")
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	var live activity.LiveActivity
	if err := json.NewDecoder(res.Body).Decode(&live); err != nil {
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
	store, err := activity.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	lookup, err := activity.NewLookup(store, 0)
	if err != nil {
		log.Fatal(err)
	}
	live, err := lookup.Get(context.Background(), "acme", "user_42", 10)
	fmt.Println(live.Count, err)
	// Output: 0 <nil>
}

func ExampleCanonicalURL() {
	for _, raw := range []string{
		"https://App.Example.com:443/projects/42/tasks/7?tab=x#top",
		"https://app.example.com/#/orders/3f2504e0-4f89-11d3-9a0c-0305e82c3301?x=1",
		"https://app.example.com/api/v1/customers/cus_9s6XKzkNRiz8i3",
		"https://app.example.com/blog/my-first-post/",
	} {
		fmt.Println(activity.CanonicalURL(raw))
	}
	// Output:
	// https://app.example.com/projects/:id/tasks/:id
	// https://app.example.com/#/orders/:id
	// https://app.example.com/api/v1/customers/:id
	// https://app.example.com/blog/my-first-post
}

func ExamplePageName() {
	fmt.Println(activity.PageName("https://app.example.com/"))
	fmt.Println(activity.PageName("https://app.example.com/billing-history"))
	fmt.Println(activity.PageName("https://app.example.com/projects/:id"))
	// Output:
	// home
	// billing history
	// projects detail
}

func ExampleNewAction() {
	a := activity.NewAction(activity.TypeClick, activity.Target{Element: "button"}, "https://app.example.com/dashboard")
	fmt.Println(a.Title)
	fmt.Println(a.Description)
	// Output:
	// Click button
	// User clicked a button on the dashboard page
}

// A directory learns who a session belongs to from any event that says so.
func ExampleDirectory_Update() {
	ctx := context.Background()
	docs, err := document.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	dir, err := activity.NewDirectory(docs, 0)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Now()
	for _, e := range []activity.Event{
		{Time: now, UserID: "anonymous"},
		{Time: now.Add(time.Second), UserID: "user_42", Email: "ada@example.com"},
	} {
		if _, err := dir.Update(ctx, "acme", "session_1", func(s *activity.Session) { s.Learn(e) }); err != nil {
			log.Fatal(err)
		}
	}
	s, _, err := dir.Session(ctx, "acme", "session_1")
	fmt.Println(s.UserID, s.Email, err)
	// Output: user_42 ada@example.com <nil>
}

package activity_test

import (
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

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

// A digest needs no language model, and grows with every batch.
func ExampleDigest() {
	const shop = "https://shop.example.com"
	var d activity.Digest
	d.Add(
		activity.NewAction(activity.TypePageview, activity.Target{}, shop+"/pricing"),
		activity.NewAction(activity.TypePageview, activity.Target{}, shop+"/checkout?plan=team"),
		activity.NewAction(activity.TypeClick, activity.Target{Label: "Confirm plan"}, shop+"/checkout?plan=team"),
	)
	fmt.Println(d.String())
	d.Add(
		activity.NewAction(activity.TypePageview, activity.Target{}, shop+"/billing-settings"),
		activity.NewAction(activity.TypeSubmit, activity.Target{Label: "payment"}, shop+"/billing-settings"),
	)
	fmt.Println(d.String())
	// Output:
	// Visited pricing and checkout; clicked Confirm plan.
	// Visited pricing, checkout and billing settings; clicked Confirm plan; submitted the payment form.
}

// The text for an agent leaves out the parts of an address that may be secret.
func ExampleBatch_Text() {
	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"},
		"https://app.example.com/dashboard?token=secret")
	click.TimestampStart = activity.Seconds(time.Date(2026, 11, 22, 2, 15, 4, 0, time.UTC))
	b := activity.Batch{SessionID: "session_1", Actions: []activity.BatchAction{{Action: click}}}
	fmt.Println(b.Text())
	// Output: 2026-11-22 02:15:04 UTC: User clicked Export CSV on the dashboard page (https://app.example.com/dashboard)
}

// Two requests of one session, as one batch.
func ExampleMerge() {
	first := activity.Batch{SessionID: "session_1",
		Actions: []activity.BatchAction{{Action: activity.Action{Title: "Click Save"}}}}
	second := activity.Batch{SessionID: "session_1", Email: "ada@example.com",
		Actions: []activity.BatchAction{{Action: activity.Action{Title: "Click Next"}}}}
	merged := activity.Merge(first, second)
	fmt.Println(merged.Email, merged.Count)
	for _, a := range merged.Actions {
		fmt.Println(a.Index, a.Title)
	}
	// Output:
	// ada@example.com 2
	// 0 Click Save
	// 1 Click Next
}

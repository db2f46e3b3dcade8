package activity_test

import (
	"fmt"

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

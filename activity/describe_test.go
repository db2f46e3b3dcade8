package activity_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
)

func TestNewAction_putsInWords(t *testing.T) {
	const app = "https://app.example.com"
	cases := []struct {
		name               string
		typ                string
		target             activity.Target
		url                string
		title, description string
	}{
		{"page view", activity.TypePageview, activity.Target{}, app + "/dashboard", "Page Load: Dashboard",
			"User landed on the dashboard page"},
		{"page view ignores the target", activity.TypePageview, activity.Target{Label: "x", Element: "button"},
			app + "/dashboard", "Page Load: Dashboard", "User landed on the dashboard page"},
		{"page view of the root", activity.TypePageview, activity.Target{}, app, "Page Load: Home",
			"User landed on the home page"},
		{"page view of no page", activity.TypePageview, activity.Target{}, "", "Page Load", "User landed on a page"},
		{"page view of no path", activity.TypePageview, activity.Target{}, "?x=1#top", "Page Load", "User landed on a page"},

		{"click", activity.TypeClick, activity.Target{Label: "Export CSV", Element: "button"}, app + "/dashboard",
			"Click Export CSV", "User clicked Export CSV on the dashboard page"},
		{"click on an image without a label", activity.TypeClick, activity.Target{Element: "image"}, app + "/dashboard",
			"Click image", "User clicked an image on the dashboard page"},
		{"click with a blank label", activity.TypeClick, activity.Target{Label: " \n\u200b ", Element: "button"},
			app + "/dashboard", "Click button", "User clicked a button on the dashboard page"},
		{"click with an untidy label", activity.TypeClick,
			activity.Target{Label: "\n  Add\tto \u00a0 cart\x00 ", Element: "button"}, app, "Click Add to cart",
			"User clicked Add to cart on the home page"},
		{"click on an address", activity.TypeClick, activity.Target{Label: "Copy https://u:pw@a.example/join?token=s3cr3t"},
			app, "Click Copy https://a.example/join?token=redacted",
			"User clicked Copy https://a.example/join?token=redacted on the home page"},
		{"click on no page", activity.TypeClick, activity.Target{Label: "Save", Element: "button"}, "", "Click Save",
			"User clicked Save"},
		{"click without a label on no page", activity.TypeClick, activity.Target{Element: "checkbox"}, "", "Click checkbox",
			"User clicked a checkbox"},

		{"submit", activity.TypeSubmit, activity.Target{Label: "signup", Element: "form"}, app + "/", "Submit signup form",
			"User submitted the signup form on the home page"},
		{"submit without a label", activity.TypeSubmit, activity.Target{Element: "form"}, app + "/", "Submit form",
			"User submitted a form on the home page"},

		{"change", activity.TypeChange, activity.Target{Label: "plan", Element: "select"}, app + "/", "Change plan field",
			"User changed the plan field on the home page"},
		{"change without a label", activity.TypeChange, activity.Target{Element: "field"}, app + "/", "Change field",
			"User changed a field on the home page"},
		{"change of an input without a label", activity.TypeChange, activity.Target{Element: "input"}, app + "/",
			"Change input", "User changed an input on the home page"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want := activity.Action{Type: c.typ, Title: c.title, Description: c.description, RawURL: c.url,
				CanonicalURL: activity.CanonicalURL(c.url)}
			assert.Equal(t, want, activity.NewAction(c.typ, c.target, c.url))
		})
	}
}

func TestNewAction_cutsLongLabels(t *testing.T) {
	const app = "https://app.example.com/"
	a := activity.NewAction(activity.TypeClick, activity.Target{Label: strings.Repeat("word ", 40)}, app)
	cut := strings.Repeat("word ", 15) + "word…"
	assert.Equal(t, "Click "+cut, a.Title)
	assert.Equal(t, "User clicked "+cut+" on the home page", a.Description)
}

// The list of types may grow, and a custom source may have types of its own.
func TestNewAction_makesASentenceOfAnUnknownType(t *testing.T) {
	for _, target := range []activity.Target{{Label: "Reports", Element: "list"}, {Element: "list"}} {
		a := activity.NewAction("scroll", target, "https://app.example.com/dashboard")
		assert.NotEmpty(t, a.Title)
		assert.Equal(t, strings.Join(strings.Fields(a.Description), " "), a.Description, "a word is missing")
	}
}

func TestPageName(t *testing.T) {
	cases := []struct{ canonical, want string }{
		{"", ""},
		{"/", "home"},
		{"https://app.example.com/dashboard", "dashboard"},
		{"https://app.example.com/Dashboard", "dashboard"},
		{"https://app.example.com/account/billing-history", "billing history"},
		{"https://app.example.com/team_members", "team members"},
		{"https://app.example.com/projects/:id/tasks", "tasks"},
		{"https://app.example.com/projects/:id/tasks/:id", "tasks detail"},
		{"https://app.example.com/projects/:id/:id", "projects detail"},
		{"https://app.example.com/:id", "detail"},
		{":id", "detail"},
		{"https://app.example.com/#/orders", "orders"},
		{"https://app.example.com/#/orders/:id", "orders detail"},
		{"https://app.example.com/app#/orders", "orders"},
		{"https://app.example.com/#/", "home"},
		{"#/orders", "orders"},
		{"/dashboard", "dashboard"},
		{"https://app.example.com/caf%C3%A9", "café"},
		{"https://app.example.com/CAF%C3%89", "café"},
		{"https://app.example.com/two%20words", "two words"},
		{"https://app.example.com/100%", "100%"},
		{"https://app.example.com/a--b__c", "a b c"},
		{"https://app.example.com/%00%E2%80%AEb", "b"},
		{"https://app.example.com/index.html", "index.html"},
		{"https://app.example.com/v1", "v1"},
		{"https://app.example.com/---", "unnamed"},
		{"/" + strings.Repeat("é", 40), strings.Repeat("é", 40)},
		{"/" + strings.Repeat("é", 41), strings.Repeat("é", 39) + "…"},
		{"/bills-of-the-whole-company-and-its-subparts", "bills of the whole company and its…"},
		{"/bills-of-the-whole-company-and-its-subparts/:id", "bills of the whole company and… detail"},
	}
	for _, c := range cases {
		t.Run(c.canonical, func(t *testing.T) { assert.Equal(t, c.want, activity.PageName(c.canonical)) })
	}
}

package activity_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
)

func TestNewAction_putsInWords(t *testing.T) {
	const view, click, submit, change = activity.TypePageview, activity.TypeClick, activity.TypeSubmit, activity.TypeChange
	const at = "https://app.example.com/dashboard"
	for _, c := range []struct{ typ, label, element, url, title, did string }{
		{view, "", "", at, "Page Load: Dashboard", "landed on the dashboard page"},
		{view, "x", "button", at, "Page Load: Dashboard", "landed on the dashboard page"},
		{view, "", "", "https://app.example.com", "Page Load: Home", "landed on the home page"},
		{view, "", "", "", "Page Load", "landed on a page"},
		{view, "", "", "?x=1#top", "Page Load", "landed on a page"},

		{click, "Export CSV", "button", at, "Click Export CSV", "clicked Export CSV on the dashboard page"},
		{click, "", "image", at, "Click image", "clicked an image on the dashboard page"},
		{click, " \n\u200b ", "button", at, "Click button", "clicked a button on the dashboard page"},
		{click, "\n  Add\tto \u00a0 cart\x00 ", "button", "", "Click Add to cart", "clicked Add to cart"},
		{click, "Copy https://u:pw@a.example/join?token=s3cr3t", "", "",
			"Click Copy https://a.example/join?token=redacted", "clicked Copy https://a.example/join?token=redacted"},
		{click, "", "checkbox", "", "Click checkbox", "clicked a checkbox"},

		{submit, "signup", "form", at, "Submit signup form", "submitted the signup form on the dashboard page"},
		{submit, "", "form", at, "Submit form", "submitted a form on the dashboard page"},

		{"", "", "", at, "Action element", "did an action on an element on the dashboard page"},
		{"scroll", "", "list", at, "Scroll list", "did a scroll on a list on the dashboard page"},

		{change, "plan", "select", at, "Change plan field", "changed the plan field on the dashboard page"},
		{change, "", "field", at, "Change field", "changed a field on the dashboard page"},
		{change, "", "input", at, "Change input", "changed an input on the dashboard page"},
	} {
		want := activity.Action{Type: c.typ, Title: c.title, Description: "User " + c.did, RawURL: c.url,
			CanonicalURL: activity.CanonicalURL(c.url)}
		assert.Equal(t, want, activity.NewAction(c.typ, activity.Target{Label: c.label, Element: c.element}, c.url))
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
	for canonical, want := range map[string]string{
		"": "", "/": "home", app + "/dashboard": "dashboard", app + "/Dashboard": "dashboard",
		app + "/account/billing-history": "billing history", app + "/team_members": "team members",
		app + "/projects/:id/tasks": "tasks", app + "/projects/:id/tasks/:id": "tasks detail",
		app + "/projects/:id/:id": "projects detail", app + "/:id": "detail", ":id": "detail",
		app + "/#/orders": "orders", app + "/#/orders/:id": "orders detail", app + "/app#/orders": "orders",
		app + "/#/": "home", "#/orders": "orders", "/dashboard": "dashboard", app + "/caf%C3%A9": "café",
		app + "/CAF%C3%89": "café", app + "/two%20words": "two words", app + "/100%": "100%",
		app + "/a--b__c": "a b c", app + "/%00%E2%80%AEb": "b", app + "/index.html": "index.html", app + "/v1": "v1",
		app + "/---": "unnamed", "/" + strings.Repeat("é", 40): strings.Repeat("é", 40),
		"/" + strings.Repeat("é", 41):                      strings.Repeat("é", 39) + "…",
		"/bills-of-the-whole-company-and-its-subparts":     "bills of the whole company and its…",
		"/bills-of-the-whole-company-and-its-subparts/:id": "bills of the whole company and… detail",
	} {
		t.Run(canonical, func(t *testing.T) { assert.Equal(t, want, activity.PageName(canonical)) })
	}
}

func TestNewEvent_putsInWords(t *testing.T) {
	const page = "https://app.example.com/billing"
	plan := activity.Property{Name: "plan", Value: "pro"}
	for _, c := range []struct {
		sentence    string
		properties  []activity.Property
		url         string
		description string
	}{
		{"sent an invoice", []activity.Property{plan}, page, "User sent an invoice (plan: pro) on the billing page"},
		{"", []activity.Property{plan}, page, "User did Invoice Sent (plan: pro) on the billing page"},
		{"", []activity.Property{plan, {"seats", "3"}}, "", "User did Invoice Sent (plan: pro, seats: 3)"},
		{"", []activity.Property{{"plan", " \n"}}, page, "User did Invoice Sent on the billing page"},
		{"", []activity.Property{{"plan", "a\n b\x00"}}, page, "User did Invoice Sent (plan: a b) on the billing page"},
		{"", []activity.Property{{"plan", strings.Repeat("x", 61)}}, "",
			"User did Invoice Sent (plan: " + strings.Repeat("x", 59) + "…)"},
		{"", []activity.Property{{"at", "https://a.example/?token=s3cr3t"}}, "",
			"User did Invoice Sent (at: https://a.example/?token=redacted)"},
	} {
		a := activity.NewEvent("Invoice Sent", c.sentence, c.properties, c.url)
		assert.Equal(t, []string{"event", "Invoice Sent", c.description}, []string{a.Type, a.Title, a.Description})
	}
	a := activity.NewEvent("Invoice Sent", "", []activity.Property{{"b", "2"}, plan, {"none", " "}}, page)
	assert.Equal(t, map[string]string{"b": "2", "plan": "pro"}, a.Properties)
	assert.Equal(t, "Viewed https://a.example/?token=redacted",
		activity.NewEvent("Viewed https://ada:s3cr3t@a.example/?token=s3cr3t", "", nil, page).Title)
}

func TestNewError_putsInWords(t *testing.T) {
	const page, seen = "https://app.example.com/checkout", "User saw an error on the checkout page"
	long := strings.Repeat("card declined ", 20)
	for _, c := range []struct{ typ, message, title, description string }{
		{"PaymentError", "card_declined", "Error PaymentError", seen + ": PaymentError: card_declined"},
		{"PaymentError", "", "Error PaymentError", seen + ": PaymentError"},
		{"", "card_declined", "Error", seen + ": card_declined"},
		{"", "", "Error", seen},
		{"E", long, "Error E", seen + ": E: " + long[:120]},
		{"E", "boom\n    at pay (https://a.example/app.js:3:4)", "Error E", seen + ": E: boom"},
		{"E", "boom\npay@https://a.example/app.js:3:4", "Error E", seen + ": E: boom"},
		{"E", "GET /api/a?access_token=s3cr3t&b=1 failed", "Error E",
			seen + ": E: GET /api/a?access_token=redacted&b=1 failed"},
		{"E", "GET /cb?code=s3cr3t&next=https://a.example/?sid=s3cr3t failed", "Error E",
			seen + ": E: GET /cb?code=redacted&next=https://a.example/?sid=redacted failed"},
		{"E", "is a.example/?token=s3cr3t right?", "Error E", seen + ": E: is a.example/?token=redacted right?"},
		{"GET /a?key=s3cr3t", "", "Error GET /a?key=redacted", seen + ": GET /a?key=redacted"},
		{"E", "what?  a=b", "Error E", seen + ": E: what? a=b"},
		{"E", "boom\napp/models/user.rb:12:in `pay'\n\tfrom app.rb:3:in `run'", "Error E", seen + ": E: boom"},
		{"E", "boom in b.php:3\nStack trace:\n#0 /var/www/b.php(3): pay()", "Error E", seen + ": E: boom in b.php:3"},
		{"E", "boom\n#0 /var/www/b.php(3): pay()", "Error E", seen + ": E: boom"},
		{"E", "boom\nstack backtrace:\n   0: std::panicking::begin", "Error E", seen + ": E: boom"},
		{"E", "boom at pay (https://a.example/x.js:1:2) at run (b.js:3:4)", "Error E", seen + ": E: boom"},
		{"E", "boom at https://a.example/x.js:1:2", "Error E", seen + ": E: boom"},
		{"E", "the meeting at 10:30 is over", "Error E", seen + ": E: the meeting at 10:30 is over"},
		{"E", "first\nsecond", "Error E", seen + ": E: first second"},
		{"E", "GET https://a.example/?token=s3cr3t failed", "Error E",
			seen + ": E: GET https://a.example/?token=redacted failed"},
	} {
		a := activity.NewError(c.typ, c.message, page)
		assert.Equal(t, []string{"error", c.title, c.description}, []string{a.Type, a.Title, a.Description})
	}
}

package activity_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
)

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

package activity_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

const app = "https://app.example.com"

func did(typ, label, path string) activity.Action {
	return activity.NewAction(typ, activity.Target{Label: label}, app+path)
}

// foreign is an action of another producer.
func foreign(typ, description string) activity.Action {
	return activity.Action{Type: typ, Title: "not used", Description: description, CanonicalURL: app + "/billing"}
}

func digest(actions ...activity.Action) string {
	var d activity.Digest
	d.Add(actions...)
	return d.String()
}

func TestDigest(t *testing.T) {
	visit := func(path string) activity.Action { return did(activity.TypePageview, "", path) }
	click := func(label string) activity.Action { return did(activity.TypeClick, label, "/checkout") }
	cases := []struct {
		name    string
		actions []activity.Action
		want    string
	}{
		{"nothing", nil, ""},
		{"one page", []activity.Action{visit("/pricing")}, "Visited pricing."},
		{"two pages", []activity.Action{visit("/pricing"), visit("/")}, "Visited pricing and home."},
		{"everything", []activity.Action{
			visit("/pricing"), visit("/checkout"), click("Confirm plan"), visit("/billing-settings"), did(activity.TypeSubmit, "payment", "/billing-settings"),
		}, "Visited pricing, checkout and billing settings; clicked Confirm plan; submitted the payment form."},
		{"a page again", []activity.Action{visit("/a"), visit("/b?x=1"), visit("/a/"), visit("/b")}, "Visited a and b."},
		{"one verb", []activity.Action{click("Next"), click("Save"), click("Confirm plan"), click("Next")}, "Clicked Next, Save and Confirm plan."},
		{"the same on two pages", []activity.Action{did(activity.TypeClick, "Save", "/a"), did(activity.TypeClick, "Save", "/b")}, "Clicked Save."},
		{"one page's name in another's", []activity.Action{did(activity.TypeClick, "Save on the a page", "/b")}, "Clicked Save on the a page."},
		{"order of kinds", []activity.Action{
			did("scroll", "Reports", "/a"), did(activity.TypeChange, "plan", "/a"), did(activity.TypeSubmit, "", "/a"), did(activity.TypeClick, "", "/a"), visit("/a"),
		}, "Visited a; clicked an element; submitted a form; changed the plan field; did a scroll on Reports."},
		{"a page without an address", []activity.Action{activity.NewAction(activity.TypePageview, activity.Target{}, "")}, "Landed on a page."},
		{"a question", []activity.Action{click("What's new?")}, "Clicked What's new?"},
		{"an end in dots", []activity.Action{click("More...")}, "Clicked More..."},
		{"a label cut", []activity.Action{click(strings.Repeat("long ", 30))}, "Clicked " + activity.CleanLabel(strings.Repeat("long ", 30))},

		{"foreign", []activity.Action{foreign("click", "User opened billing settings")}, "Opened billing settings."},
		{"foreign on a page", []activity.Action{foreign("opened", "User opened invoices on the billing page")}, "Opened invoices."},
		{"foreign on another page", []activity.Action{foreign("opened", "User opened invoices on the other page")}, "Opened invoices on the other page."},
		{"foreign, one verb", []activity.Action{foreign("x", "User opened invoices"), foreign("y", "User paid"), foreign("x", "The user opened receipts.")}, "Opened invoices and receipts; paid."},
		{"foreign, among ours", []activity.Action{click("Next"), foreign("click", "Clicked on Save"), click("Back")}, "Clicked Next and Back; clicked on Save."},
		{"foreign, particles", []activity.Action{foreign("x", "User logged in."), foreign("x", "User signed up for news"), foreign("x", "User signed up for offers"), foreign("x", "User logged out.")}, "Logged in; signed up for news and offers; logged out."},
		{"foreign, no user in front", []activity.Action{foreign("x", "Exported the CSV file"), foreign("x", "CSV was opened")}, "Exported the CSV file; CSV was opened."},
		{"foreign, other language", []activity.Action{foreign("x", "Übersicht geöffnet")}, "Übersicht geöffnet."},
		{"foreign, a verb with and without object", []activity.Action{foreign("x", "User scrolled"), foreign("x", "User scrolled the list")}, "Scrolled the list."},
		{"foreign, untidy", []activity.Action{foreign("x", " User\topened\n\x1b invoices\u202e . ")}, "Opened invoices."},
		{"foreign, only the user", []activity.Action{foreign("x", "User ")}, "User."},
		{"foreign, only a full stop", []activity.Action{foreign("x", "."), foreign("x", "User .")}, ""},

		{"our titles", []activity.Action{
			{Type: "pageview", Title: "Page Load: Dashboard"}, {Type: "click", Title: "Click Export CSV"}, {Type: "submit", Title: "Submit signup form"}, {Type: "change", Title: "Change plan field"},
		}, "Clicked Export CSV; submitted the signup form; changed the plan field; visited dashboard."},
		{"our title of no page", []activity.Action{{Type: "pageview", Title: "Page Load"}}, "Visited a page."},
		{"foreign titles", []activity.Action{{Type: "click", Title: "Approve vendor"}, {Type: "submit", Title: "Order"}, {Type: "opened", Title: "Opened the CSV file"}}, "Clicked Approve vendor; submitted Order; opened the CSV file."},
		{"a title of invisible characters", []activity.Action{{Type: "click", Title: "\u200b", Description: " "}}, "Clicked something."},
		{"types", []activity.Action{{Type: "click"}, {Type: "export"}, {}}, "Clicked something; did an export and something."},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, digest(c.actions...)) })
	}
}

// A later summary covers what an earlier one did.
func TestDigest_growsWithWhatIsAdded(t *testing.T) {
	var d activity.Digest
	assert.Empty(t, d.String())
	d.Add(did(activity.TypePageview, "", "/pricing"))
	assert.Equal(t, "Visited pricing.", d.String())
	d.Add()
	d.Add(did(activity.TypeClick, "Buy", "/pricing"), did(activity.TypePageview, "", "/checkout"))
	assert.Equal(t, "Visited pricing and checkout; clicked Buy.", d.String())
	assert.Equal(t, d.String(), d.String())
}

func TestDigest_countsWhatWasLongAgo(t *testing.T) {
	type kind struct {
		make    func(n int) activity.Action
		one     string // what is said of one earlier
		several string
		rest    string // what is said of a phrase after them
	}
	path := func(n int) string { return fmt.Sprintf("/p-%d", n) }
	kinds := map[string]kind{
		"pages":   {func(n int) activity.Action { return did(activity.TypePageview, "", path(n)) }, "Visited 1 earlier page, ", "Visited 12 earlier pages, ", "p %d"},
		"clicks":  {func(n int) activity.Action { return did(activity.TypeClick, fmt.Sprint("b", n), "/") }, "Clicked 1 earlier element, ", "Clicked 12 earlier elements, ", "b%d"},
		"submits": {func(n int) activity.Action { return did(activity.TypeSubmit, fmt.Sprint("f", n), "/") }, "Submitted 1 earlier form, ", "Submitted 12 earlier forms, ", "the f%d form"},
		"changes": {func(n int) activity.Action { return did(activity.TypeChange, fmt.Sprint("c", n), "/") }, "Changed 1 earlier field, ", "Changed 12 earlier fields, ", "the c%d field"},
		"others":  {func(n int) activity.Action { return foreign("x", fmt.Sprint("User did o", n)) }, "Did 1 earlier thing, ", "Did 12 earlier things, ", "o%d"},
		"another verb": {func(n int) activity.Action { return foreign("click", fmt.Sprint("User pressed k", n)) },
			"Clicked 1 earlier element; pressed ", "Clicked 12 earlier elements; pressed ", "k%d"},
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			var d activity.Digest
			add := func(from, to int) {
				for n := from; n <= to; n++ {
					d.Add(k.make(n))
				}
			}
			add(1, 50)
			assert.NotContains(t, d.String(), "earlier")
			assert.Contains(t, d.String(), fmt.Sprintf(k.rest+", ", 1))
			add(50, 51)
			assert.True(t, strings.HasPrefix(d.String(), k.one+fmt.Sprintf(k.rest+", "+k.rest, 2, 3)), d.String())
			add(52, 62)
			assert.True(t, strings.HasPrefix(d.String(), k.several+fmt.Sprintf(k.rest+", ", 13)), d.String())
			assert.True(t, strings.HasSuffix(d.String(), fmt.Sprintf(k.rest+" and "+k.rest+".", 61, 62)), d.String())
			assert.Equal(t, 50, strings.Count(d.String(), ",")+strings.Count(d.String(), " and ")+strings.Count(d.String(), ";"), "what is kept")
		})
	}
}

// However the actions come, they make the same text.
func TestDigest_isTheSameInWhateverDivision(t *testing.T) {
	types := []string{activity.TypePageview, activity.TypeClick, activity.TypeSubmit, activity.TypeChange, "scroll"}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		actions := make([]activity.Action, 400)
		for i := range actions {
			actions[i] = did(types[r.IntN(len(types))], fmt.Sprint("label ", r.IntN(70)), fmt.Sprint("/page-", r.IntN(70)))
		}
		want := digest(actions...)
		var d activity.Digest
		for len(actions) > 0 {
			n := 1 + r.IntN(min(20, len(actions)))
			d.Add(actions[:n]...)
			actions = actions[n:]
			if r.IntN(2) == 0 {
				_ = d.String()
			}
		}
		require.Equal(t, want, d.String())
	}
}

func TestDigest_isBounded(t *testing.T) {
	var d activity.Digest
	for n := range 1000 {
		for _, typ := range []string{activity.TypePageview, activity.TypeClick, activity.TypeSubmit, activity.TypeChange, "x"} {
			d.Add(activity.Action{Type: typ, CanonicalURL: fmt.Sprintf("/%d-%s", n, strings.Repeat("ü", 500)),
				Description: fmt.Sprintf("User %d%s %d %s", n, strings.Repeat("verbed", 50), n, strings.Repeat("object ", 1000))})
		}
	}
	assert.Less(t, utf8.RuneCountInString(d.String()), 5*50*(120+120+4))
}

func FuzzDigest(f *testing.F) {
	f.Add("click", "User clicked Save on the home page", "Click Save", "https://app.example.com/", "User opened\ninvoices.")
	f.Add("pageview", "", "Page Load: Home", "", "User ")
	f.Add("\x00\u202e", "\xff", "\u200d", "/a%0ab", "User\u2028on")
	f.Add("submit", " on the a page", "Submit ", "/a", "the user .")
	f.Fuzz(func(t *testing.T, typ, description, title, url, other string) {
		actions := []activity.Action{
			{Type: typ, Description: description, Title: title, CanonicalURL: url},
			{Type: typ, Title: title, CanonicalURL: url},
			{Type: activity.TypePageview, CanonicalURL: url},
			{Type: activity.TypeClick, Description: other, CanonicalURL: url},
			{Type: activity.TypeSubmit, Title: other}, {Type: activity.TypeChange, Title: title}, {Type: other},
		}
		text := digest(actions...)
		requireOneLine(t, text)
		require.Less(t, utf8.RuneCountInString(text), len(actions)*(2*120+6))
		var d activity.Digest
		for _, a := range actions {
			d.Add(a)
		}
		require.Equal(t, text, d.String())
		d.Add(actions...)
		require.Equal(t, text, d.String(), "everything is said once")
	})
}

func BenchmarkDigest_Add(b *testing.B) {
	batch := session(1, 20)
	actions := make([]activity.Action, len(batch.Actions))
	for i, a := range batch.Actions {
		actions[i] = a.Action
	}
	var d activity.Digest
	b.ReportAllocs()
	for b.Loop() {
		d.Add(actions...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(actions)), "ns/action")
}

func BenchmarkDigest_String(b *testing.B) {
	var d activity.Digest
	for n := range 20 {
		d.Add(did(activity.TypePageview, "", fmt.Sprintf("/p-%d", n)), did(activity.TypeClick, fmt.Sprint("b", n), "/"))
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = d.String()
	}
}

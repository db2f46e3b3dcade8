package activity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/heaptest"
)

const app = "https://app.example.com"

func did(typ, label, path string) activity.Action {
	return activity.NewAction(typ, activity.Target{Label: label}, app+path)
}

// foreign is an action of another producer.
func foreign(typ, title string) activity.Action {
	return activity.Action{Type: typ, Title: title, Description: "User did what is not used on the billing page",
		CanonicalURL: app + "/billing"}
}

func digest(actions ...activity.Action) string {
	var d activity.Digest
	d.Add(actions...)
	return d.String()
}

func TestDigest(t *testing.T) {
	type acts = []activity.Action
	const click, submit, change = activity.TypeClick, activity.TypeSubmit, activity.TypeChange
	visit := func(path string) activity.Action { return did(activity.TypePageview, "", path) }
	clicks := func(label string) activity.Action { return did(click, label, "/checkout") }
	for _, c := range []struct {
		name    string
		actions acts
		want    string
	}{
		{"nothing", nil, ""},
		{"one page", acts{visit("/pricing")}, "Visited pricing."},
		{"a page again", acts{visit("/a"), visit("/b?x=1"), visit("/a/"), visit("/b")}, "Visited a and b."},
		{"one verb", acts{clicks("Next"), clicks("Save"), clicks("Confirm plan"), clicks("Next")},
			"Clicked Next, Save and Confirm plan."},
		{"the same on two pages", acts{did(click, "Save", "/a"), did(click, "Save", "/b")}, "Clicked Save."},
		{"one page's name in another's", acts{did(click, "Save on the a page", "/b")}, "Clicked Save on the a page."},
		{"order of kinds", acts{
			did("scroll", "Reports", "/a"), did(change, "plan", "/a"), did(submit, "", "/a"),
			did(click, "", "/a"), visit("/a"),
		}, "Visited a; clicked element; submitted a form; changed the plan field; did “Scroll Reports”."},
		{"a page without an address", acts{activity.NewAction(activity.TypePageview, activity.Target{}, "")},
			"Visited a page."},
		{"a question", acts{clicks("What's new?")}, "Clicked What's new?"},
		{"an end in dots", acts{clicks("More...")}, "Clicked More..."},
		{"a label cut", acts{clicks(strings.Repeat("long ", 30))},
			"Clicked " + activity.CleanLabel(strings.Repeat("long ", 30))},
		{"a title of any length", acts{foreign("click", strings.Repeat("long ", 100))},
			"Clicked " + strings.Repeat("long ", 23) + "long…"},

		{"remote", acts{
			{Type: "pageview", Title: "Page Load: Dashboard", CanonicalURL: app + "/billing"},
			{Type: "click", Title: "Click Export CSV"},
			{Type: "submit", Title: "Submit signup form"}, {Type: "change", Title: "Change plan field"},
		}, "Visited billing; clicked Export CSV; submitted the signup form; changed the plan field."},
		{"elements without a label", acts{
			{Type: "click", Title: "Click button"}, {Type: "submit", Title: "Submit form"},
			{Type: "change", Title: "Change input"},
		}, "Clicked button; submitted a form; changed an input."},
		{"titles of pages", acts{{Type: "pageview", Title: "Page Load: Vendors"},
			{Type: "pageview", Title: "Page Load"}, {Type: "pageview", Title: "Start"}, {Type: "pageview"}},
			"Visited Vendors, a page and Start."},
		{"foreign titles", acts{foreign("click", "Approve vendor"), foreign("submit", "Order"),
			foreign("opened", "Opened the CSV file"), foreign("", "Übersicht")},
			"Clicked Approve vendor; submitted Order; did “Opened the CSV file” and “Übersicht”."},
		{"an untidy title", acts{foreign("x", " Opened\tthe\n\x1b file\u202e . ")}, "Did “Opened the file .”."},
		{"a title of invisible characters", acts{{Type: "click", Title: "\u200b", Description: " "}}, "Clicked something."},
		{"types", acts{{Type: "click"}, {Type: "export"}, {}}, "Clicked something; did an export and something."},
		{"errors", acts{activity.NewError("PaymentError", "card_declined", app), activity.NewError("", "", app),
			foreign("error", "Payment failed"), activity.NewEvent("Invoice Sent", "", nil, app)},
			"Did “Invoice Sent”; saw the error PaymentError, an error and “Payment failed”."},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, digest(c.actions...)) })
	}
}

func TestDigest_countsEarlierPhrases(t *testing.T) {
	type kind struct {
		make    func(n int) activity.Action
		one     string // the beginning with one earlier action
		several string
		rest    string // a format of the later phrases
	}
	path := func(n int) string { return fmt.Sprintf("/p-%d", n) }
	for name, k := range map[string]kind{
		"pages": {func(n int) activity.Action { return did(activity.TypePageview, "", path(n)) },
			"Visited 1 earlier page, ", "Visited 12 earlier pages, ", "p %d"},
		"clicks": {func(n int) activity.Action { return did(activity.TypeClick, fmt.Sprint("b", n), "/") },
			"Clicked 1 earlier element, ", "Clicked 12 earlier elements, ", "b%d"},
		"submits": {func(n int) activity.Action { return did(activity.TypeSubmit, fmt.Sprint("f", n), "/") },
			"Submitted 1 earlier form, ", "Submitted 12 earlier forms, ", "the f%d form"},
		"changes": {func(n int) activity.Action { return did(activity.TypeChange, fmt.Sprint("c", n), "/") },
			"Changed 1 earlier field, ", "Changed 12 earlier fields, ", "the c%d field"},
		"others": {func(n int) activity.Action { return foreign("x", fmt.Sprint("o", n)) }, "Did 1 earlier thing, ",
			"Did 12 earlier things, ", "“o%d”"},
		"errors": {func(n int) activity.Action { return activity.NewError(fmt.Sprint("E", n), "", app) },
			"Saw 1 earlier error, ", "Saw 12 earlier errors, ", "the error E%d"},
	} {
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
			assert.Equal(t, 50, strings.Count(d.String(), ",")+strings.Count(d.String(), " and ")+strings.Count(d.String(), ";"),
				"what is kept")
		})
	}
}

// A stored digest goes on like one that was not stored. It stays bounded after decoding any text.
func TestDigest_goesOnFromItsJSON(t *testing.T) {
	types := []string{activity.TypePageview, activity.TypeClick, activity.TypeSubmit, activity.TypeChange, "other",
		activity.TypeError}
	var want, got activity.Digest
	for n := range 400 {
		a := activity.Action{Type: types[n%len(types)], Title: fmt.Sprint("Click ", n%70, " <b>"),
			CanonicalURL: fmt.Sprint(app, "/p-", n)}
		want.Add(a)
		got.Add(a)
		data, err := json.Marshal(&got)
		require.NoError(t, err)
		got = activity.Digest{}
		require.NoError(t, json.Unmarshal(data, &got))
		require.Equal(t, want.String(), got.String())
	}
	require.Error(t, json.Unmarshal([]byte(`{"kinds":1}`), &got))
	require.Equal(t, want.String(), got.String(), "an error changes nothing")

	phrases := strings.TrimSuffix(strings.Repeat(`"x",`, 60), ",")
	require.NoError(t, json.Unmarshal([]byte(`[{"said":[`+phrases+`]}]`), &got))
	require.Contains(t, got.String(), "Visited 10 earlier pages, x")
	require.NoError(t, json.Unmarshal([]byte(`[]`), &got))
	require.Empty(t, got.String())
}

func TestDigest_takesItsStatedSize(t *testing.T) {
	digests := make([]activity.Digest, 100)
	grown := heaptest.After(func() {
		for i := range digests {
			for n := range 60 {
				digests[i].Add(did(activity.TypePageview, "", fmt.Sprintf("/p-%d-%d", i, n)),
					did(activity.TypeClick, strings.Repeat("x", n), "/"))
			}
		}
	})
	var size int64
	for i := range digests {
		size += digests[i].Size()
	}
	size -= int64(len(digests)) * new(activity.Digest).Size() // they were there before
	assert.InEpsilon(t, grown, size, 0.1)
}

func FuzzDigest(f *testing.F) {
	f.Add("click", "User clicked Save on the home page", "Click Save", "https://app.example.com/",
		"User opened\ninvoices.")
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

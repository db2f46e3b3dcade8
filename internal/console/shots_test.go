package console_test

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/browsertest"
)

var shots = flag.String("shots", "", "a folder for pictures of every view")

// people are there when pictures are taken.
func people(f *fake) {
	const app = "https://app.example.com"
	type person struct {
		id, user, email, action, url string
		first, last                  time.Duration
		conversation, state          string
	}
	for _, p := range []person{
		{"0198c2f4-7a11", "user_42", "ada.lovelace@example.com", "User clicked Export CSV on the billing history page", app + "/account/billing-history", 14 * time.Minute, 3 * time.Second, "215468", "proactive_assistance"},
		{"0198c2f4-7a12", "user_7", "grace@navy.example", "User landed on the pricing page", app + "/pricing", 41 * time.Minute, 9 * time.Second, "", ""},
		{"0198c2f4-7a13", "", "", "User landed on the home page", app + "/", 20 * time.Second, 12 * time.Second, "", ""},
		{"0198c2f4-7a14", "user_1815", "", "User submitted the signup form on the signup page", app + "/signup", 3 * time.Minute, 31 * time.Second, "", ""},
		{"0198c2f4-7a15", "user_99", "katherine.johnson@langley.example", "User clicked Recalculate trajectory on the projects detail page", app + "/projects/:id", 2*time.Hour + 5*time.Minute, 48 * time.Second, "215470", "reactive_assistance"},
		{"0198c2f4-7a16", "user_12", "edsger@eindhoven.example", "User changed the plan field on the checkout page", app + "/checkout", 8 * time.Minute, 95 * time.Second, "215471", "thinking"},
		{"0198c2f4-7a17", "", "", "User clicked a button on the docs page", app + "/docs", 6 * time.Minute, 2 * time.Minute, "", ""},
		{"0198c2f4-7a18", "user_55", "barbara@mit.example", "User landed on the team members page", app + "/team-members", 55 * time.Minute, 3 * time.Minute, "215455", "guidance_execution"},
		{"0198c2f4-7a19", "user_56", "alan@bletchley.example", "User clicked Decrypt on the messages detail page", app + "/messages/:id", 12 * time.Minute, 4 * time.Minute, "", ""},
		{"0198c2f4-7a1a", "user_57", "margaret.hamilton@apollo.example", "User submitted the checklist form on the landing page", app + "/landing", 31 * time.Minute, 7 * time.Minute, "215431", "conservative_assistance"},
		{"0198c2f4-7a1b", "", "", "User landed on the blog page", app + "/blog", 9 * time.Minute, 9 * time.Minute, "", ""},
		{"0198c2f4-7a1c", "user_58", "donald@stanford.example", "User clicked Volume 4 on the books page", app + "/books", 3*time.Hour + 31*time.Minute, 26 * time.Minute, "", ""},
	} {
		r := row(p.id, p.user, p.email, p.action, p.url, p.first, p.last)
		if p.conversation != "" {
			r["conversation_id"] = p.conversation
		}
		if p.state != "" {
			r["state"] = p.state
		}
		f.rows = append(f.rows, r)
	}
	f.details["0198c2f4-7a11"] = visit(f.rows[0])
	f.flow = figures()
}

// visit is what a person did.
func visit(session map[string]any) map[string]any {
	const app = "https://app.example.com"
	steps := []struct{ typ, label, url string }{
		{activity.TypePageview, "", app + "/dashboard"}, {activity.TypeClick, "Reports", app + "/dashboard"},
		{activity.TypePageview, "", app + "/projects/42"}, {activity.TypeClick, "Share", app + "/projects/42"}, {activity.TypeSubmit, "invite", app + "/projects/42"},
		{activity.TypePageview, "", app + "/account/billing-history"}, {activity.TypeChange, "period", app + "/account/billing-history"},
		{activity.TypeClick, "Export CSV", app + "/account/billing-history"}, {activity.TypePageview, "", app + "/pricing"}, {activity.TypePageview, "", app + "/account/billing-history"},
		{activity.TypeClick, "Export CSV", app + "/account/billing-history"}, {activity.TypeClick, "Export CSV", app + "/account/billing-history"},
	}
	var recent []activity.Action
	lines := []string{"session_id: " + session["session_id"].(string), "timestamp: 2026-11-22 14:31:07 UTC", ""}
	begin := activity.Seconds(time.Now()) - 14*60
	for i, step := range steps {
		a := activity.NewAction(step.typ, activity.Target{Label: step.label}, step.url)
		a.TimestampStart, a.Index = begin+float64(i*i)*5.8, i
		a.TimestampEnd = a.TimestampStart + 2
		recent = append(recent, a)
		lines = append(lines, fmt.Sprintf("[%d] %s", i+1, a.Description))
	}
	text := strings.Join(lines, "\n")
	html := strings.ReplaceAll(text, "\n", "<br>")
	return map[string]any{"session": session, "recent": recent, "conversation_url": "https://app.intercom.com/a/apps/x/conversations/215468",
		"notes": []any{map[string]any{"desk": "intercom", "text": text, "html": html}}}
}

func figures() map[string]any {
	var minutes []any
	begin := time.Now().Unix()/60*60 - 59*60
	for i := range 60 {
		wave := (i*i*7+i*13)%37 + (30-abs(30-i))*3
		minutes = append(minutes, map[string]any{"minute": begin + int64(i)*60, "accepted": 40 + wave*2, "ignored": 6 + wave/5, "duplicate": wave / 9,
			"actions": 36 + wave*2 - wave/3, "summaries": wave / 40, "notes": wave / 6, "offers": wave % 3 / 2})
	}
	return map[string]any{"product_id": fakeProduct, "as_of": activity.Seconds(time.Now()), "minutes": minutes, "readers": 3, "lag_s": 0.4, "parked": 2,
		"desks":   []map[string]any{{"desk": "intercom", "parked": 0, "retrying": 0}, {"desk": "zendesk", "parked": 2, "retrying": 1}},
		"storage": map[string]any{"engine": "redis", "log_bytes": 831 << 20, "log_max_bytes": 4 << 30, "state_bytes": 96 << 20, "state_max_bytes": 4 << 30}}
}

func abs(n int) int { return max(n, -n) }

// With -shots the views are photographed, in two widths and two colour schemes.
func TestConsole_pictures(t *testing.T) {
	if *shots == "" {
		t.Skip("no -shots")
	}
	f := newFake()
	people(f)
	empty := newFake()
	web, bare := httptest.NewServer(f.handler()), httptest.NewServer(empty.handler())
	t.Cleanup(web.Close)
	t.Cleanup(bare.Close)
	browser := browsertest.Start(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, size := range [][2]int64{{1280, 800}, {390, 844}} {
			picture := func(name, url, key, wait string) {
				tab := open(t, browser, url, "", key)
				tab.Do("look", chromedp.EmulateViewport(size[0], size[1]), emulate("prefers-color-scheme", scheme), chromedp.Navigate(url))
				tab.Await(name, wait)
				time.Sleep(700 * time.Millisecond)
				png, err := chromedp.Run(tab.Context(), chromedp.CaptureScreenshot())
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(*shots, fmt.Sprintf("%s-%d-%s.png", name, size[0], scheme)), png, 0o644))
			}
			rows := `document.querySelectorAll(".view:not([hidden]) .list-space .row").length > 1`
			picture("key", web.URL, "", `!!document.querySelector("#la-key")`)
			picture("now", web.URL+"#/now", fakeKey, rows)
			picture("person", web.URL+"#/person/0198c2f4-7a11", fakeKey, `document.querySelectorAll(".card").length > 1`)
			picture("flow", web.URL+"#/flow", fakeKey, `!!document.querySelector(".plot rect[height]")`)
			picture("search", web.URL+"#/search?q=user_5", fakeKey, rows)
			picture("empty", bare.URL+"#/now", fakeKey, `document.querySelector(".now .note b")?.offsetHeight > 0`)
		}
	}
}

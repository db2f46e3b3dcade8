package bridge_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/bridge"
)

func TestActions_makesTheAction(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 200))
	longest, word := strings.Repeat("s", 1024), strings.Repeat("w", 32)
	page := "https://p.example/" + strings.Repeat("p", 2030)
	for name, tt := range map[string]struct {
		fields string
		want   activity.Action
	}{
		"a title": {`"title":"Approve vendor"`,
			activity.Action{Type: "click", Title: "Approve vendor", Description: "User clicked Approve vendor"}},
		"empty fields": {`"title":"Approve vendor","type":"","description":"","url":"","vendor":null`,
			activity.Action{Type: "click", Title: "Approve vendor", Description: "User clicked Approve vendor"}},
		"null fields": {`"title":"Approve vendor","type":null,"description":null,"url":null,"vendor":null`,
			activity.Action{Type: "click", Title: "Approve vendor", Description: "User clicked Approve vendor"}},
		"a title that says click": {`"title":"Click Approve vendor"`,
			activity.Action{Type: "click", Title: "Click Approve vendor", Description: "User clicked Approve vendor"}},
		"nothing but click": {`"title":"Click"`,
			activity.Action{Type: "click", Title: "Click", Description: "User clicked Click"}},
		"a page": {`"title":"Page Load: Vendors","type":"pageview","url":"http://127.0.0.1:8070/#/vendors"`,
			activity.Action{Type: "pageview", Title: "Page Load: Vendors", Description: "User visited vendors",
				RawURL: "http://127.0.0.1:8070/#/vendors", CanonicalURL: "http://127.0.0.1:8070/#/vendors"}},
		"a page of a name": {`"title":"Acme Supplies","type":"pageview"`,
			activity.Action{Type: "pageview", Title: "Acme Supplies", Description: "User visited Acme Supplies"}},
		"a form": {`"title":"Submit payment form","type":"submit","url":"https://p.example/checkout?card=4111"`,
			activity.Action{Type: "submit", Title: "Submit payment form",
				Description: "User submitted the payment form on the checkout page",
				RawURL:      "https://p.example/checkout?card=4111", CanonicalURL: "https://p.example/checkout"}},
		"a field": {`"title":"Plan","type":"change"`,
			activity.Action{Type: "change", Title: "Plan", Description: "User changed the Plan field"}},
		"a type of one's own": {`"title":"Upload W-9","type":"drag-and_drop2"`,
			activity.Action{Type: "drag-and_drop2", Title: "Upload W-9", Description: "User did “Upload W-9”"}},
		"an error": {`"title":"Upload failed","type":"error"`,
			activity.Action{Type: "error", Title: "Upload failed", Description: "User saw an error: Upload failed"}},
		"a description": {`"title":"Approve","description":"  Ada approved\n\tAcme\u0000, at \u202elast  "`,
			activity.Action{Type: "click", Title: "Approve", Description: "Ada approved Acme, at last"}},
		"a title to clean": {`"title":"  Approve\n\t the\u0007 vendor\u202e "`,
			activity.Action{Type: "click", Title: "Approve the vendor", Description: "User clicked Approve the vendor"}},
		"a description of 500 characters": {fmt.Sprintf(`"title":"t","description":%q`, long[:496]+"äöüß"),
			activity.Action{Type: "click", Title: "t", Description: long[:496] + "äöüß"}},
		"a longer description": {fmt.Sprintf(`"title":"t","description":%q`, long[:499]+" x"),
			activity.Action{Type: "click", Title: "t", Description: long[:499] + "…"}},
		"the longest type and URL": {fmt.Sprintf(`"title":"t","type":%q,"url":%q`, word, page),
			activity.Action{Type: word, Title: "t", Description: "User did “t”", RawURL: page, CanonicalURL: page}},
		"unknown fields": {`"title":"t","user":{"name":"ada"},"timestamp":1,"index":7`,
			activity.Action{Type: "click", Title: "t", Description: "User clicked t"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(nil)
			assert.Equal(t, 1, accepted(t, post(b, ` {"session_id":"`+longest+`",`+tt.fields+"}\n")))
			got := ask(t, b, longest).Actions[0]
			assert.NotZero(t, got.TimestampStart)
			got.TimestampStart, got.TimestampEnd = 0, 0
			assert.Equal(t, tt.want, got)
			assert.LessOrEqual(t, utf8.RuneCountInString(got.Title), 80)
			assert.LessOrEqual(t, utf8.RuneCountInString(got.Description), 500)
		})
	}
}

func TestActions_makesTheVendor(t *testing.T) {
	fifty := strings.TrimSuffix(strings.Repeat(`"d",`, 50), ",")
	for name, tt := range map[string]struct {
		vendor string
		want   bridge.Vendor
	}{
		"id and status": {`{"id":"7","status":"pending"}`,
			bridge.Vendor{ID: "7", Status: bridge.Pending, MissingDocuments: []string{}}},
		"null documents": {`{"id":"7","name":null,"status":"in_review","missing_documents":null}`,
			bridge.Vendor{ID: "7", Status: bridge.InReview, MissingDocuments: []string{}}},
		"documents": {`{"id":"7","name":" A\n B ","status":"blocked","missing_documents":[" W-9\tform ` +
			`","","permit","permit"]}`, bridge.Vendor{ID: "7", Name: "A B", Status: bridge.Blocked,
			MissingDocuments: []string{"W-9 form", "permit"}}},
		"50 documents": {`{"id":"7","status":"blocked","missing_documents":[` + fifty + `]}`,
			bridge.Vendor{ID: "7", Status: bridge.Blocked, MissingDocuments: []string{"d"}}},
		"an id to keep": {`{"id":" a/b ","status":"blocked"}`,
			bridge.Vendor{ID: " a/b ", Status: bridge.Blocked, MissingDocuments: []string{}}},
		"the longest id": {`{"id":"` + strings.Repeat("7", 1024) + `","status":"blocked"}`,
			bridge.Vendor{ID: strings.Repeat("7", 1024), Status: bridge.Blocked, MissingDocuments: []string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(nil)
			accepted(t, post(b, `{"session_id":"s","title":"t","vendor":`+tt.vendor+`}`))
			assert.Equal(t, &tt.want, ask(t, b, "s").Vendor)
		})
	}
}

func TestActions_refuses(t *testing.T) {
	const statuses = "vendor.status must be one of pending, in_review, blocked, approved."
	const badType, badURL = "type must be a word", "url must be an absolute http or https URL"
	with := func(fields string) string { return `{"session_id":"s","title":"t",` + fields + `}` }
	vendor := func(fields string) string { return with(`"vendor":{` + fields + `}`) }
	documents := func(list string) string { return vendor(`"id":"7","status":"blocked","missing_documents":` + list) }
	for name, tt := range map[string]struct{ body, want string }{
		"nothing":              {"", "empty"},
		"no JSON":              {"session_id=s&title=t", "not valid JSON: the mistake is near byte 1."},
		"half":                 {`{"session_id":"s","title":"t"`, "near byte 29."},
		"two objects":          {`{"session_id":"s","title":"t"}{}`, "near byte 31."},
		"broken and no object": {`["s"`, "near byte 4."},
		"null":                 {"null", "must be a JSON object"},
		"an array":             {`[{"session_id":"s","title":"t"}]`, "must be a JSON object"},
		"not UTF-8":            {"{\"session_id\":\"s\xff\",\"title\":\"t\"}", "not UTF-8"},
		"no session":           {`{"title":"t"}`, "session_id is required"},
		"session is a number":  {`{"session_id":5,"title":"t"}`, "session_id must be a string, not of the type number."},
		"session is too long": {`{"session_id":"` + strings.Repeat("x", 1025) + `","title":"t"}`,
			"session_id must be at most 1024 bytes long."},
		"half a surrogate":    {`{"session_id":"a\ud800","title":"t"}`, "session_id must not contain"},
		"no title":            {`{"session_id":"s"}`, "title is required"},
		"empty title":         {`{"session_id":"s","title":" \n "}`, "title is required"},
		"type in capitals":    {with(`"type":"Click"`), badType},
		"type begins wrong":   {with(`"type":"-a"`), badType},
		"type ends in a line": {with(`"type":"a\n"`), badType},
		"type is long":        {with(`"type":"` + strings.Repeat("a", 33) + `"`), badType},
		"url is relative":     {with(`"url":"/vendors"`), badURL},
		"url is a script's":   {with(`"url":"javascript://host/%0aalert(1)"`), badURL},
		"url has no host":     {with(`"url":"https:///vendors"`), badURL},
		"url has only a port": {with(`"url":"https://:80/"`), badURL},
		"url is broken":       {with(`"url":"https://a.example/%zz"`), badURL},
		"url is too long":     {with(`"url":"https://a.example/` + strings.Repeat("x", 2031) + `"`), "at most 2048 bytes"},
		"vendor is a string":  {with(`"vendor":"Acme"`), "vendor must be an object, not of the type string."},
		"vendor is empty":     {vendor(``), "vendor.id is required"},
		"vendor id is a number": {vendor(`"id":7,"status":"blocked"`),
			"vendor.id must be a string, not of the type number."},
		"vendor id is too long": {vendor(`"id":"` + strings.Repeat("x", 1025) + `","status":"blocked"`),
			"vendor.id must be at most 1024 bytes long."},
		"no status":      {vendor(`"id":"7"`), statuses},
		"unknown status": {vendor(`"id":"7","status":"rejected"`), statuses},
		"documents are a word": {documents(`"W-9"`),
			"vendor.missing_documents must be an array of strings, not of the type string."},
		"documents are objects": {documents(`[{"name":"W-9"}]`), "vendor.missing_documents"},
		"too many documents":    {documents(`[` + strings.Repeat(`"d",`, 50) + `"d"]`), "at most 50 strings."},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(nil)
			assert.Contains(t, requireDetail(t, http.StatusBadRequest, post(b, tt.body)), tt.want)
			assert.Zero(t, b.Sessions(), "a report that is refused leaves nothing")
		})
	}
}

func TestActions_limitsTheBody(t *testing.T) {
	const frame, limit = `{"session_id":"s","title":"t","extra":""}`, 64 << 10
	b := newBridge(nil)
	body := strings.Replace(frame, `""`, `"`+strings.Repeat("x", limit-len(frame))+`"`, 1)
	accepted(t, post(b, body))
	detail := requireDetail(t, http.StatusRequestEntityTooLarge, post(b, body+" "))
	assert.Contains(t, detail, fmt.Sprint(limit))
}

func encodeAll(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// FuzzActions: every posted body is accepted, or refused with a sentence. An accepted action
// is within its limits and can be read back.
func FuzzActions(f *testing.F) {
	for _, body := range []string{
		`{"session_id":"s","title":"Click Approve vendor","type":"click","description":"d","url":"https://a.example/#/x/1"}`,
		`{"session_id":"..","title":"t"}`,
		`{"session_id":"a/b","title":"t","vendor":{"id":"7","name":"Acme","status":"blocked","missing_documents":["W-9 ` +
			`form",null]}}`,
		`{"session_id":"\ud800","title":"\u200d\u202e"}`, `{"session_id":5}`, `[]`, `null`, `{`, "", "\xff",
		`{"session_id":"s","title":"t"}x`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newBridge(nil)
		w := post(b, string(body))
		if w.Code != http.StatusAccepted {
			require.Contains(t, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, w.Code)
			requireDetail(t, w.Code, w)
			require.Zero(t, b.Sessions())
			return
		}
		require.Equal(t, 1, accepted(t, w))
		r, err := bridge.ReadSession(body)
		require.NoError(t, err)
		c := ask(t, b, encodeAll(r))
		require.Equal(t, r, c.SessionID)
		require.Len(t, c.Actions, 1)
		a := c.Actions[0]
		require.NotEmpty(t, a.Title)
		require.LessOrEqual(t, utf8.RuneCountInString(a.Title), 80)
		require.NotEmpty(t, a.Description)
		require.LessOrEqual(t, utf8.RuneCountInString(a.Description), 500)
		require.Equal(t, a.CanonicalURL, activity.CanonicalURL(a.CanonicalURL))
		require.True(t, utf8.ValidString(c.Summary))
		require.NotContains(t, c.Summary, "\n")
	})
}

// did reports actions, each "type title", and returns the summary.
func did(t *testing.T, actions ...string) string {
	t.Helper()
	b := newBridge(nil)
	for _, a := range actions {
		typ, title, _ := strings.Cut(a, " ")
		accepted(t, post(b, fmt.Sprintf(`{"session_id":"s","type":%q,"title":%q,"url":"https://p.example/a-page"}`,
			typ, title)))
	}
	return b.Context("s").Summary
}

func TestSummary_statesTheActions(t *testing.T) {
	for name, tt := range map[string]struct {
		actions []string
		want    string
	}{
		"nothing": {nil, "Hi! I have not seen any activity in this session yet. Look around, and ask me " +
			"whenever you need a hand."},
		"a page":            {[]string{"pageview Page Load: Vendors"}, "Hi! I can see you visited vendors."},
		"a page of a name":  {[]string{"pageview Page Load: Acme Supplies"}, "Hi! I can see you visited Acme Supplies."},
		"a page of no name": {[]string{"pageview Page Load"}, "Hi! I can see you visited a page."},
		"an abbreviation":   {[]string{"pageview FAQ"}, "Hi! I can see you visited FAQ."},
		"a bare click":      {[]string{"click Approve vendor"}, "Hi! I can see you clicked Approve vendor."},
		"a page and a click": {[]string{"pageview Vendors", "click Approve vendor"},
			"Hi! I can see you visited vendors and clicked Approve vendor."},
		"two pages and a click": {[]string{"pageview Vendors", "pageview Acme Supplies", "click Approve vendor"},
			"Hi! I can see you visited vendors and Acme Supplies, and clicked Approve vendor."},
		"everything": {[]string{"pageview Vendors", "click A", "click B", "click C", "submit Submit payment form",
			"change Change plan field", "drag Card", "error Error PaymentError"},
			"Hi! I can see you visited vendors, clicked A, B and C, submitted the payment form, changed the plan field, " +
				"saw the error PaymentError, and did “Card”."},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, did(t, tt.actions...)) })
	}
}

func TestSummary_coversTheNewest(t *testing.T) {
	actions := make([]string, 30)
	for i := range actions {
		actions[i] = fmt.Sprintf("click %s <%d>", strings.Repeat("long ", 15), i)
	}
	summary := did(t, actions...)
	assert.Contains(t, summary, "<29>")
	assert.Contains(t, summary, "<15>")
	assert.NotContains(t, summary, "<14>")
	assert.Less(t, len(summary), 15*85)
}

func TestSummary_statesTheVendorsStatus(t *testing.T) {
	eight := []string{"d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8"}
	for name, tt := range map[string]struct {
		name, status string
		documents    []string
		want         string
	}{
		"none missing": {"Acme", "pending", nil, "Acme is pending. No documents are missing."},
		"one missing":  {"Acme", "blocked", []string{"W-9 form"}, "Acme is blocked. Missing documents: W-9 form."},
		"several missing": {"Acme", "in_review", []string{"W-9 form", "bank details", "Letter of credit"},
			"Acme is in review. Missing documents: W-9 form, bank details, Letter of credit."},
		"eight missing": {"Acme", "approved", eight, "Acme is approved. Missing documents: d1, d2, d3, d4, d5, d6, d7, d8."},
		"more missing": {"Acme", "blocked", append(eight, "d9", "d10"),
			"Acme is blocked. Missing documents: d1, d2, d3, d4, d5, d6, d7, d8 and 2 more."},
		"without a name": {"", "blocked", nil, "Vendor v-7 is blocked. No documents are missing."},
	} {
		t.Run(name, func(t *testing.T) {
			quoted := make([]string, len(tt.documents))
			for i, d := range tt.documents {
				quoted[i] = fmt.Sprintf("%q", d)
			}
			b := newBridge(nil)
			accepted(t, post(b, fmt.Sprintf(`{"session_id":"s","title":"Save","vendor":{"id":"v-7","name":%q,"status":%q,`+
				`"missing_documents":[%s]}}`, tt.name, tt.status, strings.Join(quoted, ","))))
			assert.Equal(t, "Hi! I can see you clicked Save. "+tt.want, b.Context("s").Summary)
		})
	}
}

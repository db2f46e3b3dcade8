package bridge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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

package activity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

func TestSeconds_areExactToTheMicrosecond(t *testing.T) {
	for _, at := range []time.Time{
		time.UnixMicro(0), time.UnixMicro(1), time.UnixMicro(-1), time.UnixMicro(-1_500_000),
		time.Date(2026, 10, 1, 10, 15, 0, 123_456_789, time.FixedZone("x", 3600)),
		time.Date(2026, 10, 1, 10, 15, 0, 999_999_999, time.UTC),
		time.Date(2100, 1, 1, 0, 0, 0, 1000, time.UTC),
	} {
		got := activity.Action{TimestampStart: activity.Seconds(at)}.Start()
		assert.Equal(t, at.Truncate(time.Microsecond).UTC(), got)
	}
	assert.Equal(t, 1.5, activity.Seconds(time.UnixMilli(1500)))
}

// An unknown identity is empty strings. A conversation is there only when it is linked.
func TestBatch_JSON(t *testing.T) {
	click := activity.Action{
		ID: "secret", Type: "click", Title: "Click Save", Description: "User clicked Save",
		TimestampStart: 1.25, TimestampEnd: 1.5, RawURL: "https://x/1?a&b", CanonicalURL: "https://x/:id", Index: 7,
	}
	const did = `"type":"click","title":"Click Save","description":"User clicked Save","timestamp_start":1.25,
		"timestamp_end":1.5,"raw_url":"https://x/1?a&b","canonical_url":"https://x/:id","index":7,`
	for identity, of := range map[string][4]string{`"session_id":"","user_id":"","email":""`: {},
		`"session_id":"s","user_id":"u","email":"e","conversation_id":"c"`: {"s", "u", "e", "c"}} {
		got, err := json.Marshal(activity.Batch{
			Type: activity.BatchType, ProductID: "acme", SessionID: of[0], UserID: of[1], Email: of[2],
			ConversationID: of[3], Count: 1, ForwardedAt: 2.5, Actions: []activity.BatchAction{{Action: click,
				SessionID: of[0], UserID: of[1], Email: of[2], ConversationID: of[3]}},
		})
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"actions","product_id":"acme","count":1,"forwarded_at":2.5,`+identity+
			`,"actions":[{`+did+identity+`}]}`, string(got))
	}
}

func TestAction_Clean(t *testing.T) {
	long := strings.Repeat("long ", 1000)
	a := activity.Action{Title: long, RawURL: "https://u:pw@acme.example/?token=x",
		Marks: []string{long, "rage", "dead", "rage"}, Properties: map[string]string{long: long}}
	for i := range 20 {
		a.Properties[fmt.Sprint("z", i)] = long
	}
	clean := a.Clean()
	assert.Less(t, len(clean.Title), 510)
	assert.Equal(t, "https://acme.example/?token=redacted", clean.RawURL)
	assert.Equal(t, []string{"rage", "dead"}, clean.Marks)
	assert.Len(t, clean.Properties, 10)
	for name, value := range clean.Properties {
		assert.LessOrEqual(t, len(name), 100)
		assert.LessOrEqual(t, len(value), 63, name)
	}
	assert.Equal(t, clean, clean.Clean())
	assert.Equal(t, []string{long, "rage", "dead", "rage"}, a.Marks, "the action itself stays")

	const secret, open = "see https://a.example/?token=s3cret", "see https://a.example/?token=redacted"
	link := activity.Action{Title: secret, Description: secret, Properties: map[string]string{"link": secret}}.Clean()
	assert.Equal(t, activity.Action{Title: open, Description: open, Properties: map[string]string{"link": open}}, link)
	assert.Nil(t, activity.Action{}.Clean().Properties)
}

func TestAction_Label(t *testing.T) {
	for _, c := range []struct {
		did  activity.Action
		want string
	}{
		{activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"}, page), "Export CSV"},
		{activity.NewAction(activity.TypeClick, activity.Target{Element: "button"}, page), "button"},
		{activity.NewAction(activity.TypePageview, activity.Target{}, page), "Tasks detail"},
		{activity.NewEvent("Click Tracked", "", nil, page), "Click Tracked"},
		{activity.NewError("PaymentError", "", page), "PaymentError"},
		{activity.NewError("", "", page), ""},
	} {
		assert.Equal(t, c.want, c.did.Label(), c.did.Title)
	}
}

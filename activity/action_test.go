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
	times := []time.Time{
		time.UnixMicro(0), time.UnixMicro(1), time.UnixMicro(-1), time.UnixMicro(-1_500_000),
		time.Date(2026, 10, 1, 10, 15, 0, 123_456_789, time.FixedZone("x", 3600)),
		time.Date(2026, 10, 1, 10, 15, 0, 999_999_999, time.UTC),
		time.Date(2100, 1, 1, 0, 0, 0, 1000, time.UTC),
	}
	for _, at := range times {
		t.Run(at.String(), func(t *testing.T) {
			got := activity.Action{TimestampStart: activity.Seconds(at)}.Start()
			assert.Equal(t, at.UnixMicro(), got.UnixMicro())
			assert.Equal(t, time.UTC, got.Location())
		})
	}
	assert.Equal(t, 1.5, activity.Seconds(time.UnixMilli(1500)))
}

func TestBatch_JSON(t *testing.T) {
	b := activity.Batch{
		Type: activity.BatchType, ProductID: "acme", Count: 1, ForwardedAt: 2.5,
		Actions: []activity.BatchAction{{Action: activity.Action{
			ID: "secret", Type: "click", Title: "Click Save", Description: "User clicked Save",
			TimestampStart: 1.25, TimestampEnd: 1.5, RawURL: "https://x/1?a&b", CanonicalURL: "https://x/:id", Index: 7,
		}}},
	}
	unlinked := `{"type":"actions","product_id":"acme","session_id":"","user_id":"","email":"",
		"count":1,"forwarded_at":2.5,
		"actions":[{"type":"click","title":"Click Save","description":"User clicked Save",
		"timestamp_start":1.25,"timestamp_end":1.5,
		"raw_url":"https://x/1?a&b","canonical_url":"https://x/:id","index":7,"session_id":"","user_id":"","email":""}]}`
	linked := `{"type":"actions","product_id":"acme","session_id":"s","user_id":"u","email":"e","conversation_id":"c",
		"count":1,"forwarded_at":2.5,
		"actions":[{"type":"click","title":"Click Save","description":"User clicked Save",
		"timestamp_start":1.25,"timestamp_end":1.5,
		"raw_url":"https://x/1?a&b","canonical_url":"https://x/:id","index":7,
		"session_id":"s","user_id":"u","email":"e","conversation_id":"c"}]}`

	t.Run("unknown identity is empty strings", func(t *testing.T) { requireEncodes(t, unlinked, b) })
	t.Run("conversation is there when linked", func(t *testing.T) {
		b := b
		b.SessionID, b.UserID, b.Email, b.ConversationID = "s", "u", "e", "c"
		b.Actions = []activity.BatchAction{{Action: b.Actions[0].Action, SessionID: "s", UserID: "u", Email: "e",
			ConversationID: "c"}}
		requireEncodes(t, linked, b)
	})
}

func requireEncodes(t *testing.T, want string, v any) {
	t.Helper()
	got, err := json.Marshal(v)
	require.NoError(t, err)
	require.JSONEq(t, want, string(got))
}

func TestAction_Clean(t *testing.T) {
	long := strings.Repeat("long ", 1000)
	a := activity.Action{Title: long, RawURL: "https://u:pw@acme.example/?token=x",
		Marks:      []string{long, "rage", "dead", "rage"},
		Properties: map[string]string{long: long}}
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

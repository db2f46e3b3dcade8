package sessions_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

func TestNewEntry_hasTheNewestActionAndTheFirstTime(t *testing.T) {
	first, last := activitytest.Click(noon, "Save", "https://app.example.com/a"),
		activitytest.Click(noon.Add(time.Second), "Send", "https://app.example.com/b")
	batch := activitytest.NewBatch("acme", "s", "ada", first, last)
	batch.Actions[1].Index = 7
	batch.Email = "ada@example.com"
	assert.Equal(t, sessions.Entry{
		SessionID: "s", UserID: "ada", Email: "ada@example.com",
		CanonicalURL: "https://app.example.com/b", LastAction: last.Description,
		First: noon.UnixMicro(), Last: noon.Add(time.Second).UnixMicro(),
		Actions: 8,
	}, sessions.NewEntry(&batch))
}

func TestNewEntry_findsWordsForAnActionWithoutADescription(t *testing.T) {
	for want, a := range map[string]activity.Action{
		"Click Save":         {Type: "click", Title: "Click\tSave"},
		"Send":               {Type: "click", Title: "Send", Description: "\u200b"},
		"click":              {Type: "click"},
		"User did something": {},
		"User clicked Save":  {Title: "Click Save", Description: "User  clicked \u0007Save"},
	} {
		batch := activitytest.NewBatch("acme", "s", "ada", a)
		e := sessions.NewEntry(&batch)
		assert.Equal(t, want, e.LastAction)
	}
}

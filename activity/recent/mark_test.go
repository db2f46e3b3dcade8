package recent_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// No text passes for marks.
func TestRecord_hasMarks(t *testing.T) {
	a := activitytest.Click(time.Date(2026, 11, 22, 2, 15, 4, 0, time.UTC), "Save", page)
	a.Description = `,"marks":["rage"]`
	plain := activitytest.NewBatch("acme", "s", "ada", a)
	a.Description = `User clicked Save`
	a.Marks = []string{activity.MarkRage, activity.MarkDead}
	for _, b := range []activity.Batch{plain, activitytest.NewBatch("acme", "s", "ada", a)} {
		want, err := jsontext.Marshal(b)
		require.NoError(t, err)
		got, err := b.AppendJSON(nil)
		require.NoError(t, err)
		assert.JSONEq(t, string(want), string(got))
		r, err := recent.NewRecord("s", b.Actions[0].Action)
		require.NoError(t, err)
		var back []activity.Action
		require.NoError(t, json.Unmarshal(recent.Records{r}.AppendJSON(nil), &back))
		assert.Equal(t, b.Actions[0].Marks, back[0].Marks)
	}
	m, err := recent.NewMemory(nil)
	require.NoError(t, err)
	require.NoError(t, m.Add(t.Context(), recently(plain)))
	require.NoError(t, m.Add(t.Context(), recently(plain)))
	kept, err := m.Recent(t.Context(), "acme", recent.Subject{UserID: "ada"}, 10)
	require.NoError(t, err)
	assert.Len(t, kept.Records, 2)
}

var aMinuteAgo = activity.Seconds(time.Now().Add(-time.Minute))

// recently returns the batch's action as another event, at one moment.
func recently(b activity.Batch) activity.Batch {
	a := b.Actions[0].Action
	a.ID, a.TimestampStart = uuid.NewString(), aMinuteAgo
	return activitytest.NewBatch(b.ProductID, b.SessionID, b.UserID, a)
}

package activity_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
)

// marked returns the batch with marks on its only action, as a later entry has it.
func marked(b activity.Batch, marks ...string) activity.Batch {
	b.Actions[0].Marks = marks
	b.Actions[0].Description += ", repeatedly"
	return b
}

func TestMerge_hasAClickOnceWithItsMarks(t *testing.T) {
	merged := activity.Merge(clicks(1), clicks(3), marked(clicks(1), activity.MarkRage))
	assert.Equal(t, []span{{1, 3}, {3, 3}}, spans(merged))
	assert.Equal(t, 2, merged.Count)
	assert.Equal(t, []string{activity.MarkRage}, merged.Actions[0].Marks)
	assert.Contains(t, merged.Text(), "User clicked Save on the tasks detail page, repeatedly (")
	assert.Empty(t, merged.Actions[1].Marks)

	bobs := marked(clicks(1), activity.MarkRage)
	bobs.Actions[0].UserID = "bob"
	assert.Equal(t, 2, activity.Merge(clicks(1), bobs).Count, "another user's click")
	assert.Equal(t, 2, activity.Merge(clicks(1), marked(clicks(2), activity.MarkRage)).Count, "another click")
}

// A text cannot pass for marks, whatever is in it.
func TestRecord_hasMarks(t *testing.T) {
	a := activitytest.Click(evening, "Save", page)
	a.Description = `,"marks":["rage"]`
	plain := activitytest.NewBatch("acme", "s", "ada", a)
	a.Description = `User clicked Save`
	a.Marks = []string{activity.MarkRage, activity.MarkDead}
	for _, b := range []activity.Batch{plain, activitytest.NewBatch("acme", "s", "ada", a)} {
		want, err := activity.Marshal(b)
		require.NoError(t, err)
		got, err := b.AppendJSON(nil)
		require.NoError(t, err)
		assert.JSONEq(t, string(want), string(got))
		r, err := activity.NewRecord("s", b.Actions[0].Action)
		require.NoError(t, err)
		var back []activity.Action
		require.NoError(t, json.Unmarshal(activity.Recent{r}.AppendJSON(nil), &back))
		assert.Equal(t, b.Actions[0].Marks, back[0].Marks)
	}
	m, err := activity.NewMemory(nil)
	require.NoError(t, err)
	require.NoError(t, m.Add(t.Context(), recently(plain)))
	require.NoError(t, m.Add(t.Context(), recently(plain)))
	kept, err := m.Recent(t.Context(), "acme", "ada", 10)
	require.NoError(t, err)
	assert.Len(t, kept, 2)
}

var recent = activity.Seconds(time.Now().Add(-time.Minute))

// recently returns the batch's action as another event, of one moment.
func recently(b activity.Batch) activity.Batch {
	a := b.Actions[0].Action
	a.ID, a.TimestampStart = uuid.NewString(), recent
	return activitytest.NewBatch(b.ProductID, b.SessionID, b.UserID, a)
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

package activity_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
)

// marked returns the batch with marks on its first action, as a later entry has it.
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

func TestMerge_endsActionsAsIfTheMarkedClickHadNotComeAgain(t *testing.T) {
	want := []span{{1, 3}, {3, 5}, {5, 5}}
	alone := marked(clicks(1), activity.MarkDead)
	assert.Equal(t, want, spans(activity.Merge(clicks(1), clicks(3), alone, clicks(5))))
	assert.Equal(t, want, spans(activity.Merge(clicks(1, 3), alone, clicks(5))))
	assert.Equal(t, want, spans(activity.Merge(clicks(1, 3), marked(clicks(1, 5), activity.MarkDead))))
	assert.Equal(t, want[1:], spans(activity.Merge(clicks(3), marked(clicks(3, 5), activity.MarkDead))))

	bobs := clicks(2)
	bobs.Actions[0].UserID = "bob"
	merged := activity.Merge(clicks(1), bobs, marked(clicks(1, 5), activity.MarkDead))
	assert.Equal(t, []span{{1, 1}, {2, 2}, {5, 5}}, spans(merged))
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

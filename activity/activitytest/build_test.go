package activitytest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
)

func TestNewBatch_fillsEveryField(t *testing.T) {
	at := time.Now().Add(-time.Minute)
	click := activitytest.Click(at.Add(time.Second), "Save", "https://app.acme.example/settings")
	b := activitytest.NewBatch("acme", "s", "ada", activitytest.Pageview(at, "https://app.acme.example/settings"), click)

	assert.Equal(t, activity.BatchType, b.Type)
	assert.Equal(t, "acme", b.ProductID)
	assert.Equal(t, "s", b.SessionID)
	assert.Equal(t, "ada", b.UserID)
	assert.Equal(t, 2, b.Count)
	assert.NotZero(t, b.ForwardedAt)
	require.Len(t, b.Actions, 2)
	for i, a := range b.Actions {
		assert.Equal(t, i, a.Index)
		assert.Equal(t, "s", a.SessionID)
		assert.Equal(t, "ada", a.UserID)
	}
	assert.Equal(t, b.Actions[1].TimestampStart, b.Actions[0].TimestampEnd)
	assert.Equal(t, b.Actions[1].TimestampStart, b.Actions[1].TimestampEnd)
	assert.Zero(t, click.Index, "the caller's action is copied")
}

func TestBuilders_makeActionsOfAMoment(t *testing.T) {
	at := time.Now().Truncate(time.Microsecond)
	const url = "https://app.acme.example/projects/42?tab=x"
	for description, build := range map[string]func() activity.Action{
		"User landed on": func() activity.Action { return activitytest.Pageview(at, url) },
		"User clicked a button on": func() activity.Action { // without a label
			return activitytest.Click(at, "", url)
		},
	} {
		a := build()
		assert.Equal(t, []string{description + " the projects detail page", url}, []string{a.Description, a.RawURL})
		assert.True(t, at.Equal(a.Start()))
		assert.Equal(t, a.TimestampStart, a.TimestampEnd)
		assert.NotEqual(t, a.ID, build().ID)
	}
}

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

func TestBuilders_makeActions(t *testing.T) {
	at := time.Now().Truncate(time.Microsecond)
	const url = "https://app.acme.example/projects/42?tab=x"
	cases := []struct {
		name             string
		action           activity.Action
		typ, description string
	}{
		{"page view", activitytest.Pageview(at, url), activity.TypePageview, "User landed on the projects detail page"},
		{"click", activitytest.Click(at, "Save", url), activity.TypeClick, "User clicked Save on the projects detail page"},
		{"click on something without a label", activitytest.Click(at, "", url), activity.TypeClick,
			"User clicked a button on the projects detail page"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.typ, c.action.Type)
			assert.Equal(t, c.description, c.action.Description)
			assert.Equal(t, url, c.action.RawURL)
			assert.Equal(t, "https://app.acme.example/projects/:id", c.action.CanonicalURL)
			assert.True(t, at.Equal(c.action.Start()))
			assert.Equal(t, c.action.TimestampStart, c.action.TimestampEnd)
		})
	}
}

func TestBuilders_makeNewIDs(t *testing.T) {
	now := time.Now()
	assert.NotEqual(t, activitytest.Click(now, "a", "/").ID, activitytest.Click(now, "a", "/").ID)
	assert.NotEqual(t, activitytest.Pageview(now, "/").ID, activitytest.Pageview(now, "/").ID)
}

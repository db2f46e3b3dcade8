package activitytest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
)

func TestNewBatch_fillsEveryField(t *testing.T) {
	at := time.Now().Truncate(time.Microsecond)
	const url, on = "https://app.acme.example/projects/42?tab=x", " the projects detail page"
	view, click := activitytest.Pageview(at, url), activitytest.Click(at.Add(time.Second), "", url)
	assert.True(t, at.Equal(view.Start()))
	assert.Equal(t, view.TimestampStart, view.TimestampEnd)
	assert.NotEqual(t, view.ID, activitytest.Pageview(at, url).ID)
	assert.Equal(t, []string{"User landed on" + on, "User clicked a button on" + on, url, url},
		[]string{view.Description, click.Description, view.RawURL, click.RawURL})

	b := activitytest.NewBatch("acme", "s", "ada", view, click)
	assert.NotZero(t, b.ForwardedAt)
	assert.Zero(t, click.Index, "the caller's action is copied")
	view.TimestampEnd, click.Index = click.TimestampStart, 1
	assert.Equal(t, activity.Batch{Type: activity.BatchType, ProductID: "acme", SessionID: "s", UserID: "ada", Count: 2,
		ForwardedAt: b.ForwardedAt, Actions: []activity.BatchAction{{Action: view, SessionID: "s", UserID: "ada"},
			{Action: click, SessionID: "s", UserID: "ada"}}}, b)
}

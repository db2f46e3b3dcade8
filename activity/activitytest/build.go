package activitytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
)

// NewBatch returns the batch of one request: the actions, all of one session
// and user, in the order given and indexed from zero. An empty
// session or user means unknown. To let a user identify in the middle of a
// batch, change the UserID of some of its Actions.
func NewBatch(product, session, user string, actions ...activity.Action) activity.Batch {
	b := activity.Batch{
		Type: activity.BatchType, ProductID: product, SessionID: session, UserID: user,
		Count: len(actions), ForwardedAt: activity.Seconds(time.Now()),
		Actions: make([]activity.BatchAction, len(actions)),
	}
	for i, a := range actions {
		a.Index = i
		if i > 0 {
			b.Actions[i-1].TimestampEnd = a.TimestampStart
		}
		b.Actions[i] = activity.BatchAction{Action: a, SessionID: session, UserID: user}
	}
	return b
}

// Pageview returns a page view at that time. Its ID is new.
func Pageview(at time.Time, url string) activity.Action {
	return action(at, activity.NewAction(activity.TypePageview, activity.Target{}, url))
}

// Click returns a click on the button with that label, on the page, at that
// time. Its ID is new.
func Click(at time.Time, label, url string) activity.Action {
	return action(at, activity.NewAction(activity.TypeClick, activity.Target{Label: label, Element: "button"}, url))
}

func action(at time.Time, a activity.Action) activity.Action {
	a.ID = uuid.NewString()
	a.TimestampStart = activity.Seconds(at)
	a.TimestampEnd = a.TimestampStart
	return a
}

// Titles returns the titles of a batch's actions.
func Titles(b activity.Batch) []string {
	titles := make([]string, len(b.Actions))
	for i, a := range b.Actions {
		titles[i] = a.Title
	}
	return titles
}

// Indexes returns the indexes of a batch's actions.
func Indexes(b activity.Batch) []int {
	indexes := make([]int, len(b.Actions))
	for i, a := range b.Actions {
		indexes[i] = a.Index
	}
	return indexes
}

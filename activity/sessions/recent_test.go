package sessions_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

func TestRecent_ordersByTimeAndEndsEachWithTheNext(t *testing.T) {
	action := func(index int, start, end float64) activity.Action {
		return activity.Action{Index: index, TimestampStart: start, TimestampEnd: end}
	}
	assert.Equal(t, []activity.Action{action(2, 1, 3), action(0, 3, 5), action(1, 5, 5), action(3, 5, 5)},
		sessions.Recent([]activity.Action{action(0, 3, 5), action(1, 5, 5), action(2, 1, 1), action(3, 5, 9)}))
	assert.Empty(t, sessions.Recent(nil))
}

func TestRecent_keepsTheNewest(t *testing.T) {
	var actions []activity.Action
	for i := range sessions.MaxRecent + 7 {
		actions = append(actions, activity.Action{Index: i, TimestampStart: float64(i)})
	}
	recent := sessions.Recent(actions)
	assert.Len(t, recent, sessions.MaxRecent)
	assert.Equal(t, 7, recent[0].Index)
}

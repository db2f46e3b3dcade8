package sessions

import (
	"cmp"
	"slices"

	"github.com/liveactivity/liveactivity/activity"
)

// Recent returns the newest MaxRecent actions of a session, in the order of their
// start. The actions are all of the entries that [Memory.Session] names, in the
// order of the log. Each ends where the next one starts, and the last one where it
// starts; the index counts over the session. The slice is reused.
func Recent(actions []activity.Action) []activity.Action {
	slices.SortStableFunc(actions, func(a, b activity.Action) int {
		return cmp.Compare(a.TimestampStart, b.TimestampStart)
	})
	actions = actions[max(0, len(actions)-MaxRecent):]
	for i := range actions {
		actions[i].TimestampEnd = actions[min(i+1, len(actions)-1)].TimestampStart
	}
	return actions
}

package eventlog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// clicks is a click that marks may follow, and marks an event with a mark.
func clicks(user, title string, second float64) activity.Event {
	e := does("s", user, title, second)
	e.ID, e.Markable = fmt.Sprint("click ", user, title, second), true
	return e
}

func marks(mark, user, title string, second float64) activity.Event {
	e := does("s", user, title, second)
	e.ID, e.Action.Marks = strings.Join([]string{mark, user, title}, " "), []string{mark}
	return e
}

// A mark shows on the nearest matching click, at once or as a later entry with that click's index.
// All views of activity have the click once.
func TestRecorder_marksTheClickThatAMarkCameWith(t *testing.T) {
	bothMarks := marks("both", "ada", "Pay", 0)
	bothMarks.Action.Marks = []string{activity.MarkRage, activity.MarkDead}
	type shown struct {
		index  int
		words  string
		marked string
	}
	for name, c := range map[string]struct {
		requests [][]activity.Event
		missed   int
		stream   []shown
		lookup   []string
	}{
		"in one request": {
			[][]activity.Event{{marks("rage", "ada", "Pay", 0.9), clicks("ada", "Pay", 0), clicks("ada", "Pay", 1)}}, 0,
			[]shown{{0, "User did Pay", ""}, {1, "User did Pay, repeatedly", "rage"}},
			[]string{"User did Pay", "User did Pay, repeatedly"}},
		"later": {
			[][]activity.Event{{clicks("ada", "Pay", 0), does("s", "ada", "Scroll", 1)},
				{marks("dead", "ada", "Pay", 0.1), clicks("ada", "Help", 4)}}, 0,
			[]shown{{0, "User did Pay", ""}, {1, "User did Scroll", ""}, {0, "User did Pay, and nothing happened", "dead"},
				{2, "User did Help", ""}},
			[]string{"User did Pay, and nothing happened", "User did Scroll", "User did Help"}},
		"out of turn": {
			[][]activity.Event{{clicks("ada", "Pay", 0)}, {does("s", "ada", "Scroll", 1), marks("dead", "ada", "Pay", 1.5)}}, 0,
			[]shown{{0, "User did Pay", ""}, {0, "User did Pay, and nothing happened", "dead"}, {1, "User did Scroll", ""}},
			[]string{"User did Pay, and nothing happened", "User did Scroll"}},
		"both, one after the other": {
			[][]activity.Event{{clicks("ada", "Pay", 0)}, {marks("dead", "ada", "Pay", 0)}, {marks("rage", "ada", "Pay", 0)}}, 0,
			[]shown{{0, "User did Pay", ""}, {0, "User did Pay, and nothing happened", "dead"},
				{0, "User did Pay, repeatedly, and nothing happened", "rage dead"}},
			[]string{"User did Pay, repeatedly, and nothing happened"}},
		"again": {
			[][]activity.Event{{clicks("ada", "Pay", 0), marks("rage", "ada", "Pay", 0)}, {marks("rage", "ada", "Pay", 0)}}, 1,
			[]shown{{0, "User did Pay, repeatedly", "rage"}}, []string{"User did Pay, repeatedly"}},
		"both at once": {
			[][]activity.Event{{clicks("ada", "Pay", 0)}, {bothMarks}, {marks("dead", "ada", "Pay", 0)}}, 1,
			[]shown{{0, "User did Pay", ""}, {0, "User did Pay, repeatedly, and nothing happened", "rage dead"}},
			[]string{"User did Pay, repeatedly, and nothing happened"}},
		"of no click": {
			[][]activity.Event{{clicks("ada", "Pay", 0), does("s", "ada", "Buy", 0)}, {marks("rage", "ada", "Pay", 2.1),
				marks("rage", "bob", "Pay", 0), marks("dead", "ada", "Buy", 0)}}, 3,
			[]shown{{0, "User did Pay", ""}, {1, "User did Buy", ""}}, []string{"User did Pay", "User did Buy"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t)
			missed := 0
			for _, events := range c.requests {
				result := r.record(t, events...)
				missed += result.Unmarked
				assert.Equal(t, len(events), result.Accepted+result.Unmarked)
			}
			assert.Equal(t, c.missed, missed)
			var stream []shown
			for _, b := range r.batches(t) {
				for i, a := range b.Actions {
					require.True(t, i == 0 || b.Actions[i-1].TimestampStart <= a.TimestampStart, "in time order")
					stream = append(stream, shown{a.Index, a.Description, strings.Join(a.Marks, " ")})
				}
			}
			assert.Equal(t, c.stream, stream)
			found, err := r.log.Activity().Recent(t.Context(), product, recent.Subject{UserID: "ada"}, 50)
			require.NoError(t, err)
			actions, err := found.Actions()
			require.NoError(t, err)
			var lookup []string
			for _, a := range actions {
				lookup = append(lookup, a.Description)
			}
			assert.Equal(t, c.lookup, lookup)

			for _, events := range c.requests { // sent again, as SDKs do
				assert.Zero(t, r.record(t, events...).Accepted)
			}
			assert.Empty(t, r.entries(t))
		})
	}
}

// A session remembers only a few clicks, the newest.
func TestRecorder_marksNewClicksOnly(t *testing.T) {
	r := newRecording(t)
	titles := strings.Split("abcdefghi", "")
	for i, title := range titles {
		r.record(t, clicks("ada", title, float64(i)/10))
	}
	assert.Equal(t, 1, r.record(t, marks("rage", "ada", "a", 0)).Unmarked)
	assert.Equal(t, 1, r.record(t, marks("rage", "ada", "b", 0.1)).Accepted)
	assert.Equal(t, titles, r.stored(t, "ada"))
}

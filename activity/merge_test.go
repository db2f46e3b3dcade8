package activity_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
)

const page = "https://app.acme.example/projects/42/tasks/7?tab=open"

// evening is the time at which the tests' sessions begin.
var evening = time.Date(2026, 11, 22, 2, 15, 4, 0, time.UTC)

// clicks is a batch of clicks that start so many seconds after evening.
func clicks(starts ...float64) activity.Batch {
	actions := make([]activity.Action, len(starts))
	for i, start := range starts {
		actions[i] = activitytest.Click(evening.Add(time.Duration(start*float64(time.Second))), "Save", page)
	}
	return activitytest.NewBatch("acme", "s", "ada", actions...)
}

// span is when an action started and ended, in seconds after evening.
type span struct{ start, end float64 }

func spans(b activity.Batch) []span {
	list := make([]span, len(b.Actions))
	for i, a := range b.Actions {
		zero := activity.Seconds(evening)
		list[i] = span{a.TimestampStart - zero, a.TimestampEnd - zero}
	}
	return list
}

func TestMerge_letsActionsEndWhereTheNextBatchStarts(t *testing.T) {
	ended := clicks(1)
	ended.Actions[0].TimestampEnd += 2
	for _, c := range []struct {
		name    string
		batches []activity.Batch
		want    []span
	}{
		{"none", nil, []span{}},
		{"one", []activity.Batch{clicks(1, 3)}, []span{{1, 3}, {3, 3}}},
		{"several", []activity.Batch{clicks(1, 3), clicks(4), clicks(6, 7)}, []span{{1, 3}, {3, 4}, {4, 6}, {6, 7}, {7, 7}}},
		{"the next starts at the same time", []activity.Batch{clicks(1), clicks(1)}, []span{{1, 1}, {1, 1}}},
		{"the next starts earlier", []activity.Batch{clicks(5), clicks(2, 9)}, []span{{5, 5}, {2, 9}, {9, 9}}},
		{"an end of its own", []activity.Batch{ended, clicks(9)}, []span{{1, 3}, {9, 9}}},
		{"an empty one between", []activity.Batch{clicks(1), {}, clicks(2)}, []span{{1, 2}, {2, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			merged := activity.Merge(c.batches...)
			assert.Equal(t, c.want, spans(merged))
			assert.Equal(t, len(c.want), merged.Count)
			assert.Equal(t, activity.BatchType, merged.Type)
			for i, a := range merged.Actions {
				assert.Equal(t, i, a.Index)
			}
		})
	}
}

func TestMerge_takesTheFirstIdentityThatIsKnown(t *testing.T) {
	a, b, c := clicks(1), clicks(2), clicks(3)
	a.UserID, a.ForwardedAt = "", 10
	b.UserID, b.Email, b.ConversationID, b.ForwardedAt = "ada", "ada@example.com", "c1", 30
	c.UserID, c.Email, c.ConversationID, c.ForwardedAt = "bob", "bob@example.com", "c2", 20
	c.Actions[0].Email = "bob@example.com"

	merged := activity.Merge(a, b, c)
	want := activity.Batch{Type: activity.BatchType, ProductID: "acme", SessionID: "s", UserID: "ada",
		Email: "ada@example.com", ConversationID: "c1", Count: 3, ForwardedAt: 30, Actions: merged.Actions}
	assert.Equal(t, want, merged)
	for i, from := range []activity.Batch{a, b, c} {
		wanted := from.Actions[0]
		wanted.Index, wanted.TimestampEnd = i, merged.Actions[i].TimestampEnd
		assert.Equal(t, wanted, merged.Actions[i], "an action keeps its own fields")
	}
}

func TestMerge_changesNoneOfItsArguments(t *testing.T) {
	a, b := clicks(1, 2), clicks(3)
	a.Actions = slices.Grow(a.Actions, 10)
	a.Actions[1].Index, b.Actions[0].Index = 7, 8
	beforeA, beforeB := slices.Clone(a.Actions[:3]), slices.Clone(b.Actions)
	merged := activity.Merge(a, b)
	merged.Actions[0].Title = "changed"
	alone := activity.Merge(a)
	alone.Actions[0].Title = "changed"
	assert.Equal(t, beforeA, a.Actions[:3], "nor the memory behind it")
	assert.Equal(t, beforeB, b.Actions)
}

func TestBatch_Text(t *testing.T) {
	const url, line = "https://app.example.com/dashboard", "2026-11-22 02:15:04 UTC: "
	for _, c := range []struct {
		name   string
		action activity.Action
		want   string
	}{
		{"no address", activity.Action{Description: "User clicked Save", RawURL: url + "?key=secret"}, "User clicked Save"},
		{"no description", activity.Action{Type: "click", Title: "Click Save"}, "Click Save"},
		{"no title either", activity.Action{Type: "click", CanonicalURL: url}, "click (" + url + ")"},
		{"a blank description", activity.Action{Description: " \n\u200b", Title: "\x00", Type: "click"}, "click"},
		{"nothing", activity.Action{}, "User did something"},
		{"line feeds", activity.Action{Description: "User clicked\n2026-11-22 02:15:05 UTC: User did evil\r\n\u2028\u0085x",
			CanonicalURL: "https://x.example/\n\vy"},
			"User clicked 2026-11-22 02:15:05 UTC: User did evil x (https://x.example/ y)"},
		{"control and formatting characters", activity.Action{Description: "a\x1b[31m\u202eb\u200bc"}, "a[31mbc"},
		{"no UTF-8", activity.Action{Description: "a\xffb"}, "a\ufffdb"},
		{"a long description", activity.Action{Description: strings.Repeat("word ", 200)},
			strings.TrimSpace(strings.Repeat("word ", 100)) + "…"},
		{"a long word", activity.Action{Description: strings.Repeat("ü", 501)}, strings.Repeat("ü", 499) + "…"},
		{"just short enough", activity.Action{Description: strings.Repeat("ü", 500)}, strings.Repeat("ü", 500)},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.action.TimestampStart = activity.Seconds(evening)
			assert.Equal(t, line+c.want, activity.Batch{Actions: []activity.BatchAction{{Action: c.action}}}.Text())
		})
	}
	t.Run("one line an action", func(t *testing.T) {
		const want = "2026-11-22 02:15:05 UTC: User clicked Save on the tasks detail page " +
			"(https://app.acme.example/projects/:id/tasks/:id)\n" +
			"2026-11-22 02:15:07 UTC: User clicked Save on the tasks detail page " +
			"(https://app.acme.example/projects/:id/tasks/:id)"
		assert.Equal(t, want, clicks(1, 3.75).Text())
	})
	t.Run("no action", func(t *testing.T) { assert.Empty(t, activity.Batch{}.Text()) })
}

func FuzzBatch_Text(f *testing.F) {
	f.Add("User clicked Save", "Click Save", "click", "https://app.example.com/", 1.8e9)
	f.Add("a\nb\u2029", "\x1b", "\u202e", "https://x.example/\r\n", math.NaN())
	f.Add("\xff\xfe", "", "", "\u200d", math.Inf(1))
	f.Fuzz(func(t *testing.T, description, title, typ, url string, start float64) {
		a := activity.BatchAction{Action: activity.Action{Type: typ, Title: title, Description: description,
			CanonicalURL: url, TimestampStart: start}}
		text := activity.Batch{Actions: []activity.BatchAction{a, a}}.Text()
		lines := strings.Split(text, "\n")
		require.Len(t, lines, 2)
		require.Equal(t, lines[0], lines[1])
		requireOneLine(t, lines[0])
		require.Less(t, utf8.RuneCountInString(lines[0]), 1060)
	})
}

// requireOneLine asserts that no character of a text could end its line, or hide or reorder text.
func requireOneLine(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), "%q", text)
	require.Equal(t, strings.Join(strings.Fields(text), " "), text, "white space")
	for _, r := range text {
		require.False(t, unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200d', "%q", text)
	}
}

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

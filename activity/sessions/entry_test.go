package sessions_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

func TestNewEntry_hasTheNewestActionAndTheFirstTime(t *testing.T) {
	first, last := activitytest.Click(noon, "Save", "https://app.example.com/a"), activitytest.Click(noon.Add(time.Second), "Send", "https://app.example.com/b")
	batch := activitytest.NewBatch("acme", "s", "ada", first, last)
	batch.Actions[1].Index = 7
	batch.Email = "ada@example.com"
	at := sessions.Position{Milli: 1, Seq: 2}
	assert.Equal(t, sessions.Entry{
		At: at, SessionID: "s", UserID: "ada", Email: "ada@example.com",
		CanonicalURL: "https://app.example.com/b", LastAction: last.Description,
		First: noon.UnixMicro(), Last: noon.Add(time.Second).UnixMicro(),
		Count: 2, Actions: 8,
	}, sessions.NewEntry(at, &batch))
}

// A time beyond what the clock can hold is one at its end.
func TestNewEntry_boundsTimes(t *testing.T) {
	batch := activitytest.NewBatch("acme", "s", "ada", activity.Action{TimestampStart: 1e300}, activity.Action{TimestampStart: -1e300})
	e := sessions.NewEntry(sessions.Position{Milli: 1}, &batch)
	m := newMemory(t, nil)
	m.Add("acme", e)
	m.Expire(noon)
	assert.Positive(t, e.First)
	assert.Negative(t, e.Last)
}

func TestNewEntry_findsWordsForAnActionWithoutADescription(t *testing.T) {
	for want, a := range map[string]activity.Action{
		"Click Save":         {Type: "click", Title: "Click\tSave"},
		"Send":               {Type: "click", Title: "Send", Description: "\u200b"},
		"click":              {Type: "click"},
		"User did something": {},
		"User clicked Save":  {Title: "Click Save", Description: "User  clicked \u0007Save"},
	} {
		batch := activitytest.NewBatch("acme", "s", "ada", a)
		e := sessions.NewEntry(sessions.Position{}, &batch)
		assert.Equal(t, want, e.LastAction)
	}
}

// The entries that a session is said to have are those of its newest 50 actions.
func TestMemory_knowsWhereTheNewestActionsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := sessions.NewMemory(nil)
		require.NoError(t, err)
		type entry struct {
			sessions.Position
			actions int
		}
		var all []entry
		at := sessions.Position{Milli: 1_800_000_000_000}
		for range rapid.IntRange(1, 120).Draw(t, "entries") {
			if later := rapid.Uint64Range(0, 100_000).Draw(t, "later"); later > 0 {
				at = sessions.Position{Milli: at.Milli + later}
			} else {
				at.Seq += rapid.Uint64Range(1, 300).Draw(t, "seq")
			}
			e := seen("s", noon)
			e.At, e.Count = at, rapid.IntRange(1, 20).Draw(t, "actions")
			m.Add("acme", e)
			all = append(all, entry{at, e.Count})
		}
		var want []sessions.Position
		for i, actions := len(all)-1, 0; i >= 0 && actions < sessions.MaxRecent; i-- {
			want = append([]sessions.Position{all[i].Position}, want...)
			actions += all[i].actions
		}
		_, got, ok := m.Session("acme", "s", noon)
		require.True(t, ok)
		require.Equal(t, want, got)
	})
}

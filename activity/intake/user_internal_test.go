package intake

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// The count of escapes is never below an ID's growth in JSON, and above it for control characters only.
func TestEscapes_countTheBytesThatJSONAdds(t *testing.T) {
	for r := range rune(0x3000) {
		data, err := jsontext.Marshal(string(r))
		require.NoError(t, err)
		added := len(data) - len(`""`) - len(string(r))
		if r < ' ' {
			assert.LessOrEqual(t, added, escapes(string(r)), "%q", r)
			continue
		}
		assert.Equal(t, added, escapes(string(r)), "%q", r)
	}
}

// A program's own events meet the rules for the sources' events.
func TestSound(t *testing.T) {
	const broken = "a\xff"
	e := func(change func(e *activity.Event)) activity.Event {
		e := activity.Event{ID: "1", SessionID: "s", UserID: "ada", Email: "ada@acme.example", Identified: true,
			Anonymous: "anon"}
		change(&e)
		return e
	}
	for name, event := range map[string]activity.Event{
		"the ID is no text":           e(func(e *activity.Event) { e.ID = broken }),
		"the session is no text":      e(func(e *activity.Event) { e.SessionID = broken }),
		"the user is no text":         e(func(e *activity.Event) { e.UserID = broken }),
		"it has no ID":                e(func(e *activity.Event) { e.ID = "" }),
		"it is about nobody":          e(func(e *activity.Event) { e.UserID, e.Email = "", "" }),
		"it is in a shared session":   e(func(e *activity.Event) { e.SessionID, e.Email = "null", "ada" }),
		"an action is without anyone": {ID: "1", Action: &activity.Action{}},
	} {
		sound, ignored := Sound([]activity.Event{event})
		assert.Empty(t, sound, name)
		assert.Len(t, ignored, 1, name)
	}
	shared := e(func(e *activity.Event) { e.UserID = "null" })
	visitor := e(func(e *activity.Event) { e.Anonymous = "undefined" })
	long := e(func(e *activity.Event) { e.Anonymous, e.Visitor = strings.Repeat("a", MaxID+1), broken })
	acts := activity.Event{ID: "1", UserID: "ada", Action: &activity.Action{Title: " Click "}}
	sound, ignored := Sound([]activity.Event{e(func(*activity.Event) {}), shared, visitor, long, acts})
	assert.Empty(t, ignored)
	assert.Equal(t, []activity.Event{
		e(func(*activity.Event) {}),
		{ID: "1", SessionID: "s", Email: "ada@acme.example"},
		e(func(e *activity.Event) { e.Anonymous = "" }),
		e(func(e *activity.Event) { e.Anonymous = "" }),
		{ID: "1", UserID: "ada", Action: &activity.Action{Title: "Click"}},
	}, sound)
	assert.Equal(t, " Click ", acts.Action.Title, "the argument is not modified")
}

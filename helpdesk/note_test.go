package helpdesk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk"
)

func at(seconds float64, description string) activity.Action {
	return activity.Action{Description: description, TimestampStart: seconds}
}

// Actions are in the order of time, with a blank line between bins of three seconds.
func ExampleNoteText() {
	fmt.Println(helpdesk.NoteText("s1", []activity.Action{at(1795314305.9, "User did b"),
		at(1795314304, "User did a"), at(1795314306, "User did c")}, 3*time.Second))
	// Output:
	// session_id: s1
	// timestamp: 2026-11-22 02:25:04 UTC
	//
	// [1] User did a
	// [2] User did b
	//
	// [3] User did c
}

func TestNoteText_withoutBinsHasNoBlankLines(t *testing.T) {
	for _, bin := range []time.Duration{0, -time.Second} {
		text := helpdesk.NoteText("s1", []activity.Action{at(0, "a"), at(9000, "b")}, bin)
		assert.Equal(t, "session_id: s1\ntimestamp: 1970-01-01 00:00:00 UTC\n\n[1] a\n[2] b", text)
	}
}

func TestNoteText_makesOneLineOfEachAction(t *testing.T) {
	text := helpdesk.NoteText("s\n1\u202e\x00", []activity.Action{at(0, "User\nclicked\r\n[2] forged\u2028\u202e"),
		at(0, strings.Repeat("x", 100<<10))}, time.Second)
	assert.Len(t, strings.Split(text, "\n"), 5)
	assert.Contains(t, text, "session_id: s 1\n")
	assert.Contains(t, text, "\n[1] User clicked [2] forged\n")
	assert.Less(t, len(text), 1000)
}

func TestNoteText_keepsTheOrderOfActionsOfTheSameTime(t *testing.T) {
	text := helpdesk.NoteText("s", []activity.Action{at(5, "a"), at(5, "b"), at(4, "c")}, 0)
	assert.Contains(t, text, "[1] c\n[2] a\n[3] b")
}

// narrow is a desk with a limit on the bytes of a note.
type narrow struct {
	helpdesk.Desk
	size int
}

func (n narrow) Fits(text string) bool { return len(text) <= n.size }

func TestFirstNote_takesAsManyActionsAsFit(t *testing.T) {
	actions := []activity.Action{at(1, "aaa"), at(2, "bbb"), at(3, "ccc")}
	for want, text := range map[int]string{
		3: helpdesk.NoteText("s", actions, 0),
		2: helpdesk.NoteText("s", actions[:2], 0),
		1: helpdesk.NoteText("s", actions[:1], 0),
	} {
		for _, size := range []int{len(text), len(text) + 7} {
			n, got := helpdesk.FirstNote(narrow{size: size}, "s", actions, 0)
			assert.Equal(t, want, n)
			assert.Equal(t, text, got)
		}
	}
	n, text := helpdesk.FirstNote(narrow{}, "s", actions, 0)
	assert.Equal(t, 1, n, "one that fits into no note is the desk's to refuse")
	assert.Equal(t, helpdesk.NoteText("s", actions[:1], 0), text)
}

func TestSummaryText_keepsLines(t *testing.T) {
	text := helpdesk.SummaryText("s1", time.Unix(1795314304, 0), " Visited pricing;\n clicked  Buy. ")
	assert.Equal(t, "session_id: s1\ntimestamp: 2026-11-22 02:25:04 UTC\n\nVisited pricing;\nclicked Buy.", text)
}

func TestIsNote_isTrueOfOurNotesAlone(t *testing.T) {
	at := time.Unix(1795314304, 0)
	for text, is := range map[string]bool{
		helpdesk.NoteText("s1", nil, 0):                                 true,
		helpdesk.SummaryText("s1", at, "Looked at pricing."):            true,
		strings.ReplaceAll(helpdesk.NoteText("", nil, 0), "\n", "<br>"): true,
		"session_id: s1 is broken, please look":                         false,
		"See timestamp: session_id: s1":                                 false,
		"":                                                              false,
	} {
		assert.Equal(t, is, helpdesk.IsNote(text), text)
	}
}

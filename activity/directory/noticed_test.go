package directory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
)

// did returns ada's action of a type at that second.
func did(second float64, typ, label string) activity.Event {
	return activity.Event{Time: seenBase.Add(time.Duration(second * float64(time.Second))), SessionID: "s", UserID: "ada",
		Action: &activity.Action{Type: typ, Title: label, Description: label}, Markable: typ == activity.TypeClick}
}

// marked returns an event that marks the click on a label.
func marked(second float64, label string, marks ...string) activity.Event {
	e := did(second, activity.TypeClick, label)
	e.Action.Marks, e.Markable = marks, false
	return e
}

// shown returns the actions as "second label marks index", the index only of a click marked later.
func shown(events []activity.Event) string {
	var lines []string
	for _, e := range events {
		line := fmt.Sprint(e.Time.Sub(seenBase).Seconds(), " ", e.Action.Title, " ", strings.Join(e.Action.Marks, "+"))
		if e.Action.Index > 0 {
			line += fmt.Sprint(" ", e.Action.Index)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, ", ")
}

func TestBook_ApplyMarks_marksTheNearestClick(t *testing.T) {
	const rage, dead = activity.MarkRage, activity.MarkDead
	page, buy := did(0, activity.TypePageview, "Home"), did(1, activity.TypeClick, "Buy")
	help := did(1.5, activity.TypeClick, "Help")
	plain, bobs := buy, marked(1, "Buy", rage)
	plain.Markable, bobs.UserID = false, "bob"
	var many events
	for i := range 9 {
		many = append(many, did(1, activity.TypeClick, fmt.Sprint("Button ", i)))
	}
	for name, c := range map[string]struct {
		before, batch events // in two books
		want          string
		missed        int
	}{
		"no mark":             {nil, events{page, buy, help}, "0 Home, 1 Buy, 1.5 Help", 0},
		"after its click":     {nil, events{page, buy, help, marked(2, "Buy", rage)}, "0 Home, 1 Buy rage, 1.5 Help", 0},
		"before its click":    {nil, events{marked(0.5, "Buy", dead), buy}, "1 Buy dead", 0},
		"two at once":         {nil, events{buy, marked(2, "Buy", dead), marked(3, "Buy", rage)}, "1 Buy rage+dead", 0},
		"of an earlier click": {events{page, buy}, events{help, marked(2, "Buy", rage)}, "1 Buy rage 1, 1.5 Help", 0},
		"another of an earlier click": {events{page, buy, marked(1, "Buy", dead)}, events{marked(2, "Buy", rage)},
			"1 Buy rage+dead 1", 0},
		"the same mark again": {events{buy, marked(1, "Buy", rage)}, events{marked(2, "Buy", rage)}, "", 1},
		"two seconds after":   {nil, events{buy, marked(3, "Buy", rage)}, "1 Buy rage", 0},
		"two seconds before":  {nil, events{marked(-1, "Buy", rage), buy}, "1 Buy rage", 0},
		"longer after":        {nil, events{buy, marked(3.001, "Buy", rage)}, "1 Buy", 1},
		"the nearest of two": {nil, events{buy, did(2, activity.TypeClick, "Buy"), marked(1.6, "Buy", rage)},
			"1 Buy, 2 Buy rage", 0},
		"of another target":          {nil, events{buy, marked(1, "Help", rage)}, "1 Buy", 1},
		"of another user":            {nil, events{buy, bobs}, "1 Buy", 1},
		"of a click that takes none": {nil, events{plain, marked(1, "Buy", rage)}, "1 Buy", 1},
		"of the ninth click back":    {many, events{marked(1, "Button 0", rage)}, "", 1},
		"of the eighth click back":   {many, events{marked(1, "Button 1", rage)}, "1 Button 1 rage 1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(0)
			apply := func(batch events) (left events, missed int) {
				batch = slices.Clone(batch)
				for i := range batch {
					action := *batch[i].Action
					batch[i].Action = &action
				}
				b := d.open(t, batch...)
				left, missed = b.ApplyMarks("s", batch)
				b.Count("s", len(left))
				assert.NoError(t, d.close(t, b))
				return left, missed
			}
			if c.before != nil {
				apply(c.before)
			}
			left, missed := apply(c.batch)
			assert.Equal(t, c.want, shown(left))
			assert.Equal(t, c.missed, missed)
		})
	}
}

// An error is the same for ten seconds before and after, in its session and of its user.
func TestBook_DropRepeated_keepsTheFirstOfEqualErrors(t *testing.T) {
	const failure = activity.TypeError
	bobs, others := did(2, failure, "boom"), make(events, 16)
	bobs.UserID = "bob"
	for i := range others {
		others[i] = did(3, failure, fmt.Sprint("boom ", i))
	}
	d := newDirectory(0)
	drop := func(session string, batch ...activity.Event) (string, int) {
		for i := range batch {
			batch[i].SessionID = session
		}
		b := d.open(t, batch...)
		kept, repeated := b.DropRepeated(session, batch)
		b.Count(session, 0) // so that the session is written
		assert.NoError(t, d.close(t, b))
		return shown(kept), repeated
	}
	for _, step := range []struct {
		session  string
		batch    events
		want     string
		repeated int
	}{
		{"s", events{did(1, failure, "boom"), did(2, failure, "boom"), did(2, activity.TypeClick, "boom"),
			did(2, activity.TypeClick, "boom")}, "1 boom, 2 boom, 2 boom", 1},
		{"s", events{did(11, failure, "boom"), did(-9, failure, "boom"), did(1, failure, "bang"), bobs}, "1 bang, 2 boom", 2},
		{"s", events{did(11.001, failure, "boom")}, "11.001 boom", 0},
		{"t", events{did(2, failure, "boom")}, "2 boom", 0},
		{"", events{did(2, failure, "boom"), did(2, failure, "boom")}, "2 boom", 1},
	} {
		kept, repeated := drop(step.session, step.batch...)
		assert.Equal(t, step.want, kept)
		assert.Equal(t, step.repeated, repeated)
	}
	drop("s", others...)
	kept, _ := drop("s", did(12, failure, "boom"))
	assert.Equal(t, "12 boom", kept, "only the last 16 are remembered")
	_, repeated := drop("s", did(3, failure, "boom 15"))
	assert.Equal(t, 1, repeated)
}

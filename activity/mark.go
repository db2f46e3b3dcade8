package activity

import "slices"

// The marks of a click: the visitor clicked repeatedly, or nothing happened.
const (
	MarkRage = "rage"
	MarkDead = "dead"
)

// markWords are appended to the description of a marked action, in this order.
var markWords = []struct{ mark, words string }{{MarkRage, ", repeatedly"}, {MarkDead, ", and nothing happened"}}

// Marked returns a copy of the action with the marks, in a fixed order, and with their words at the
// end of the description. Unknown marks are left out. The action must not be marked already, since
// its words would be repeated.
func (a Action) Marked(marks []string) *Action {
	a.Marks = nil
	for _, m := range markWords {
		if slices.Contains(marks, m.mark) {
			a.Marks = append(a.Marks, m.mark)
			a.Description += m.words
		}
	}
	return &a
}

// TakesPlace reports whether the action is a marked click and of is the same click with fewer or no
// marks. Of two with equal marks, the newer one takes the place of the older.
func (a *Action) TakesPlace(of *Action) bool {
	return len(a.Marks) > 0 && a.TimestampStart == of.TimestampStart && a.Type == of.Type && a.Title == of.Title
}

// withoutMarked replaces clicks among the actions of one session by their marked versions, which
// are searched from an index on. A marked version keeps the position and the end of the click.
// It modifies the slice.
func withoutMarked(actions []BatchAction, from int) []BatchAction {
	for i := from; i < len(actions); i++ {
		a := &actions[i]
		if len(a.Marks) == 0 {
			continue
		}
		for at := range i {
			if of := &actions[at]; a.TakesPlace(&of.Action) && a.UserID == of.UserID {
				a.TimestampEnd = of.TimestampEnd
				actions[at] = *a
				actions = slices.Delete(actions, i, i+1)
				i--
				break
			}
		}
	}
	return actions
}

package activity

import "slices"

// The marks of a click: the visitor clicked there again and again, or nothing happened.
const (
	MarkRage = "rage"
	MarkDead = "dead"
)

// markWords end the description of an action with the mark, in this order.
var markWords = []struct{ mark, words string }{{MarkRage, ", repeatedly"}, {MarkDead, ", and nothing happened"}}

// Marked returns a copy of the action with these marks, in a fixed order, and with a
// description that ends with their words. Unknown marks are left out. The action must not be
// marked yet, or its words come twice.
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

// TakesPlace reports whether the action is a click with marks, and the other one is the
// same click without them, or with fewer. The older one of two with equal marks is the other.
func (a *Action) TakesPlace(of *Action) bool {
	return len(a.Marks) > 0 && a.TimestampStart == of.TimestampStart && a.Type == of.Type && a.Title == of.Title
}

// withoutMarked returns the actions of one session without those whose place another one takes,
// of those from an index on: the marked action moves to the place and the end of the earlier
// one. It changes the slice.
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

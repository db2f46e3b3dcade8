package activity

import (
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// The marks of a click: the visitor clicked there again and again, or nothing happened.
const (
	MarkRage = "rage"
	MarkDead = "dead"
)

// markWords end the description of an action with the mark, in this order.
var markWords = []struct{ mark, words string }{{MarkRage, ", repeatedly"}, {MarkDead, ", and nothing happened"}}

// marked returns the action with these marks, and with a description that ends with their
// words.
func (a Action) marked(marks []string) *Action {
	a.Marks = nil
	for _, m := range markWords {
		if slices.Contains(marks, m.mark) {
			a.Marks = append(a.Marks, m.mark)
			a.Description += m.words
		}
	}
	return &a
}

// Of the clicks that marks may follow, a session remembers the newest maxClicks. A mark is
// of the nearest one like it whose time differs by markWithin at most.
const (
	maxClicks  = 8
	markWithin = 2 * time.Second
)

// seenClick is a click that marks may follow: a hash of its user and its object, its time
// in microseconds since the epoch, and its index in the session.
type seenClick struct {
	Sum   uint64   `json:"sum"`
	At    int64    `json:"at"`
	Index int      `json:"index"`
	Marks []string `json:"marks,omitempty"`
}

// noticed is a session's memory of errors of the last seconds, and of clicks that marks
// may follow.
type noticed struct {
	Errors []seenError `json:"errors,omitempty"`
	Clicks []seenClick `json:"clicks,omitempty"`
}

// notice returns a copy of the session's memory, which is the session's from then on.
func (s *Session) notice() *noticed {
	n := &noticed{}
	if s.noticed != nil {
		n.Errors, n.Clicks = slices.Clone(s.noticed.Errors), slices.Clone(s.noticed.Clicks)
	}
	s.noticed = n
	return n
}

func clickSum(e *Event) uint64 {
	return hashOf(e.UserID + "\x00" + e.Action.Title + "\x00" + e.Action.CanonicalURL)
}

func hashOf(s string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(s))
	return hash.Sum64()
}

// ApplyMarks gives the session's clicks the marks among its settled events, and returns the
// events that are left, in order of their time, and the number of marks without a click, or
// with one that has the mark. The mark of a click among the events is gone. The mark of an
// earlier click has become that click, as it was but for its marks, with its index.
func (b *Book) ApplyMarks(sessionID string, events []Event) (left []Event, missed int) {
	if !slices.ContainsFunc(events, func(e Event) bool { return e.Markable || e.IsMark() }) {
		return events, 0
	}
	_, s := b.session(sessionID)
	known, clicks := s.notice(), map[int]*Event{} // those of the events by index
	next, marks := s.Actions, false
	for i := range events {
		e := &events[i]
		if e.IsMark() {
			marks = true
			continue
		}
		if e.Markable {
			clicks[next] = e
			known.Clicks = append(known.Clicks, seenClick{Sum: clickSum(e), At: e.Time.UnixMicro(), Index: next})
		}
		next++
	}
	if marks {
		for i := range events {
			if e := &events[i]; e.IsMark() && !known.applyMark(e, clicks) {
				e.Action = nil
				missed++
			}
		}
		events = slices.DeleteFunc(events, func(e Event) bool { return e.Action == nil })
		slices.SortStableFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	}
	known.Clicks = known.Clicks[max(0, len(known.Clicks)-maxClicks):]
	return events, missed
}

// applyMark gives a mark to its click, which may be one of those by index, and reports
// whether there is one without it.
func (n *noticed) applyMark(e *Event, clicks map[int]*Event) bool {
	sum, at := clickSum(e), e.Time.UnixMicro()
	var click *seenClick
	nearest := markWithin.Microseconds()
	for i := range n.Clicks {
		c := &n.Clicks[i]
		if distance := max(at-c.At, c.At-at); c.Sum == sum && distance <= nearest {
			click, nearest = c, distance
		}
	}
	if click == nil || slices.Contains(click.Marks, e.Action.Marks[0]) {
		return false
	}
	click.Marks = append(slices.Clip(click.Marks), e.Action.Marks[0])
	if here := clicks[click.Index]; here != nil {
		here.Action = e.Action.marked(click.Marks)
		e.Action = nil
		return true
	}
	e.Action = e.Action.marked(click.Marks)
	e.Action.Index = click.Index
	e.Time = time.UnixMicro(click.At)
	return true
}

// TakesPlace reports whether the action is a click with marks, and the other one is the
// same click without them, or with fewer. The older one of two with equal marks is the other.
func (a *Action) TakesPlace(of *Action) bool {
	return len(a.Marks) > 0 && a.TimestampStart == of.TimestampStart && a.Type == of.Type && a.Title == of.Title
}

// withoutMarked returns the actions of one session without those whose place another one
// takes.
func withoutMarked(actions []BatchAction) []BatchAction {
	for i := 0; i < len(actions); i++ {
		a := &actions[i]
		if len(a.Marks) == 0 {
			continue
		}
		for at := range i {
			if of := &actions[at]; a.TakesPlace(&of.Action) && a.UserID == of.UserID {
				a.TimestampEnd = max(a.TimestampEnd, of.TimestampEnd)
				actions[at] = *a
				actions = slices.Delete(actions, i, i+1)
				i--
				break
			}
		}
	}
	return actions
}

// marksField is in the JSON of a [Record] with marks, and of no other: inside of a string
// its quotes are escaped.
const marksField = `,"marks":["`

// takesPlace reports whether the record is the click before it, with marks.
func (r *Record) takesPlace(of *Record) bool {
	object := func(json string) string { object, _, _ := strings.Cut(json, descriptionField); return object }
	return r.Start == of.Start && r.As == of.As && strings.Contains(r.JSON, marksField) &&
		object(r.JSON) == object(of.JSON)
}

package directory

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

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

// noticed is a session's memory of errors of the last seconds, and of clicks that marks may
// follow. Copies of a session share it, so notice makes a new one for each change.
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

// clickSum returns the hash by which a mark finds its click: of its user and its object.
func clickSum(e *activity.Event) uint64 {
	return hashOf(e.UserID + "\x00" + e.Action.Title + "\x00" + e.Action.CanonicalURL)
}

// hashOf returns a hash that is the same on every server, as it is stored.
func hashOf(s string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(s))
	return hash.Sum64()
}

// ApplyMarks gives the session's clicks the marks among its settled events, and returns the
// events that are left, in order of their time, and the number of marks without a click, or
// with one that has the mark. The mark of a click among the events is gone. The mark of an
// earlier click has become that click, as it was but for its marks, with its index. It may
// change events and its slice.
func (b *Book) ApplyMarks(sessionID string, events []activity.Event) (left []activity.Event, missed int) {
	if !slices.ContainsFunc(events, func(e activity.Event) bool { return e.Markable || e.IsMark() }) {
		return events, 0
	}
	_, s := b.session(sessionID)
	known, clicks := s.notice(), map[int]*activity.Event{} // those of the events by index
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
		events = slices.DeleteFunc(events, func(e activity.Event) bool { return e.Action == nil })
		slices.SortStableFunc(events, func(a, b activity.Event) int { return a.Time.Compare(b.Time) })
	}
	known.Clicks = known.Clicks[max(0, len(known.Clicks)-maxClicks):]
	return events, missed
}

// applyMark gives the marks of an event to their click, which may be one of those by index, and
// reports whether there is one that lacks any of them.
func (n *noticed) applyMark(e *activity.Event, clicks map[int]*activity.Event) bool {
	click := n.nearest(e)
	if click == nil {
		return false
	}
	before := len(click.Marks)
	for _, mark := range e.Action.Marks {
		if !slices.Contains(click.Marks, mark) {
			click.Marks = append(slices.Clip(click.Marks), mark)
		}
	}
	if len(click.Marks) == before {
		return false
	}
	if here := clicks[click.Index]; here != nil {
		here.Action = e.Action.Marked(click.Marks)
		e.Action = nil
		return true
	}
	e.Action = e.Action.Marked(click.Marks)
	e.Action.Index = click.Index
	e.Time = time.UnixMicro(click.At)
	return true
}

// nearest returns the click of the same target that is nearest in time, at most markWithin
// away, or nil.
func (n *noticed) nearest(e *activity.Event) (click *seenClick) {
	sum, at, nearest := clickSum(e), e.Time.UnixMicro(), markWithin.Microseconds()
	for i := range n.Clicks {
		c := &n.Clicks[i]
		if distance := max(at-c.At, c.At-at); c.Sum == sum && distance <= nearest {
			click, nearest = c, distance
		}
	}
	return click
}

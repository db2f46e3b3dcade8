package directory

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// A session remembers its newest maxClicks clicks that a mark may follow. A mark belongs to the
// nearest click with the same target within markWithin before or after it.
const (
	maxClicks  = 8
	markWithin = 2 * time.Second
)

// seenClick is a click that a mark may follow: a hash of its user and target, its time in
// microseconds since the epoch, and its index in the session.
type seenClick struct {
	Sum   uint64   `json:"sum"`
	At    int64    `json:"at"`
	Index int      `json:"index"`
	Marks []string `json:"marks,omitempty"`
}

// noticed holds a session's recent errors and the clicks that a mark may follow. Only the book's own
// session may be asked for it: copies share the lists, which are modified.
type noticed struct {
	Errors []seenError `json:"errors,omitempty"`
	Clicks []seenClick `json:"clicks,omitempty"`
}

// clickSum returns the hash of an event's user and target, by which a mark finds its click.
func clickSum(e *activity.Event) uint64 {
	return hashOf(e.UserID + "\x00" + e.Action.Title + "\x00" + e.Action.CanonicalURL)
}

// hashOf returns a hash that is the same on every server, because it is stored.
func hashOf(s string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(s))
	return hash.Sum64()
}

// ApplyMarks applies the marks among a session's settled events to their clicks. It returns the
// remaining events in time order, and the number of marks that had no click, or whose click had
// the mark already. A mark whose click is among the events is removed. A mark of an earlier click
// becomes a copy of that click with its index and all of its marks. ApplyMarks may modify the
// events and their slice.
func (b *Book) ApplyMarks(sessionID string, events []activity.Event) (left []activity.Event, missed int) {
	if !slices.ContainsFunc(events, func(e activity.Event) bool { return e.Markable || e.IsMark() }) {
		return events, 0
	}
	_, s := b.session(sessionID)
	known, clicks := &s.Noticed, map[int]*activity.Event{} // those of the events by index
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

// applyMark adds an event's marks to their click, which may be among the given clicks, keyed by
// index. It reports false if there is no such click or it has all of the marks.
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

// nearest returns the click on the same target that is nearest in time, within markWithin, or nil.
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

// Only the first of equal errors within repeatWithin becomes an action. A session remembers at most
// maxErrors of them.
const (
	repeatWithin = 10 * time.Second
	maxErrors    = 16
)

// seenError is an error that became an action: a hash of its text, and its time in microseconds
// since the epoch.
type seenError struct {
	Sum uint64 `json:"sum"`
	At  int64  `json:"at"`
}

// DropRepeated removes repeated errors from a session's settled events. It returns the remaining
// events, in the memory of the slice, and the number of removed ones. Without a session ID, the
// events must be those of one request.
func (b *Book) DropRepeated(sessionID string, events []activity.Event) (kept []activity.Event, repeated int) {
	_, s := b.session(sessionID)
	kept = slices.DeleteFunc(events, func(e activity.Event) bool {
		return e.Action != nil && e.Action.Type == activity.TypeError && s.repeats(&e)
	})
	return kept, len(events) - len(kept)
}

// repeats reports whether the session has seen the error before, and remembers it otherwise.
func (s *Session) repeats(e *activity.Event) bool {
	now := seenError{hashOf(e.UserID + "\x00" + e.Action.Description), e.Time.UnixMicro()}
	known := &s.Noticed
	for _, seen := range known.Errors {
		if seen.Sum == now.Sum && time.Duration(max(now.At-seen.At, seen.At-now.At))*time.Microsecond <= repeatWithin {
			return true
		}
	}
	known.Errors = append(known.Errors, now)
	known.Errors = known.Errors[max(0, len(known.Errors)-maxErrors):]
	return false
}

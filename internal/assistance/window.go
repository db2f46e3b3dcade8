package assistance

import (
	"slices"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/proactive"
)

// A trigger sees at most this much of a session's past.
const (
	WindowSpan = 120 * time.Second
	WindowSize = 50 // actions
)

// Window holds a session's newest actions, at most [WindowSize], none older than
// [WindowSpan] before the newest. The zero value is empty. The caller owns it; it is
// not safe for concurrent use.
type Window struct {
	Actions []proactive.Action // oldest first
	count   int                // actions since the session began
}

// Bytes returns the memory that the actions take. A text that several of them share is counted
// for each.
func (w *Window) Bytes() int64 {
	size := fair.Size(cap(w.Actions) * int(unsafe.Sizeof(proactive.Action{})))
	for i := range w.Actions {
		a := &w.Actions[i] // the label is a part of the title
		size += fair.Size(len(a.Type)) + fair.Size(len(a.Title)) + fair.Size(len(a.CanonicalURL)) +
			fair.Size(len(a.Marks)*int(unsafe.Sizeof(""))) + fair.SizeOfMap(a.Properties)
		for _, mark := range a.Marks {
			size += fair.Size(len(mark))
		}
	}
	return size
}

// newest returns the time of the newest action, or zero.
func (w *Window) newest() time.Time {
	if len(w.Actions) == 0 {
		return time.Time{}
	}
	return w.Actions[len(w.Actions)-1].At
}

// Add inserts an action by its time. It drops an action that is too old.
func (w *Window) Add(a activity.Action, now time.Time) {
	at := a.Start()
	w.count = max(w.count, a.Index+1)
	oldest := schedule.Later(schedule.Later(now, at), w.newest()).Add(-WindowSpan)
	w.trim(oldest)
	place := len(w.Actions)
	for place > 0 && w.Actions[place-1].At.After(at) {
		place--
	}
	did := proactive.Action{At: at, Type: a.Type, Title: a.Title, Label: a.Label(), CanonicalURL: a.CanonicalURL,
		Properties: a.Properties, Marks: a.Marks}
	if before := place - 1; len(a.Marks) > 0 && before >= 0 && w.Actions[before].At.Equal(at) &&
		w.Actions[before].Title == a.Title {
		w.Actions[before] = did
		return
	}
	full := len(w.Actions) == WindowSize
	if at.Before(oldest) || full && place == 0 {
		return
	}
	if full {
		w.Actions = slices.Delete(w.Actions, 0, 1)
		place--
	}
	w.Actions = slices.Insert(w.Actions, place, did)
}

// trim drops the actions before a time.
func (w *Window) trim(oldest time.Time) {
	gone := 0
	for gone < len(w.Actions) && w.Actions[gone].At.Before(oldest) {
		gone++
	}
	w.Actions = slices.Delete(w.Actions, 0, gone)
}

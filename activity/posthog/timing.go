package posthog

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// setTimes sets the times of the event's meaning and reports whether they can be read. An
// offset counts from the time of sending, or else of arrival, and an event with neither a
// timestamp nor an offset happened when it arrived. A dead click happened when the visitor
// clicked, not when the SDK had waited long enough.
func (e *event) setTimes(out *activity.Event, from *intake.Request) (ok bool) {
	sent, known := intake.ParseTime(cmp.Or(e.SentAt, from.SentAt))
	switch {
	case e.Timestamp != "":
		out.Sent, out.ServerTime = sent, e.Options.ClockIsRight
		if e.Name == intake.EventDeadClick && !from.Webhook {
			if out.Time, ok = intake.ParseTime(e.Properties.DeadClickAt); ok {
				return true
			}
		}
		out.Time, ok = intake.ParseTime(e.Timestamp)
		return ok
	case e.Offset != "" && known:
		out.Sent, out.Time = sent, e.Offset.before(sent)
	case e.Offset != "":
		out.ServerTime, out.Time = true, e.Offset.before(from.Arrived)
	default:
		out.ServerTime, out.Time = true, from.Arrived
	}
	return true
}

// before returns the time by this offset before t, or the zero time if that is longer ago than a
// Duration can hold. A negative number and any other text count as zero.
func (o offset) before(t time.Time) time.Time {
	milliseconds, _ := strconv.ParseFloat(string(o), 64)
	if milliseconds > float64(math.MaxInt64/int64(time.Millisecond)) {
		return time.Time{}
	}
	return t.Add(-time.Duration(max(milliseconds, 0) * float64(time.Millisecond))) // a negative one lies in the future
}

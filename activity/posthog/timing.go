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
	sent, known := intake.ParseTime(cmp.Or(e.sentAt, from.SentAt))
	switch {
	case e.timestamp != "":
		out.Sent, out.ServerTime = sent, e.clockIsRight
		if e.name == intake.EventDeadClick && !from.Webhook {
			if out.Time, ok = intake.ParseTime(e.properties.deadClickAt); ok {
				return true
			}
		}
		out.Time, ok = intake.ParseTime(e.timestamp)
		return ok
	case e.offset != "" && known:
		out.Sent, out.Time = sent, before(sent, e.offset)
	case e.offset != "":
		out.ServerTime, out.Time = true, before(from.Arrived, e.offset)
	default:
		out.ServerTime, out.Time = true, from.Arrived
	}
	return true
}

// before returns the time that many milliseconds before t, or the zero time if that is longer
// ago than a Duration can hold. A negative number and any other text count as zero.
func before(t time.Time, number string) time.Time {
	milliseconds, _ := strconv.ParseFloat(number, 64)
	if milliseconds > float64(math.MaxInt64/int64(time.Millisecond)) {
		return time.Time{}
	}
	return t.Add(-time.Duration(max(milliseconds, 0) * float64(time.Millisecond))) // a negative one lies in the future
}

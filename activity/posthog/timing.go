package posthog

import (
	"cmp"
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
		out.Sent, out.Time = sent, sent.Add(-e.Offset.duration())
	case e.Offset != "":
		out.Age = e.Offset.duration()
	}
	return true
}

// duration returns the offset's milliseconds, at most longestAgo. A negative number, which lies in the
// future, and any other text count as zero.
func (o offset) duration() time.Duration {
	milliseconds, _ := strconv.ParseFloat(string(o), 64)
	return time.Duration(min(max(milliseconds, 0), float64(longestAgo.Milliseconds())) * float64(time.Millisecond))
}

// longestAgo is longer ago than any retention.
const longestAgo = 100 * 365 * 24 * time.Hour

package posthog

import (
	"math"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// setTimes sets the times of the event's meaning and reports whether they can be read.
// sentAt is the request's. An offset counts from the time of sending or else of arrival,
// and an event without either happened when it arrived.
func (e *event) setTimes(out *activity.Event, sentAt text, arrived time.Time) (ok bool) {
	sent, known := parseTime(first(string(e.SentAt), string(sentAt)))
	out.Received = arrived
	switch {
	case e.Timestamp != "":
		out.Sent, out.ServerTime = sent, e.ClockIsRight
		out.Time, ok = parseTime(string(e.Timestamp))
		return ok
	case e.Offset != nil && known:
		out.Sent, out.Time = sent, before(sent, *e.Offset)
	case e.Offset != nil:
		out.ServerTime, out.Time = true, before(arrived, *e.Offset)
	default:
		out.ServerTime, out.Time = true, arrived
	}
	return true
}

// before returns the time so many milliseconds before t, or the zero time where
// that is longer ago than durations are.
func before(t time.Time, milliseconds float64) time.Time {
	if milliseconds > float64(math.MaxInt64/int64(time.Millisecond)) {
		return time.Time{}
	}
	return t.Add(-time.Duration(max(milliseconds, 0) * float64(time.Millisecond))) // a negative one lies in the future
}

// timeLayouts are those that PostHog's SDKs and templates write, besides RFC 3339.
var timeLayouts = []string{
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999Z0700",
}

// parseTime reads a time as SDKs and templates write it: RFC 3339 and its near
// relations, UTC where no zone is given, or a number of seconds or milliseconds
// since the epoch.
func parseTime(s string) (time.Time, bool) {
	if s == "" {
		return time.Time{}, false
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, true
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		if math.Abs(n) >= 1e11 { // milliseconds, from the year 1973 on
			n /= 1000
		}
		if math.IsNaN(n) || math.Abs(n) > 1e11 {
			return time.Time{}, false
		}
		return time.UnixMicro(int64(n * 1e6)), true
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

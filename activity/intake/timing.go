package intake

import (
	"math"
	"strconv"
	"time"
)

// timeLayouts are the layouts other than RFC 3339 that SDKs and templates use.
var timeLayouts = []string{
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999Z0700",
}

// ParseTime parses a time in a format that SDKs and templates use: RFC 3339 or a similar layout, in
// UTC unless it has a zone, or a number of seconds or milliseconds since the epoch. A number of
// 1e11 or more is in milliseconds; as seconds it would be after the year 5000. ParseTime reports
// false for other texts and the empty one.
func ParseTime(s string) (time.Time, bool) {
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

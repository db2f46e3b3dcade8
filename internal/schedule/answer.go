package schedule

import (
	"net/http"
	"strconv"
	"time"
)

// AskedWait returns the wait that the header Retry-After of an answer asks for, in seconds or as a
// date, at most the given one, or zero for none. Fractions of a second are kept. A date is relative
// to the answer's own date, since clocks differ.
func AskedWait(answer http.Header, now time.Time, most time.Duration) time.Duration {
	value := answer.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, most.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(AnsweredAt(answer, now))), most)
	}
	return 0
}

// AnsweredAt returns when an answer that arrived now was sent, by its sender's clock and
// to the second. Without a Date header it returns now.
func AnsweredAt(answer http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(answer.Get("Date")); err == nil {
		return date
	}
	return now
}

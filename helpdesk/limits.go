package helpdesk

import (
	"cmp"
	"net/http"
	"strconv"
	"time"
)

// Limit is a rate limit of an account, as an answer of the desk states it.
type Limit struct {
	Total, Remaining int           // requests; Total is zero if it is not stated
	Resets           time.Duration // how long after the answer the limit resets
}

// reserve is the part of a limit that is left to others, such as the desk's own people, other
// integrations, and requests in flight: one in twenty.
const reserve = 20

// noteLimits records the limits that an answer states. The lowest limit becomes the rate, since it
// is hit first.
func (a *API) noteLimits(limits []Limit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rate := 0
	for _, l := range limits {
		if l.Remaining <= l.Total/reserve {
			a.pause(l.Resets)
		}
		if l.Total > 0 && (rate == 0 || l.Total < rate) {
			rate = l.Total
		}
	}
	a.rate = cmp.Or(rate, a.rate)
}

// pause extends the pause of all requests. Answers may arrive in a different order than they were
// made, so it never shortens the pause. The caller holds mu.
func (a *API) pause(d time.Duration) {
	if until := time.Now().Add(d); until.After(a.until) {
		a.until = until
	}
}

// retryAfter returns the pause that a Retry-After header asks for, in seconds or as a date, at
// most maxWait, or zero for none. Fractions of a second are kept. A date is relative to the
// answer's own date, since clocks differ.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, maxWait.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(AnsweredAt(header, now))), maxWait)
	}
	return 0
}

// AnsweredAt returns when an answer that arrived now was sent, by its sender's clock and
// to the second. Without a Date header it returns now.
func AnsweredAt(header http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return date
	}
	return now
}

// maxWait bounds the pause that a desk can ask for.
const maxWait = time.Hour

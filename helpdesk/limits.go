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

// noteLimits records the limits that an answer states. Answers may arrive in a different order than
// they were made, so a pause only grows. The lowest limit becomes the rate, since it is hit first.
func (a *API) noteLimits(limits []Limit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rate := 0
	for _, l := range limits {
		if until := time.Now().Add(l.Resets); l.Remaining <= l.Total/reserve && until.After(a.near) {
			a.near = until
		}
		if l.Total > 0 && (rate == 0 || l.Total < rate) {
			rate = l.Total
		}
	}
	a.rate = cmp.Or(rate, a.rate)
}

// holdAfter records a failed request. If the failure concerns the whole account, it holds all
// requests; a pause that would end before the present one changes nothing.
func (a *API) holdAfter(e *APIError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if until := time.Now().Add(e.Wait); e.Wait > 0 && e.AccountWide() && until.After(a.until) {
		a.until, a.answer = until, *e
	}
}

// held returns the error for a request that must not be made yet: the desk's last answer, with
// the remaining wait. The error is not ambiguous, as nothing is sent. It is nil if the request
// may be made.
func (a *API) held(op string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait := time.Until(a.until)
	if wait <= 0 {
		return nil
	}
	e := a.answer
	e.Op, e.Wait, e.Ambiguous, e.Err = op, wait, false, errHeld
	return &e
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

package helpdesk

import (
	"cmp"
	"time"

	"github.com/liveactivity/liveactivity/internal/schedule"
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
func (a *API) pause(d time.Duration) { a.until = schedule.Later(a.until, time.Now().Add(d)) }

// maxWait bounds the pause that a desk can ask for.
const maxWait = time.Hour

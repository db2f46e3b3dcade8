package intercom

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// budget is the rest of the rate limit, by the headers of the answers. All
// requests of an app share it, in windows of ten seconds. The zero budget knows no limit, and asks
// for no pause.
//
// A window is known by its end, as Intercom's X-RateLimit-Reset states it. Clocks differ, so times
// are counted from the Date of the same answer. See
// https://developers.intercom.com/docs/references/2.0/rest-api/errors/rate-limiting
type budget struct {
	// mu guards the fields below.
	mu sync.Mutex
	// limit and remaining count the requests of the window; zero while unknown.
	limit, remaining int
	window           int64         // when the window ends, by Intercom's clock
	ends             time.Time     // by ours
	skew             time.Duration // Intercom's clock minus ours
}

// maxWindow bounds how long a header can make us wait.
const maxWindow = time.Minute

// reserve is the part of the limit that Pause leaves to other requests, and to
// those in flight: one in so many.
const reserve = 50

// observe takes in an answer that arrived at the time now. Answers may arrive in another order
// than they were made in, so within a window the least remaining counts, and an answer of an
// earlier window is only taken once the present one is over. After a 429 nothing remains,
// whatever the header says.
func (b *budget) observe(now time.Time, status int, header http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skew = helpdesk.AnsweredAt(header, now).Sub(now)
	window, err := strconv.ParseInt(header.Get("X-RateLimit-Reset"), 10, 64)
	remaining, err2 := strconv.Atoi(header.Get("X-RateLimit-Remaining"))
	if err != nil || err2 != nil {
		return
	}
	if status == http.StatusTooManyRequests {
		remaining = 0
	}
	switch {
	case window == b.window:
		b.remaining = min(b.remaining, remaining)
	case window > b.window || !now.Before(b.ends):
		b.window, b.remaining, b.ends = window, remaining, now.Add(untilReset(now, header))
	}
	if limit, err := strconv.Atoi(header.Get("X-RateLimit-Limit")); err == nil {
		b.limit = limit
	}
}

// pause returns how long to wait at the time now for a share of the next window; zero while more
// than the reserve remains.
func (b *budget) pause(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.remaining > b.limit/reserve {
		return 0
	}
	return max(0, b.ends.Sub(now))
}

// windowLength is the length of a window of Intercom's limits.
const windowLength = 10 * time.Second

// rate returns the limit of a window.
func (b *budget) rate() (requests int, window time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit, windowLength
}

// theirs returns the time by Intercom's clock, as far as it is known from its last answer. It is
// up to two seconds early: the Date is in full seconds, and so is the result. A search that
// begins there misses nothing.
func (b *budget) theirs(t time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.Add(b.skew).Truncate(time.Second)
}

// untilReset returns how long the window lasts from the time now on at which an
// answer arrived; zero if it does not say. It goes by the answer's own date, since
// clocks differ.
func untilReset(now time.Time, header http.Header) time.Duration {
	window, err := strconv.ParseInt(header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil {
		return 0
	}
	return min(max(0, time.Unix(window, 0).Sub(helpdesk.AnsweredAt(header, now))), maxWindow)
}

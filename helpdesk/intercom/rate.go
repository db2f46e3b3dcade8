package intercom

import (
	"net/http"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// All requests of an app share a rate limit, in windows. See
// https://developers.intercom.com/docs/references/2.0/rest-api/errors/rate-limiting
const (
	windowLength = 10 * time.Second
	maxWindow    = time.Minute // bounds how long a header can make us wait
)

// limits returns the rate limit by the headers of an answer, and remembers Intercom's clock.
func (c *Client) limits(_ helpdesk.Request, header http.Header) []helpdesk.Limit {
	now := time.Now()
	c.skew.Store(int64(helpdesk.AnsweredAt(header, now).Sub(now)))
	remaining, err := strconv.Atoi(header.Get("X-RateLimit-Remaining"))
	if err != nil {
		return nil
	}
	total, _ := strconv.Atoi(header.Get("X-RateLimit-Limit"))
	return []helpdesk.Limit{{Total: total, Remaining: remaining, Resets: untilReset(now, header)}}
}

// theirs returns the time by Intercom's clock, as far as it is known from its last answer. It is
// up to two seconds early: the Date is in full seconds, and so is the result. A search that
// begins there misses nothing.
func (c *Client) theirs(t time.Time) time.Time {
	return t.Add(time.Duration(c.skew.Load())).Truncate(time.Second)
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

package intercom

import (
	"net/http"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// All requests of an app share one rate limit per window. See
// https://developers.intercom.com/docs/references/2.0/rest-api/errors/rate-limiting.
const (
	windowLength = 10 * time.Second
	maxWindow    = time.Minute // bounds how long a header can make us wait
)

// limits returns the rate limit in an answer's headers, and records Intercom's clock.
func (c *Client) limits(_ helpdesk.Request, header http.Header) []helpdesk.Limit {
	now := time.Now()
	c.skew.Store(int64(schedule.AnsweredAt(header, now).Sub(now)))
	remaining, err := strconv.Atoi(header.Get("X-RateLimit-Remaining"))
	if err != nil {
		return nil
	}
	total, _ := strconv.Atoi(header.Get("X-RateLimit-Limit"))
	return []helpdesk.Limit{{Total: total, Remaining: remaining, Resets: untilReset(now, header)}}
}

// theirs converts a time to Intercom's clock, as known from its last answer. The result may be
// up to two seconds early, because the Date header and the result are in full seconds. A search
// from that time misses nothing.
func (c *Client) theirs(t time.Time) time.Time {
	return t.Add(time.Duration(c.skew.Load())).Truncate(time.Second)
}

// untilReset returns how long the window lasts after now, when the answer arrived,
// or zero if the answer does not state it. It is relative to the answer's own
// date, since clocks differ.
func untilReset(now time.Time, header http.Header) time.Duration {
	window, err := strconv.ParseInt(header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil {
		return 0
	}
	return min(max(0, time.Unix(window, 0).Sub(schedule.AnsweredAt(header, now))), maxWindow)
}

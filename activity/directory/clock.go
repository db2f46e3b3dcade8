package directory

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// clock converts timestamps of a session's own clock (stamps) to times of the service. It
// preserves order: a later stamp never gets an earlier time, in whatever order stamps arrive and
// however the correction changes in between. It is stored with the session. All numbers are
// microseconds.
//
// Order holds by construction. A stamp between two points is interpolated on the line between
// them, and lines never change: points are added only before the first and after the last one,
// within the bounds of those points' times, and an inner point is removed only if that
// changes no time.
type clock struct {
	// Correction is added to a stamp. It is the difference between arrival and sending of the
	// request with the least latency; nil until a request has stated when it was sent.
	Correction *int64 `json:"correction,omitempty"`
	// Points are in ascending order of both stamps and times.
	Points []point `json:"points,omitempty"`
	// Cut means that points before the first one were dropped. An event with an earlier stamp
	// counts as expired.
	Cut bool `json:"cut,omitempty"`
}

// point is a stamp and its time.
type point [2]int64

func (p point) stamp() int64 { return p[0] }
func (p point) time() int64  { return p[1] }

const (
	// maxLatency is the largest difference in latency between two requests, in
	// microseconds. A larger one means that the sender's clock was set back.
	maxLatency = int64(20 * time.Second / time.Microsecond)
	// maxPoints bounds the size of a clock to about 9 KB. A session needs two points, and
	// one or two more for each request with a new least latency.
	maxPoints = 256
	// If a better correction would move times back, they advance slowest times slower than
	// the sender's clock, and by at most maxSlowed from one point to the next.
	slowest = 16
	// Requests that arrive together get times closest times nearer to each other than their
	// stamps, slightly ahead of their arrival, so stamps of different milliseconds still get
	// different times. More than maxEarly ahead, times are at most leastEarly apart.
	closest    = 512
	maxSlowed  = int64(10 * time.Millisecond / time.Microsecond)
	maxEarly   = int64(2 * time.Millisecond / time.Microsecond)
	leastEarly = 16
	// maxStamp bounds stamps, far beyond any year that can be formatted.
	maxStamp = int64(1e18)
)

// stamped is an event with its stamp.
type stamped struct {
	*activity.Event
	stamp int64
}

// settle assigns times to the events of one request, which all have a Time, and appends them to settled
// in the order of their stamps. It leaves out, counts and does not learn from events that happened more
// than ttl before their arrival, or before the first point of a cut clock.
func (c *clock) settle(settled, events []activity.Event, ttl time.Duration) (_ []activity.Event, expired int) {
	var few [8]stamped
	ordered := few[:0]
	for i := range events {
		ordered = append(ordered, stamped{&events[i], c.stamp(&events[i])})
	}
	settled = slices.Grow(settled, len(events))
	slices.SortStableFunc(ordered, func(a, b stamped) int { return cmp.Compare(a.stamp, b.stamp) })
	for _, o := range ordered {
		e := *o.Event
		received := arrival(&e)
		correction := c.learned(&e, received)
		before := min((ordered[len(ordered)-1].stamp-o.stamp)/closest, maxSlowed) // the request's last event
		latest := received.UnixMicro() - before
		t := c.time(o.stamp, value(correction), latest)
		e.Time = time.UnixMicro(t).UTC()
		if received.Sub(e.Time) > ttl || c.Cut && o.stamp < c.Points[0].stamp() {
			expired++
			continue
		}
		c.Correction = correction
		c.add(point{o.stamp, t})
		settled = append(settled, e)
	}
	return settled, expired
}

// newest returns the time of the newest event, zero before the first.
func (c *clock) newest() int64 {
	if len(c.Points) == 0 {
		return 0
	}
	return c.Points[len(c.Points)-1].time()
}

// arrival returns when the event arrived.
func arrival(e *activity.Event) time.Time {
	if e.Received.IsZero() {
		return time.Now()
	}
	return e.Received
}

// stamp returns the time of the event by the sender's clock.
func (c *clock) stamp(e *activity.Event) int64 {
	stamp := min(max(e.Time.UnixMicro(), -maxStamp), maxStamp)
	if e.ServerTime {
		stamp -= value(c.Correction)
	}
	return stamp
}

func value(correction *int64) int64 {
	if correction == nil {
		return 0
	}
	return *correction
}

// learned returns the correction to use from the event's request on. The request with the least
// latency defines it.
func (c *clock) learned(e *activity.Event, received time.Time) *int64 {
	if e.Sent.IsZero() || e.ServerTime {
		return c.Correction
	}
	shown := received.UnixMicro() - e.Sent.UnixMicro()
	if known := c.Correction; known != nil && *known <= shown && shown <= *known+maxLatency {
		return known
	}
	return &shown
}

// time returns the time of a stamp. It exceeds latest only as far as the times of earlier stamps
// require.
func (c *clock) time(stamp, correction, latest int64) int64 {
	after := c.after(stamp)
	t := min(stamp+correction, latest)
	switch {
	case len(c.Points) == 0:
		return t
	case after == len(c.Points):
		last := c.Points[after-1]
		if last.stamp() == stamp {
			return last.time()
		}
		if even := last.time() + stamp - last.stamp(); t == latest && even <= latest && latest-even < maxLatency {
			t = even // a clock that is ahead by an unknown amount runs at the service's speed
		}
		early := min((stamp-last.stamp())/closest, max((latest+maxEarly-last.time())/2, leastEarly))
		room := max((latest-last.time())/2, early)
		return max(t, last.time()+max(1, min(slowed(stamp-last.stamp()), room)))
	case after == 0:
		first := c.Points[0]
		return min(t, first.time()-max(1, slowed(first.stamp()-stamp)))
	}
	return between(c.Points[after-1], c.Points[after], stamp)
}

// slowed returns the least distance between the times of two stamps if the correction allows no
// distance. It leaves room for stamps that arrive later.
func slowed(apart int64) int64 { return min(apart/slowest, maxSlowed) }

// after returns the index of the first point after the stamp.
func (c *clock) after(stamp int64) int {
	return sort.Search(len(c.Points), func(i int) bool { return c.Points[i].stamp() > stamp })
}

// between returns the interpolated time of a stamp from a up to, but not including, b. It is
// before b's time unless both times are equal.
func between(a, b point, stamp int64) int64 {
	slope := float64(b.time()-a.time()) / float64(b.stamp()-a.stamp())
	t := a.time() + int64(float64(stamp-a.stamp())*slope)
	return max(min(t, b.time()-1), a.time())
}

// add adds a point unless it lies between others. Beyond maxPoints it drops the first one.
func (c *clock) add(p point) {
	switch after := c.after(p.stamp()); {
	case after == 0:
		c.Points = slices.Insert(c.Points, 0, p)
		c.merge(1)
	case after == len(c.Points) && c.Points[after-1] != p:
		c.Points = append(c.Points, p)
		c.merge(after - 1)
	}
	if len(c.Points) > maxPoints {
		c.Points, c.Cut = slices.Delete(c.Points, 0, 1), true
	}
}

// merge removes the point at i if its neighbours have the same correction: it then lies on the
// line between them, to the microsecond.
func (c *clock) merge(i int) {
	if i < 1 || i+1 >= len(c.Points) {
		return
	}
	correction := func(p point) int64 { return p.time() - p.stamp() }
	a, p, b := c.Points[i-1], c.Points[i], c.Points[i+1]
	if correction(a) == correction(p) && correction(p) == correction(b) {
		c.Points = slices.Delete(c.Points, i, i+1)
	}
}

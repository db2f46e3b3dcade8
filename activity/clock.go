package activity

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// clock turns the stamps of one session's clock into times of the service, so
// that of two stamps the later one never gets the earlier time, regardless of
// learned of the clock in between. It is kept with the session. All its numbers
// are microseconds.
//
// A time that was given stays: between two points a stamp has the time on the
// line from one to the other. Only before the first point and after the last
// one the correction is free, within the bounds that their times set.
type clock struct {
	// Correction is to be added to a stamp, as far as is known: the time of
	// arrival less that of sending, by the request with the least latency. Nil
	// while no request has said when it was sent.
	Correction *int64 `json:"correction,omitempty"`
	// Points are in order, both of their stamps and of their times.
	Points []point `json:"points,omitempty"`
}

// point is a stamp and its time.
type point [2]int64

func (p point) stamp() int64 { return p[0] }
func (p point) time() int64  { return p[1] }

const (
	// maxLatency is by how much the latencies of two requests differ at most,
	// in microseconds. Beyond it the sender's clock has been set back.
	maxLatency = int64(20 * time.Second / time.Microsecond)
	// maxPoints bounds a clock. A session needs two, and one or two more each
	// time that a request has less latency than all before.
	maxPoints = 16
	// slowest is how many times slower than the sender's clock the service's
	// times go where a better correction would set them back, and maxSlowed by
	// how much they then advance at most, from one point to the next.
	slowest   = 16
	maxSlowed = int64(10 * time.Millisecond / time.Microsecond)
	// maxStamp bounds stamps, far beyond the years that can be written.
	maxStamp = int64(1e18)
)

// stamped is an event and its stamp by the sender's clock.
type stamped struct {
	*Event
	stamp int64
}

// settle gives the events of one request their times and appends them in order
// of their stamps. An event that happened more than ttl before it arrived is
// left out and changes nothing.
func (c *clock) settle(settled, events []Event, ttl time.Duration) (_ []Event, expired int) {
	var few [8]stamped
	ordered := few[:0]
	for i := range events {
		ordered = append(ordered, stamped{&events[i], c.stamp(&events[i])})
	}
	settled = slices.Grow(settled, len(events))
	slices.SortStableFunc(ordered, func(a, b stamped) int { return cmp.Compare(a.stamp, b.stamp) })
	for i, o := range ordered {
		e := *o.Event
		received := e.received()
		correction := c.learned(&e, received)
		latest := received.UnixMicro() - int64(len(ordered)-1-i) // later ones get later times
		t := c.time(o.stamp, value(correction), latest)
		e.Time = time.UnixMicro(t).UTC()
		if received.Sub(e.Time) > ttl {
			expired++
			continue
		}
		c.Correction = correction
		c.add(point{o.stamp, t})
		settled = append(settled, e)
	}
	return settled, expired
}

// stamp returns when the event happened by the sender's clock.
func (c *clock) stamp(e *Event) int64 {
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

// learned returns the correction given what the event's request shows. The
// least latency gives the best one; a request that had more keeps its place.
func (c *clock) learned(e *Event, received time.Time) *int64 {
	if e.Sent.IsZero() || e.ServerTime {
		return c.Correction
	}
	shown := received.UnixMicro() - e.Sent.UnixMicro()
	if known := c.Correction; known != nil && *known <= shown && shown <= *known+maxLatency {
		return known
	}
	return &shown
}

// time returns the time of a stamp, which is not after the latest unless an
// earlier stamp's time is.
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
		return max(t, last.time()+max(1, min(slowed(stamp-last.stamp()), (latest-last.time())/2)))
	case after == 0:
		first := c.Points[0]
		return min(t, first.time()-max(1, slowed(first.stamp()-stamp)))
	}
	return between(c.Points[after-1], c.Points[after], stamp)
}

// slowed returns how far apart the times of two stamps are at least where the
// correction allows none: so that there are times between for stamps that
// arrive later.
func slowed(apart int64) int64 { return min(apart/slowest, maxSlowed) }

// after returns how many points are not after the stamp.
func (c *clock) after(stamp int64) int {
	return sort.Search(len(c.Points), func(i int) bool { return c.Points[i].stamp() > stamp })
}

// between returns the time of a stamp that is a's or between those of a and b.
// It is before b's, unless that is a's.
func between(a, b point, stamp int64) int64 {
	slope := float64(b.time()-a.time()) / float64(b.stamp()-a.stamp())
	t := a.time() + int64(float64(stamp-a.stamp())*slope)
	return max(min(t, b.time()-1), a.time())
}

// add makes a point where it is outside of the others, and merges them where
// one is on the line between its neighbours.
func (c *clock) add(p point) {
	switch after := c.after(p.stamp()); {
	case after == 0:
		c.Points = slices.Insert(c.Points, 0, p)
		c.merge(1)
	case after == len(c.Points) && c.Points[after-1] != p:
		c.Points = append(c.Points, p)
		c.merge(after - 1)
	}
	for len(c.Points) > maxPoints {
		c.Points = slices.Delete(c.Points, c.straightest(), c.straightest()+1)
	}
}

// merge removes the point at i if its neighbours' corrections are its own.
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

// straightest returns the inner point without which times change least.
func (c *clock) straightest() int {
	best, least := 1, int64(-1)
	for i := 1; i+1 < len(c.Points); i++ {
		p := c.Points[i]
		bend := between(c.Points[i-1], c.Points[i+1], p.stamp()) - p.time()
		if bend = max(bend, -bend); least < 0 || bend < least {
			best, least = i, bend
		}
	}
	return best
}

package directory

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

// day is the zero of the tests' clocks.
var day = time.Date(2026, 10, 1, 10, 0, 0, 0, time.UTC)

func after(seconds float64) time.Time {
	return day.Add(time.Duration(seconds * float64(time.Second)))
}

// shown is an event by its seconds; a negative sent stands for none.
func shown(stamp, sent, received float64) activity.Event {
	e := activity.Event{ID: fmt.Sprint(stamp), Time: after(stamp), Received: after(received)}
	if sent >= 0 {
		e.Sent = after(sent)
	}
	return e
}

// stored returns the clock as it comes back from storage.
func stored(t testing.TB, c clock) clock {
	t.Helper()
	return reread(t, Session{state: state{Clock: c}}).Clock
}

func TestClock_settlesTheTimes(t *testing.T) {
	const none = -1
	type at = []float64 // seconds
	type request struct {
		stamps         at
		sent, received float64
		want           at // in the order of the stamps
	}
	for name, requests := range map[string][]request{
		"a clock that is right":                                {{at{2, 1}, 3, 3, at{1, 2}}},
		"a clock ahead":                                        {{at{3602}, 3603, 3, at{2}}},
		"without sent_at the stamp counts":                     {{at{2}, none, 5, at{2}}},
		"without sent_at the session's clock is known":         {{at{3602}, 3603, 3, at{2}}, {at{3604}, none, 9, at{4}}},
		"a request that takes longer keeps its place":          {{at{1}, 2, 2, at{1}}, {at{3}, 4, 14, at{3}}},
		"a request that takes less time corrects what follows": {{at{1}, 2, 4, at{3}}, {at{9}, 10, 10, at{9}}},
		"but not what it would place before the other":         {{at{1}, 2, 4, at{3}}, {at{2}, 5, 5, at{3.01}}},
		"a redirect: the page is left after the next one was loaded": {
			{at{0}, 0, 0.3, at{0.3}}, {at{0.1}, 0.25, 0.3, at{0.3 + 0.1/512}}},
		"a redirect whose page view arrives first": {{at{0.1}, 0.1, 0.15, at{0.15}}, {at{0}, 0, 0.3, at{0.05}}},
		"the future is now":                        {{at{7}, none, 5, at{5}}},
		"the future is now, in order":              {{at{9, 7, 8}, none, 5, at{5 - 2./512, 5 - 1./512, 5}}},
		"what was clamped is not overtaken":        {{at{100}, none, 5, at{5}}, {at{50}, none, 60, at{4.99}}},
		"between two that were clamped": {
			{at{100}, none, 10, at{10}}, {at{200}, none, 20, at{20}}, {at{150}, none, 30, at{15}}},
		"what was clamped by more than any latency is not followed": {
			{at{100}, none, 5, at{5}}, {at{101}, none, 60, at{60}}},
		"a clock that is set forward": {{at{1}, 2, 2, at{1}}, {at{3603, 3604}, 3605, 5, at{3, 4}}},
		"a clock that is set back": {
			{at{3601}, 3602, 2, at{1}}, {at{3}, 4, 4, at{0.99}}, {at{3611}, 3612, 3612, at{3611}}},
		"a server whose clock is behind": {{at{1}, 2, 12, at{11}}, {at{3}, 4, 4, at{11 + 16e-6}}},
		"a recording that is replayed faster": {
			{at{0, 50}, 60, 100, at{40, 90}}, {at{61, 119}, 120, 101, at{90.01, 100}}, {at{90}, 120, 102, at{95.005}}},
		"the same stamp again":     {{at{1}, 1, 2, at{2}}, {at{1}, 1, 1.5, at{2}}},
		"as old as the retention":  {{at{0}, none, 3600, at{0}}},
		"older than the retention": {{at{0, 1}, none, 3601, at{1}}},
		"what is older changes nothing": {
			{at{1}, none, 4000, nil}, {at{4001}, 4002, 4002, at{4001}}, {at{3999}, 4002, 4002, at{3999}}},
	} {
		t.Run(name, func(t *testing.T) {
			var k clock
			for i, r := range requests {
				var events []activity.Event
				for _, stamp := range r.stamps {
					events = append(events, shown(stamp, r.sent, r.received))
				}
				settled, expired := k.settle(nil, events, time.Hour)
				require.Len(t, settled, len(r.want))
				require.Equal(t, len(events)-len(settled), expired)
				for n, e := range settled {
					require.WithinDuration(t, after(r.want[n]), e.Time, time.Microsecond/2, "request %d, event %d", i, n)
				}
				k = stored(t, k)
			}
		})
	}
}

// A session's events from the future are settled at the present, however many there are.
func TestClock_settlesTheFutureNow(t *testing.T) {
	var k clock
	events := make([]activity.Event, 9000)
	for i := range events {
		events[i] = shown(3600*float64(i+1), -1, 5)
	}
	settled, _ := k.settle(nil, events, time.Hour)
	require.Len(t, settled, len(events))
	require.WithinRange(t, settled[len(events)-1].Time, after(5), after(5.2))
}

// An event without a stamp of its session's clock is settled by the service's clock. Both kinds share one order.
func TestClock_settlesEventsOfTheServersTime(t *testing.T) {
	var k clock
	k.settle(nil, []activity.Event{shown(3600, 3601, 1)}, time.Hour)
	byServer := shown(2, -1, 3)
	byServer.ServerTime = true
	settled, _ := k.settle(nil, []activity.Event{byServer}, time.Hour)
	require.Equal(t, after(2), settled[0].Time)
	settled, _ = k.settle(nil, []activity.Event{shown(3601, 3605, 5)}, time.Hour)
	require.Equal(t, after(1), settled[0].Time, "its place is before")
}

func TestClock_withoutChangeNeedsTwoPoints(t *testing.T) {
	var k clock
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		at := random.Float64() * 1000
		k.settle(nil, []activity.Event{shown(at, at+1, 2000)}, time.Hour)
		k.settle(nil, []activity.Event{shown(at, 1999, 2000)}, time.Hour)
	}
	require.LessOrEqual(t, len(k.Points), maxPoints)
	k = clock{}
	for i := range 1000 {
		k.settle(nil, []activity.Event{shown(float64(i), float64(i), float64(i))}, time.Hour)
	}
	require.Len(t, k.Points, 2)
}

// A clock that changes with every event gives up its first points. Later events keep
// their order, and events from before the clock's first point count as expired.
func TestClock_isBounded(t *testing.T) {
	var k clock
	var last time.Time
	for i := range 1000 {
		settled, _ := k.settle(nil, []activity.Event{shown(float64(10*i), -1, float64(i))}, time.Hour) // every one is clamped
		require.True(t, settled[0].Time.After(last))
		last = settled[0].Time
		require.Len(t, k.Points, min(i+1, maxPoints))
		require.Equal(t, i >= maxPoints, k.Cut)
	}
	require.Less(t, len(encodeDocument(k)), 10<<10)
	k = stored(t, k)
	first := 1000 - maxPoints
	settled, _ := k.settle(nil, []activity.Event{shown(float64(10*first+5), -1, 1000)}, time.Hour)
	require.Equal(t, after(float64(first)+0.5), settled[0].Time)
	settled, expired := k.settle(nil, []activity.Event{shown(float64(10*first-5), -1, 1000)}, time.Hour)
	require.Empty(t, settled)
	require.Equal(t, 1, expired)
}

// A clock that is ahead by an unknown time needs a point only for a request with less latency than all before it.
func TestClock_aheadByAnUnknownTimeNeedsFewPoints(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var k clock
	for i := range 1000 {
		at := float64(i)
		settled, _ := k.settle(nil, []activity.Event{shown(at+60, -1, at+0.05+0.25*random.Float64())}, time.Hour)
		require.WithinDuration(t, after(at), settled[0].Time, 300*time.Millisecond)
	}
	require.Less(t, len(k.Points), 50)
}

// requireInOrder asserts that the times of events are in the order of their stamps, which are in Sent.
func requireInOrder(t *testing.T, events []activity.Event, seed uint64) {
	t.Helper()
	for i, a := range events {
		for _, b := range events[i+1:] {
			require.False(t, a.Sent.Before(b.Sent) && b.Time.Before(a.Time), "seed %d: %v and %v", seed, a, b)
			require.False(t, b.Sent.Before(a.Sent) && a.Time.Before(b.Time), "seed %d: %v and %v", seed, a, b)
		}
	}
}

// TestClock_neverInvertsDelayedEvents simulates requests that waited for a network and then
// arrived within some milliseconds, in any order. A late event finds room between the given times.
func TestClock_neverInvertsDelayedEvents(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 9))
		var requests [][]float64
		sent := 0.0
		for range 3 + random.IntN(7) {
			var stamps []float64
			for range 1 + random.IntN(3) {
				sent += 0.001 + 0.2*random.Float64()
				stamps = append(stamps, sent)
			}
			requests = append(requests, stamps)
		}
		random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		var k clock
		var all []activity.Event
		arrived := sent
		for _, stamps := range requests {
			arrived += 0.001 + 0.01*random.Float64()
			var request []activity.Event
			for _, stamp := range stamps {
				request = append(request, shown(stamp, stamps[len(stamps)-1], arrived))
			}
			settled, expired := k.settle(nil, request, time.Hour)
			require.Zero(t, expired)
			for i, e := range settled {
				all = append(all, activity.Event{Time: e.Time, Sent: after(stamps[i])})
			}
			k = stored(t, k)
		}
		requireInOrder(t, all, seed)
	}
}

// TestClock_neverInvertsAnyEvents makes up stamps, sent_at and arrivals that have nothing to do with each other.
func TestClock_neverInvertsAnyEvents(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 8))
		var k clock
		var all []activity.Event
		for range 7 {
			at := random.Float64() * 100
			e := activity.Event{Time: after(random.Float64() * 100), Received: after(at)}
			if random.IntN(2) == 0 {
				e.Sent = after(random.Float64() * 100)
			}
			settled, expired := k.settle(nil, []activity.Event{e}, time.Hour)
			require.Zero(t, expired)
			all = append(all, activity.Event{Time: settled[0].Time, Sent: e.Time})
		}
		requireInOrder(t, all, seed)
	}
}

// A stamp between two points gets neither the later one's time nor one before the earlier's: two events stay two.
func TestBetween_staysBetweenItsPoints(t *testing.T) {
	for name, c := range map[string]struct {
		a, b        point
		stamp, want int64
	}{
		"in the middle":            {point{0, 100}, point{10, 200}, 5, 150},
		"at the earlier point":     {point{0, 100}, point{10, 200}, 0, 100},
		"at the later point":       {point{0, 100}, point{10, 200}, 10, 199},
		"times too close for it":   {point{0, 100}, point{10, 101}, 9, 100},
		"times that are the same":  {point{0, 100}, point{10, 100}, 5, 100},
		"beyond what floats count": {point{0, 1<<60 + 1}, point{1 << 59, 1<<60 + 2}, 1<<59 - 1, 1<<60 + 1},
	} {
		if got := between(c.a, c.b, c.stamp); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

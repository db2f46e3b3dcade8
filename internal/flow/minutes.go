package flow

import (
	"maps"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity/tracing"
)

// Span is the number of minutes kept, including the current one.
const Span = 60

const minuteSeconds = 60

// Minute is a product's counts for one minute.
type Minute struct {
	Begin int64 `json:"minute"` // the epoch second at which it begins
	tracing.Flow
}

// minuteOf returns the epoch second at which a time's minute begins.
func minuteOf(t time.Time) int64 { return t.Truncate(time.Minute).Unix() }

// minutes maps the beginning of each minute with events to its counts. It has at most Span
// minutes.
type minutes map[int64]tracing.Flow

// add counts events at a time. Beyond Span minutes it drops the oldest; minutes older than the
// window may stay, but are not shown.
func (m minutes) add(now time.Time, f tracing.Flow) {
	begin := minuteOf(now)
	m[begin] = m[begin].Plus(f)
	if len(m) > Span {
		delete(m, slices.Min(slices.Collect(maps.Keys(m))))
	}
}

// window is the last Span minutes, oldest first, ending with the current one.
type window []Minute

// newWindow returns the window that ends with now's minute, without counts.
func newWindow(now time.Time) window {
	w := make(window, Span)
	first := minuteOf(now) - (Span-1)*minuteSeconds
	for i := range w {
		w[i].Begin = first + int64(i)*minuteSeconds
	}
	return w
}

// add adds the counts of the minutes within the window. Servers agree on the minutes, since
// they share a clock.
func (w window) add(m minutes) {
	for i := range w {
		w[i].Flow = w[i].Plus(m[w[i].Begin])
	}
}

// report is one server's counts and gauges of a product, and the document in which it shares
// them. Minutes is a copy.
type report struct {
	Minutes minutes `json:"minutes"`
	gauges
	Until int64 `json:"until_ms"` // when the gauges expire, in epoch milliseconds
}

// gauges are current values. Desks is never modified after creation, so copies may share
// it.
type gauges struct {
	Readers int `json:"readers,omitempty"`
	Backlog
}

// plus returns the combined gauges of two servers: the sums, but the longer lag. It changes
// neither.
func (g gauges) plus(h gauges) gauges {
	sum := gauges{g.Readers + h.Readers, Backlog{max(g.Lag, h.Lag), maps.Clone(g.Desks)}}
	for name, desk := range h.Desks {
		if sum.Desks == nil {
			sum.Desks = map[string]Desk{}
		}
		sum.Desks[name] = Desk{sum.Desks[name].Parked + desk.Parked, sum.Desks[name].Retrying + desk.Retrying}
	}
	return sum
}

func (g gauges) equal(h gauges) bool {
	return g.Readers == h.Readers && g.Lag == h.Lag && maps.Equal(g.Desks, h.Desks)
}

func (g gauges) areZero() bool { return g.equal(gauges{}) }

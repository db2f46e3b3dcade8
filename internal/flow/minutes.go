package flow

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// Span is how many minutes are kept, the current one included.
const Span = 60

const minuteSeconds = 60

// Minute is the figures of a product for one minute.
type Minute struct {
	Begin int64 `json:"minute"` // the epoch second that it begins at
	activity.Flow
}

// minuteOf returns the epoch second at which the minute of a time begins.
func minuteOf(t time.Time) int64 { return t.Truncate(time.Minute).Unix() }

// minutes are the counts of the minutes in which something happened, by their beginning, at
// most Span of them.
type minutes map[int64]activity.Flow

// add counts events at a time. Beyond Span minutes the oldest goes; older ones than the window
// may stay, and are not shown.
func (m minutes) add(now time.Time, f activity.Flow) {
	begin := minuteOf(now)
	m[begin] = m[begin].Plus(f)
	if len(m) > Span {
		delete(m, slices.Min(slices.Collect(maps.Keys(m))))
	}
}

// window is the last Span minutes, the oldest first and the current one last.
type window []Minute

// newWindow returns the window that ends with the minute of now, without counts.
func newWindow(now time.Time) window {
	w := make(window, Span)
	first := minuteOf(now) - (Span-1)*minuteSeconds
	for i := range w {
		w[i].Begin = first + int64(i)*minuteSeconds
	}
	return w
}

// add adds the minutes that are in the window. Servers agree on the minutes, since they share a
// clock.
func (w window) add(m minutes) {
	for i := range w {
		w[i].Flow = w[i].Plus(m[w[i].Begin])
	}
}

// report is the figures of a product on one server, as they are stored. minutes are a copy.
type report struct {
	minutes
	gauges
	until int64 // when the gauges are no longer true, in epoch milliseconds
}

// gauges are figures of now. Desks is only read once it is here, so copies may share it.
type gauges struct {
	readers int
	Backlog
}

// plus returns the gauges of two servers: the sums, but the longer lag. It changes neither.
func (g gauges) plus(h gauges) gauges {
	sum := gauges{g.readers + h.readers, Backlog{max(g.Lag, h.Lag), maps.Clone(g.Desks)}}
	for name, desk := range h.Desks {
		if sum.Desks == nil {
			sum.Desks = map[string]Desk{}
		}
		sum.Desks[name] = Desk{sum.Desks[name].Parked + desk.Parked, sum.Desks[name].Retrying + desk.Retrying}
	}
	return sum
}

func (g gauges) equal(h gauges) bool {
	return g.readers == h.readers && g.Lag == h.Lag && maps.Equal(g.Desks, h.Desks)
}

func (g gauges) areZero() bool { return g.equal(gauges{}) }

// stored is the JSON of a report. A minute is its beginning and its counts in the order of
// activity.Flow. Servers of different versions read each other's, so the order is fixed and new
// counts come at the end.
type stored struct {
	Minutes [][8]int64      `json:"minutes"`
	Readers int             `json:"readers,omitempty"`
	LagMS   int64           `json:"lag_ms,omitempty"`
	Desks   map[string]Desk `json:"desks,omitempty"`
	UntilMS int64           `json:"until_ms,omitempty"`
}

func (r report) encode() ([]byte, error) {
	s := stored{
		Minutes: make([][8]int64, 0, len(r.minutes)), Readers: r.readers,
		LagMS: r.Lag.Milliseconds(), Desks: r.Desks, UntilMS: r.until,
	}
	for _, begin := range slices.Sorted(maps.Keys(r.minutes)) {
		f := r.minutes[begin]
		s.Minutes = append(s.Minutes, [8]int64{begin, int64(f.Accepted), int64(f.Ignored), int64(f.Duplicate),
			int64(f.Actions), int64(f.Summaries), int64(f.Notes), int64(f.Offers)})
	}
	return json.Marshal(s)
}

func decodeReport(data []byte) (report, error) {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return report{}, err
	}
	r := report{minutes: minutes{}, until: s.UntilMS,
		gauges: gauges{s.Readers, Backlog{time.Duration(s.LagMS) * time.Millisecond, s.Desks}}}
	for _, m := range s.Minutes {
		r.minutes[m[0]] = activity.Flow{Accepted: int(m[1]), Ignored: int(m[2]), Duplicate: int(m[3]),
			Actions: int(m[4]), Summaries: int(m[5]), Notes: int(m[6]), Offers: int(m[7])}
	}
	return r, nil
}

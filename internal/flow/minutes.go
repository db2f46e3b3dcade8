package flow

import (
	"cmp"
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
func minuteOf(t time.Time) int64 {
	seconds := t.Unix()
	return seconds - (seconds%minuteSeconds+minuteSeconds)%minuteSeconds
}

// minutes are the minutes in which something happened, the oldest first.
type minutes []Minute

// add counts events at a time. Beyond Span minutes the oldest goes.
func (m minutes) add(now time.Time, f activity.Flow) minutes {
	begin := minuteOf(now)
	at := len(m) - 1
	if at < 0 || m[at].Begin != begin {
		var found bool
		at, found = slices.BinarySearchFunc(m, begin, func(m Minute, begin int64) int {
			return cmp.Compare(m.Begin, begin)
		})
		if !found {
			m = slices.Insert(m, at, Minute{Begin: begin})
		}
	}
	m[at].Flow = m[at].Plus(f)
	if len(m) > Span {
		m = slices.Delete(m, 0, len(m)-Span)
	}
	return m
}

// window is the last Span minutes, the oldest first and the current one last.
type window []Minute

func newWindow(now time.Time) window {
	w := make(window, Span)
	first := minuteOf(now) - (Span-1)*minuteSeconds
	for i := range w {
		w[i].Begin = first + int64(i)*minuteSeconds
	}
	return w
}

// add adds the minutes that are in the window.
func (w window) add(m minutes) {
	for _, minute := range m {
		if i := (minute.Begin - w[0].Begin) / minuteSeconds; minute.Begin >= w[0].Begin && i < Span {
			w[i].Flow = w[i].Plus(minute.Flow)
		}
	}
}

// report is the figures of a product on one server, as they are stored.
type report struct {
	minutes
	gauges
	until int64 // when the gauges are no longer true, in epoch milliseconds
}

// gauges are figures of now.
type gauges struct {
	readers int
	Backlog
}

// plus returns the gauges of two servers.
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

// stored is the JSON of a report. A minute is its beginning and its counts in the
// order of activity.Flow.
type stored struct {
	Minutes [][8]int64      `json:"minutes"`
	Readers int             `json:"readers,omitempty"`
	LagMS   int64           `json:"lag_ms,omitempty"`
	Desks   map[string]Desk `json:"desks,omitempty"`
	UntilMS int64           `json:"until_ms,omitempty"`
}

func (r report) encode() ([]byte, error) {
	s := stored{
		Minutes: make([][8]int64, len(r.minutes)), Readers: r.readers,
		LagMS: r.Lag.Milliseconds(), Desks: r.Desks, UntilMS: r.until,
	}
	for i, m := range r.minutes {
		s.Minutes[i] = [8]int64{m.Begin, int64(m.Accepted), int64(m.Ignored), int64(m.Duplicate),
			int64(m.Actions), int64(m.Summaries), int64(m.Notes), int64(m.Offers)}
	}
	return json.Marshal(s)
}

func decodeReport(data []byte) (report, error) {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return report{}, err
	}
	r := report{minutes: make(minutes, len(s.Minutes)), until: s.UntilMS,
		gauges: gauges{s.Readers, Backlog{time.Duration(s.LagMS) * time.Millisecond, s.Desks}}}
	for i, m := range s.Minutes {
		r.minutes[i] = Minute{m[0], activity.Flow{Accepted: int(m[1]), Ignored: int(m[2]), Duplicate: int(m[3]),
			Actions: int(m[4]), Summaries: int(m[5]), Notes: int(m[6]), Offers: int(m[7])}}
	}
	return r, nil
}

package memlimit

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Kept returns how many bytes the process may keep for others in all: two fifths
// of [Bytes]. With the garbage that [BoundGarbage] allows beside it, that is half.
func Kept() int64 { return kept(Bytes()) }

func kept(limit int64) int64 { return limit / 5 * 2 }

// BoundGarbage bounds, from now on, what garbage takes: as much as what is live,
// the runtime's default. While little is live there may be 32 MiB, up to four
// times what is live, so that a large request is not collected from many times;
// above 256 MiB, or a tenth of [Bytes] where that is less, there may be a quarter
// of what is live. It leaves alone what GOGC and GOMEMLIMIT say.
func BoundGarbage() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(Bytes() / 4 * 3) // for what grows within one collection
	}
	if os.Getenv("GOGC") == "" {
		(&governor{headroom: headroom(Bytes()), percent: defaultPercent}).follow()
	}
}

func headroom(limit int64) int64 { return min(256<<20, limit/10) }

const (
	defaultPercent = 100
	leastPercent   = 25
	mostPercent    = 400
	leastGarbage   = 32 << 20
)

// governor sets the runtime's garbage collection target after each collection.
type governor struct {
	headroom int64
	percent  int // that is set
}

// follow adjusts the target now and after each collection: the sentinel is
// garbage at once, so that the next collection finds it.
func (g *governor) follow() {
	g.adjust()
	sentinel := new(struct{ _ [2]*governor })
	runtime.AddCleanup(sentinel, (*governor).follow, g)
}

func (g *governor) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if p := percent(int64(live[0].Value.Uint64()), g.headroom); p != g.percent {
		g.percent = p
		debug.SetGCPercent(p)
	}
}

// percent returns how much garbage there may be beside what is live, in hundredths of it.
func percent(live, headroom int64) int {
	least := min(leastGarbage, headroom)
	switch {
	case live < least:
		return int(min(least*defaultPercent/max(live, 1), mostPercent))
	case live <= headroom:
		return defaultPercent
	}
	return max(int(headroom*100/live), leastPercent)
}

package memlimit

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Kept returns how many bytes the process may keep for others in all: two fifths
// of [Bytes]. With the garbage that [BoundGarbage] allows beside it, that is half.
func Kept() int64 { return kept(Bytes()) }

func kept(limit int64) int64 { return limit / 5 * 2 }

// BoundGarbage bounds, from now on, what garbage takes: as much as what is live,
// the runtime's default. While little is live there may be 32 MiB, up to four
// times what is live, so that a request of many events is not collected from many
// times; above 256 MiB, or a tenth of [Bytes] where that is less, there may be a
// quarter of what is live. It leaves alone what GOGC and GOMEMLIMIT say.
func BoundGarbage() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(Bytes() / 4 * 3) // for what grows within one collection
	}
	if os.Getenv("GOGC") == "" {
		process.start(headroom(Bytes()))
	}
}

// Spare lets there be less garbage until it is released: 8 MiB or a quarter of
// what is live. It is for large requests, which by themselves take much memory,
// and does nothing unless [BoundGarbage] was called. Release may be called again.
func Spare() (release func()) { return process.spare() }

func headroom(limit int64) int64 { return min(256<<20, limit/10) }

const (
	defaultPercent = 100
	leastPercent   = 25
	mostPercent    = 400
	leastGarbage   = 32 << 20
	sparedGarbage  = 8 << 20
)

// process is the governor of this process.
var process governor

// governor sets the runtime's garbage collection target after each collection, and
// when it is to spare memory.
type governor struct {
	mu       sync.Mutex
	headroom int64 // zero before it starts
	sparing  int   // how often it is to
	percent  int   // that is set
}

func (g *governor) start(headroom int64) {
	g.mu.Lock()
	g.headroom, g.percent = headroom, defaultPercent
	g.mu.Unlock()
	g.follow()
}

// follow adjusts the target now and after each collection: the sentinel is
// garbage at once, so that the next collection finds it.
func (g *governor) follow() {
	g.adjust()
	sentinel := new(struct{ _ [2]*governor })
	runtime.AddCleanup(sentinel, (*governor).follow, g)
}

func (g *governor) spare() (release func()) {
	g.addSparing(1)
	return sync.OnceFunc(func() { g.addSparing(-1) })
}

func (g *governor) addSparing(n int) {
	g.mu.Lock()
	g.sparing += n
	g.mu.Unlock()
	g.adjust()
}

func (g *governor) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.headroom == 0 {
		return
	}
	if p := percent(int64(live[0].Value.Uint64()), g.headroom, g.sparing > 0); p != g.percent {
		g.percent = p
		debug.SetGCPercent(p)
	}
}

// percent returns how much garbage there may be beside what is live, in hundredths of it.
func percent(live, headroom int64, sparing bool) int {
	least, most := min(leastGarbage, headroom), headroom
	if sparing {
		least, most = min(sparedGarbage, headroom), 0
	}
	switch {
	case live < least:
		return int(min(least*defaultPercent/max(live, 1), mostPercent))
	case live <= most:
		return defaultPercent
	}
	return max(int(max(least, most)*100/live), leastPercent)
}

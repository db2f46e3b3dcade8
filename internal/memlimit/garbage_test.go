package memlimit

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestPercent_isWhatTheHeadroomIsOfWhatIsLive(t *testing.T) {
	const mebibyte = 1 << 20
	for _, c := range []struct {
		live, headroom int64
		want, sparing  int
	}{
		{0, 100, 400, 400}, {25, 100, 400, 400}, {26, 100, 384, 384}, {99, 100, 101, 101}, {100, 100, 100, 100},
		{101, 100, 99, 99}, {200, 100, 50, 50}, {400, 100, 25, 25}, {401, 100, 25, 25}, {1 << 50, 100, 25, 25},
		{1 * mebibyte, 256 * mebibyte, 400, 400}, {4 * mebibyte, 256 * mebibyte, 400, 200}, {8 * mebibyte, 256 * mebibyte, 400, 100},
		{16 * mebibyte, 256 * mebibyte, 200, 50}, {32 * mebibyte, 256 * mebibyte, 100, 25}, {256 * mebibyte, 256 * mebibyte, 100, 25},
		{512 * mebibyte, 256 * mebibyte, 50, 25},
	} {
		assert.Equal(t, c.want, percent(c.live, c.headroom, false), "%+v", c)
		assert.Equal(t, c.sparing, percent(c.live, c.headroom, true), "%+v", c)
	}
}

func TestKept_leavesHalfWithItsGarbage(t *testing.T) {
	for limit := int64(64 << 20); limit < 1<<50; limit *= 3 {
		kept := kept(limit)
		assert.LessOrEqual(t, kept+kept*int64(percent(kept, headroom(limit), false))/100, limit/2, limit)
	}
}

// collectedUntil collects garbage until there is as much room for it as wanted, in
// parts of what is live.
func collectedUntil(t *testing.T, promise string, ok func(garbage float64) bool) {
	t.Helper()
	waittest.Until(t, promise, func() bool {
		runtime.GC()
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}}
		metrics.Read(sample)
		live := float64(sample[0].Value.Uint64())
		return ok((float64(sample[1].Value.Uint64()) - live) / live)
	})
}

// The target follows what is live, up and down, and sinks while one of several asks
// for it. (There is one test, as there is one collector to a process.)
func TestGovernor_boundsGarbage(t *testing.T) {
	const mebibyte = 1 << 20
	t.Cleanup(func() { debug.SetGCPercent(defaultPercent) })
	g := new(governor)
	before := g.spare()
	assert.Zero(t, g.percent, "it has not started")
	g.start(8 * mebibyte)
	before()
	before()
	kept := make([]byte, 64*mebibyte)
	collectedUntil(t, "the target sinks with a large heap", func(garbage float64) bool { return garbage < 0.3 })
	runtime.KeepAlive(kept)
	collectedUntil(t, "the target rises with a small one", func(garbage float64) bool { return garbage > 0.9 })

	g.mu.Lock()
	g.headroom = 256 * mebibyte
	g.mu.Unlock()
	kept = make([]byte, 64*mebibyte)
	settled := func(garbage float64) bool { return 0.9 < garbage && garbage < 1.1 }
	collectedUntil(t, "the target is that of a heap of medium size", settled)
	first, second := g.spare(), g.spare()
	g.mu.Lock()
	assert.Equal(t, leastPercent, g.percent, "at once")
	g.mu.Unlock()
	first()
	first()
	collectedUntil(t, "the target sinks while memory is to be spared", func(garbage float64) bool { return garbage < 0.3 })
	second()
	collectedUntil(t, "the target is what it was", settled)
	runtime.KeepAlive(kept)
}

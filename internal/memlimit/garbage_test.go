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
	for _, c := range []struct {
		live, headroom int64
		want           int
	}{{0, 100, 400}, {25, 100, 400}, {26, 100, 384}, {99, 100, 101}, {100, 100, 100}, {101, 100, 99}, {200, 100, 50}, {400, 100, 25}, {401, 100, 25}, {1 << 50, 100, 25},
		{8 << 20, 256 << 20, 400}, {16 << 20, 256 << 20, 200}, {32 << 20, 256 << 20, 100}, {256 << 20, 256 << 20, 100}, {512 << 20, 256 << 20, 50}} {
		assert.Equal(t, c.want, percent(c.live, c.headroom), "%+v", c)
	}
}

func TestKept_leavesHalfWithItsGarbage(t *testing.T) {
	for limit := int64(64 << 20); limit < 1<<50; limit *= 3 {
		kept := kept(limit)
		assert.LessOrEqual(t, kept+kept*int64(percent(kept, headroom(limit)))/100, limit/2, limit)
	}
}

// The target follows what is live, up and down.
func TestGovernor_boundsGarbage(t *testing.T) {
	const mebibyte = 1 << 20
	t.Cleanup(func() { debug.SetGCPercent(defaultPercent) })
	(&governor{headroom: 8 * mebibyte, percent: defaultPercent}).follow()
	garbage := func() float64 {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}}
		metrics.Read(sample)
		live := float64(sample[0].Value.Uint64())
		return (float64(sample[1].Value.Uint64()) - live) / live
	}
	collectedUntil := func(ok func() bool) {
		t.Helper()
		waittest.Until(t, "the target follows", func() bool {
			runtime.GC()
			return ok()
		})
	}
	kept := make([]byte, 64*mebibyte)
	collectedUntil(func() bool { return garbage() < 0.3 })
	runtime.KeepAlive(kept)
	collectedUntil(func() bool { return garbage() > 0.9 })
}

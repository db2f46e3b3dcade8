// Package leaktest counts goroutines for tests that leave none behind.
package leaktest

import (
	"runtime"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

// Goroutines returns how many goroutines there are once their number has
// settled.
func Goroutines(t testing.TB) int {
	t.Helper()
	last, since := runtime.NumGoroutine(), time.Now()
	waittest.Until(t, "the number of goroutines is constant", func() bool {
		if now := runtime.NumGoroutine(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= 20*time.Millisecond
	})
	return last
}

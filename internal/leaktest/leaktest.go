// Package leaktest counts goroutines for tests that leave none behind.
package leaktest

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goroutines returns how many goroutines there are once their number has
// settled.
func Goroutines(t testing.TB) int {
	t.Helper()
	last, calm := runtime.NumGoroutine(), 0
	require.Eventually(t, func() bool {
		now := runtime.NumGoroutine()
		if calm++; now != last {
			last, calm = now, 0
		}
		return calm == 20
	}, 20*time.Second, time.Millisecond)
	return last
}

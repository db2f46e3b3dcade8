// Package leaktest finds goroutines that tests leave behind.
package leaktest

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

// Goroutines returns the number of goroutines once it has settled.
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

// NoneOf waits until no goroutine has one of these functions in its stack. Each is given
// by a part of its name that includes its package, such as "net/http.(*conn)". It
// ignores the tests' own goroutines.
func NoneOf(t testing.TB, functions ...string) {
	t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Log(strings.Join(left, "\n\n"))
		}
	}()
	waittest.Until(t, "nothing is left of "+strings.Join(functions, ", "), func() bool {
		all := make([]byte, 1<<20)
		left = slices.DeleteFunc(strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n"), func(stack string) bool {
			isOne := func(function string) bool { return strings.Contains(stack, function) }
			return strings.Contains(stack, "testing.tRunner") || !slices.ContainsFunc(functions, isOne)
		})
		return len(left) == 0
	})
}

// Package waittest waits for what a test expects, and fails the test when that
// does not come.
package waittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long Receive and Until wait. It is longer than the machine can be
// busy with something else.
const patience = 30 * time.Second

// Receive returns the next value of a channel.
func Receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

// Within fails the test if do has not returned after that time.
func Within(t testing.TB, limit time.Duration, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s has not returned after %s", what, limit)
	}
}

// Until waits until a condition holds. The condition runs on the caller's goroutine,
// so it may end the test.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	pause, longest := time.Millisecond, 20*time.Millisecond
	for began := time.Now(); !condition(); time.Sleep(pause) {
		require.Less(t, time.Since(began), patience, what)
		pause = min(2*pause, longest)
	}
}

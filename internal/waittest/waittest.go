// Package waittest waits for the events that a test expects, and fails the test if they do not
// happen.
package waittest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Patience is how long a test waits for an expected event. It is longer than the machine can be
// busy with something else. A test of a conformance suite that must fail shortens it first.
var Patience = 30 * time.Second

// Receive returns the next value of a channel.
func Receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

// Fired reports whether a channel is closed.
func Fired(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Run calls run in the background until stop is called, or the test ends. It then ends run's context,
// and stop, however often it is called, returns run's error.
func Run(t testing.TB, run func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// Within fails the test if do has not returned within Patience.
func Within(t testing.TB, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(Patience):
		t.Fatalf("%s has not returned after %s", what, Patience)
	}
}

// Until waits until a condition holds. The condition runs on the caller's goroutine,
// so it may end the test.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !holds(condition) {
		t.Fatalf("within %s it was never so: %s", Patience, what)
	}
}

// Equal waits until get returns the wanted value. Like the condition of Until, get may end the
// test.
func Equal[T any](t testing.TB, want T, get func() T) {
	t.Helper()
	var got T
	if !holds(func() bool { got = get(); return assert.ObjectsAreEqual(want, got) }) {
		require.Equal(t, want, got, "after %s", Patience)
	}
}

// Together calls do concurrently with each number below n, and returns once all calls have
// returned. A call must not end the test.
func Together(n int, do func(i int)) {
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { do(i) })
	}
	running.Wait()
}

// holds reports whether a condition becomes true within Patience.
func holds(condition func() bool) bool {
	pause, longest := time.Millisecond, 20*time.Millisecond
	for began := time.Now(); !condition(); time.Sleep(pause) {
		if time.Since(began) > Patience {
			return false
		}
		pause = min(2*pause, longest)
	}
	return true
}

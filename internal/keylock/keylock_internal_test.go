package keylock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

// inLine starts callers that ask for a key one after another, hold it for a second each and then
// note their number. cancels ends each caller's context.
func inLine(t *testing.T, l *Locks,
	callers int) (served *[]int, cancels []context.CancelFunc, all *sync.WaitGroup) {
	served, all = &[]int{}, &sync.WaitGroup{}
	for n := range callers {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		cancels = append(cancels, cancel)
		all.Go(func() {
			if l.Lock(ctx, "k") != nil {
				return
			}
			defer l.Unlock("k")
			time.Sleep(time.Second)
			*served = append(*served, n) // guarded by the lock
		})
		synctest.Wait()
	}
	return served, cancels, all
}

func TestLocks_serveCallersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks
		began := time.Now()
		served, _, all := inLine(t, &l, 5)
		require.NoError(t, l.Lock(t.Context(), "another"), "which nobody holds")
		l.Unlock("another")
		require.Zero(t, time.Since(began))
		all.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, *served)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.Empty(t, l.held)
	})
}

func TestLocks_skipCallersThatHaveStoppedWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks
		served, cancels, all := inLine(t, &l, 5)
		for _, n := range []int{1, 2, 4} {
			cancels[n]()
		}
		all.Wait()
		require.Equal(t, []int{0, 3}, *served)
		require.Empty(t, l.held)
	})
}

// A caller whose time is over does not begin its work.
func TestLocks_failWhereTheContextEndsAsTheKeyIsHandedOver(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var l Locks
			require.NoError(t, l.Lock(t.Context(), "k"))
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			go func() { failed <- l.Lock(ctx, "k") }()
			synctest.Wait()
			cancel()
			l.Unlock("k")
			require.ErrorIs(t, <-failed, context.Canceled)
			require.Empty(t, l.held)
		})
	}
}

func TestLocks_areTakenTogetherOrNotAtAll(t *testing.T) {
	var l Locks
	require.NoError(t, l.Lock(t.Context(), "b"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Lock(ctx, "c", "b", "a"), context.Canceled)
	l.Unlock("b")
	require.Empty(t, l.held)
}

// A caller that gives up while the key is handed over passes it on.
func TestLocks_loseNoKeyToCallersThatGiveUp(t *testing.T) {
	var l Locks
	var holders [3]int // guarded by the locks
	waittest.Together(8, func(int) {
		for range 2000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(50))*time.Microsecond)
			two := rand.Perm(len(holders))[:2]
			keys := []string{fmt.Sprint(two[0]), fmt.Sprint(two[1])}
			if l.Lock(ctx, keys...) == nil {
				for _, key := range two {
					holders[key]++
					assert.Equal(t, 1, holders[key])
					holders[key]--
				}
				l.Unlock(keys...)
			}
			cancel()
		}
	})
	require.Empty(t, l.held)
}

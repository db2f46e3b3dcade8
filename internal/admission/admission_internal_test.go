package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

func acquire(t *testing.T, p *Pool, key string, n int64) func() {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Patience)
	defer cancel()
	release, err := p.Acquire(ctx, time.Now().Add(time.Hour), key, n, 1)
	require.NoError(t, err)
	return release
}

// refused asserts that no room becomes free within a second.
func refused(t *testing.T, p *Pool, key string, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := p.Acquire(ctx, time.Now().Add(time.Hour), key, n, 1)
	require.ErrorIs(t, err, ErrBusy)
}

func TestPool_boundsEachKeyAndAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(100, 40, 1000)
		a := acquire(t, p, "a", 30)
		refused(t, p, "a", 11)
		b := acquire(t, p, "b", 40)
		acquire(t, p, "a", 10)()
		c := acquire(t, p, "c", 30)
		refused(t, p, "d", 1)
		c()
		a()
		acquire(t, p, "d", 1000)() // is served as much as a share
		b()
		acquire(t, p, "a", 40)()
	})
}

// Many keys with many waiters each do not hold up another key.
func TestPool_servesAKeyAfterOneOfEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(10, 5, 1000)
		held := []func(){acquire(t, p, "a", 5), acquire(t, p, "b", 5)}
		var before, running atomic.Int64
		ask := func(key string, done func()) {
			release, err := p.Acquire(t.Context(), time.Now().Add(time.Hour), key, 1, 1)
			assert.NoError(t, err)
			done()
			assert.LessOrEqual(t, running.Add(1), int64(10))
			time.Sleep(time.Second)
			running.Add(-1)
			release()
		}
		for key := range 8 {
			for range 20 {
				go ask(fmt.Sprint("flood ", key), func() { before.Add(1) })
			}
		}
		synctest.Wait()
		served := make(chan int64, 1)
		go ask("shop", func() { served <- before.Load() })
		synctest.Wait()
		for _, release := range held {
			release()
		}
		assert.LessOrEqual(t, <-served, int64(2*8))
		time.Sleep(time.Hour)
		assert.EqualValues(t, 8*20, before.Load())
	})
}

// A large request is not overtaken forever by small ones.
func TestPool_starvesNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(10, 10, 1000)
		for i := range 2 {
			go func() { // there is always one of them
				for range 100 {
					release, err := p.Acquire(t.Context(), time.Now().Add(time.Hour), fmt.Sprint(i), 5, 1)
					assert.NoError(t, err)
					time.Sleep(time.Millisecond)
					release()
				}
			}()
			time.Sleep(500 * time.Microsecond)
		}
		began := time.Now()
		acquire(t, p, "large", 10)()
		require.Less(t, time.Since(began), 10*time.Millisecond)
		time.Sleep(time.Second)
	})
}

func TestPool_boundsItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(10, 5, 100)
		for range 2 {
			release := acquire(t, p, "a", 5)
			var served atomic.Int64
			for range 5 {
				go func() {
					release, err := p.Acquire(t.Context(), time.Now().Add(time.Hour), "a", 1, 20)
					assert.NoError(t, err)
					served.Add(1)
					release()
				}()
			}
			synctest.Wait()
			began := time.Now()
			_, err := p.Acquire(t.Context(), time.Now().Add(time.Hour), "a", 1, 1)
			require.ErrorIs(t, err, ErrBusy)
			require.Equal(t, began, time.Now(), "at once")
			acquire(t, p, "b", 5)()
			release()
			synctest.Wait()
			require.EqualValues(t, 5, served.Load())
		}
	})
}

// A caller that has given up holds nothing of its key's share or of the whole. A caller that waits
// alone may hold any amount elsewhere.
func TestPool_holdsNothingForACallerThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(10, 5, 100)
		acquire(t, p, "a", 1)
		acquire(t, p, "b", 5)
		release := acquire(t, p, "c", 4)
		began := time.Now()
		_, err := p.Acquire(t.Context(), began.Add(time.Minute), "a", 4, 1000)
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))
		release()
		acquire(t, p, "a", 4)()
		acquire(t, p, "d", 4)
	})
}

// Under concurrent use the bounds hold and nothing is lost.
func TestPool_keepsItsBoundsUnderLoad(t *testing.T) {
	p := NewPool(100, 30, 1<<30)
	var held [4]atomic.Int64
	var all atomic.Int64
	waittest.Together(64, func(i int) {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		for range 100 {
			key, n := rng.IntN(len(held)), 1+rng.Int64N(30)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(2000))*time.Microsecond)
			release, err := p.Acquire(ctx, time.Now().Add(time.Hour), fmt.Sprint(key), n, 1)
			cancel()
			if err != nil {
				continue
			}
			assert.LessOrEqual(t, held[key].Add(n), int64(30))
			assert.LessOrEqual(t, all.Add(n), int64(100))
			held[key].Add(-n)
			all.Add(-n)
			release()
		}
	})
	for key := range held {
		defer acquire(t, p, fmt.Sprint(key), 25)()
	}
}

func TestArrivals_letTheSlowestGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 160
		all := NewArrivals(limit)
		var gaveWay []string
		var mu sync.Mutex
		begin := func(name string, bytes int64) *Arrival {
			b := all.Begin(func() {
				mu.Lock()
				defer mu.Unlock()
				gaveWay = append(gaveWay, name)
			})
			require.NoError(t, b.Grow(bytes), name)
			return b
		}
		complete := begin("complete", 40)
		complete.Arrived()
		slow := begin("slow", 10)
		steady := begin("steady", 60)
		time.Sleep(time.Minute)
		fast := begin("fast", 50)
		require.NoError(t, fast.Grow(10))
		synctest.Wait()
		assert.ElementsMatch(t, []string{"slow", "steady"}, gaveWay)
		assert.True(t, slow.GaveWay())
		require.ErrorIs(t, slow.Grow(1), ErrBusy)
		assert.False(t, fast.GaveWay())
		require.NoError(t, fast.Grow(60))
		require.ErrorIs(t, begin("nothing", 0).Grow(1000), ErrBusy)
		for _, b := range []*Arrival{complete, slow, steady, fast, fast} {
			b.Release()
		}
		begin("whole", limit)
	})
}

func TestPool_forgetsAKeyWithoutCallers(t *testing.T) {
	p := NewPool(10, 5, 100)
	release, err := p.Acquire(t.Context(), time.Now(), "a", 5, 1)
	require.NoError(t, err)
	_, err = p.Acquire(t.Context(), time.Now(), "a", 1, 1)
	require.ErrorIs(t, err, ErrBusy)
	assert.Len(t, p.keys, 1)
	release()
	assert.Empty(t, p.keys)
}

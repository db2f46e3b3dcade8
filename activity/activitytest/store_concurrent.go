package activitytest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

const (
	writers         = 8
	actionsOfWriter = 25
)

func testConcurrency(t *testing.T, open openFunc) {
	t.Run("one user", func(t *testing.T) { testConcurrentWriters(t, open, func(int) string { return "ada" }) })
	t.Run("many users", func(t *testing.T) {
		testConcurrentWriters(t, open, func(writer int) string { return fmt.Sprint("user", writer) })
	})
	t.Run("same action from all writers", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		b := NewBatch(product, "s", "ada", f.click(1))
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() { assert.NoError(t, f.store.Add(t.Context(), b)) })
		}
		wg.Wait()
		require.Equal(t, "1-1", f.spans(product, "ada"))
	})
}

// testConcurrentWriters runs writers that add interleaved actions of one
// session while readers check that they only see possible states.
func testConcurrentWriters(t *testing.T, open openFunc, user func(writer int) string) {
	const kept = 20
	f := newFixture(t, open, Options{TTL: ttl, MaxEvents: kept})
	var wg sync.WaitGroup
	newest := map[string][]float64{}
	for w := range writers {
		var seconds []float64
		for i := range actionsOfWriter {
			seconds = append(seconds, float64(i*writers+w))
		}
		newest[user(w)] = append(newest[user(w)], seconds...)
		wg.Go(func() { f.addBackwards(user(w), seconds) })
		wg.Go(func() { f.readWhileWriting(user(w), kept) })
	}
	wg.Wait()
	for name, seconds := range newest {
		slices.Sort(seconds)
		f.requireNewest(name, seconds[len(seconds)-kept:])
	}
}

// addBackwards adds an action for each second in batches of one, newest first.
func (f fixture) addBackwards(user string, seconds []float64) {
	for _, second := range slices.Backward(seconds) {
		assert.NoError(f, f.store.Add(f.Context(), NewBatch(product, "s", user, f.click(second))))
	}
}

func (f fixture) readWhileWriting(user string, kept int) {
	for range actionsOfWriter {
		recent, err := f.store.Recent(f.Context(), product, user, maxEvents)
		if !assert.NoError(f, err) || !assert.LessOrEqual(f, len(recent), kept) {
			return
		}
		sorted := slices.IsSortedFunc(recent, func(a, b activity.Record) int { return int(a.Start - b.Start) })
		assert.True(f, sorted, "out of order: %s", spans(recent, f.base))
		for _, r := range recent {
			assert.GreaterOrEqual(f, r.End, r.Start)
		}
		_, err = recent.Actions()
		assert.NoError(f, err)
	}
}

func (f fixture) requireNewest(user string, seconds []float64) {
	f.Helper()
	recent := f.recent(product, user, maxEvents)
	got := make([]float64, len(recent))
	for i, r := range recent {
		got[i] = secondsAfter(f.base, r.Start)
	}
	require.Equal(f, seconds, got)
}

package activitytest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const (
	writers         = 8
	actionsOfWriter = 25
	kept            = 20 // of a user, fewer than written
)

var concurrencyTests = []test{
	{name: "one user", max: kept, run: func(f fixture) {
		testConcurrentWriters(f, func(int) string { return "ada" })
	}},
	{name: "many users", max: kept, run: func(f fixture) {
		testConcurrentWriters(f, func(writer int) string { return fmt.Sprint("user", writer) })
	}},
	{name: "same action from all writers", run: func(f fixture) {
		b := NewBatch(product, "s", "ada", f.click(1))
		waittest.Together(writers, func(int) { assert.NoError(f, f.store.Add(f.Context(), b)) })
		require.Equal(f, "1-1", f.spans(product, "ada"))
	}},
}

// testConcurrentWriters runs writers that add interleaved actions of one
// session while readers check that they only see possible states.
func testConcurrentWriters(f fixture, user func(writer int) string) {
	var wg sync.WaitGroup
	newest := map[string][]float64{}
	for w := range writers {
		var seconds []float64
		for i := range actionsOfWriter {
			seconds = append(seconds, float64(i*writers+w))
		}
		newest[user(w)] = append(newest[user(w)], seconds...)
		wg.Go(func() { f.addBackwards(user(w), seconds) })
		wg.Go(func() { f.readWhileWriting(user(w)) })
	}
	wg.Wait()
	for name, seconds := range newest {
		slices.Sort(seconds)
		var got []float64
		for _, r := range f.recent(product, name, maxEvents) {
			got = append(got, secondsAfter(f.base, r.Start))
		}
		require.Equal(f, seconds[len(seconds)-kept:], got)
	}
}

// addBackwards adds an action for each second in batches of one, newest first.
func (f fixture) addBackwards(user string, seconds []float64) {
	for _, second := range slices.Backward(seconds) {
		assert.NoError(f, f.store.Add(f.Context(), NewBatch(product, "s", user, f.click(second))))
	}
}

func (f fixture) readWhileWriting(user string) {
	for range actionsOfWriter {
		snapshot, err := f.store.Recent(f.Context(), product, recent.Subject{UserID: user}, maxEvents)
		found := snapshot.Records
		if !assert.NoError(f, err) || !assert.LessOrEqual(f, len(found), kept) {
			return
		}
		sorted := slices.IsSortedFunc(found, func(a, b recent.Record) int { return int(a.Start - b.Start) })
		assert.True(f, sorted, "out of order: %s", spans(found, f.base))
		for _, r := range found {
			assert.GreaterOrEqual(f, r.End, r.Start)
		}
		_, err = found.Actions()
		assert.NoError(f, err)
	}
}

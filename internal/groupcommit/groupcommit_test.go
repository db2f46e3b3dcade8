package groupcommit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/groupcommit"
)

func TestDo_commitsTogetherWhatComesDuringACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var commits [][]int
		g := groupcommit.New(4, func(values []int) {
			time.Sleep(time.Second) // everybody else comes meanwhile
			commits = append(commits, values)
		})
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() { g.Do(i) })
			synctest.Wait()
		}
		calls.Wait()
		assert.Equal(t, [][]int{{0}, {1, 2, 3, 4}, {5, 6, 7, 8}, {9}}, commits, "in order, four at most")
	})
}

func TestDo_returnsOnlyAfterItsOwnCommit(t *testing.T) {
	const callers, calls = 16, 200
	var committed [callers]int // guarded by there being one commit at a time
	g := groupcommit.New(7, func(values []int) {
		for _, caller := range values {
			committed[caller]++
		}
	})
	var running sync.WaitGroup
	for caller := range callers {
		running.Go(func() {
			for n := range calls {
				g.Do(caller)
				assert.Equal(t, n+1, committed[caller])
			}
		})
	}
	running.Wait()
}

func TestDo_goesOnAfterAPanic(t *testing.T) {
	g := groupcommit.New(4, func(values []int) {
		if values[0] == 0 {
			panic("zero")
		}
	})
	require.Panics(t, func() { g.Do(0) })
	g.Do(1)
}

package groupcommit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/groupcommit"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestDo_commitsTogetherOperationsThatArriveDuringACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var commits [][]int
		g := groupcommit.New(4, func(values []int) {
			time.Sleep(time.Second) // everybody else comes meanwhile
			commits = append(commits, values)
		})
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() { assert.NoError(t, g.Do(t.Context(), i)) })
			synctest.Wait()
		}
		calls.Wait()
		assert.Equal(t, [][]int{{0}, {1, 2, 3, 4}, {5, 6, 7, 8}, {9}}, commits, "in order, four at most")
	})
}

func TestDo_returnsOnlyAfterItsOwnCommit(t *testing.T) {
	const callers, calls = 16, 200
	var committed [callers]int // one commit runs at a time
	g := groupcommit.New(7, func(values []int) {
		for _, caller := range values {
			committed[caller]++
		}
	})
	waittest.Together(callers, func(caller int) {
		for n := range calls {
			assert.NoError(t, g.Do(t.Context(), caller))
			assert.Equal(t, n+1, committed[caller])
		}
	})
}

// A caller that stops waiting for a turn leaves nothing behind. A commit in flight goes on, and so do the later ones.
func TestDo_returnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var commits [][]int
		g := groupcommit.New(4, func(values []int) {
			time.Sleep(time.Hour)
			commits = append(commits, values)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		var calls sync.WaitGroup
		for i, ctx := range []context.Context{ctx, ctx, t.Context(), ctx} {
			calls.Go(func() {
				if err := g.Do(ctx, i); i == 2 {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Equal(t, time.Second, time.Since(began))
				}
			})
			synctest.Wait()
		}
		calls.Wait()
		assert.Equal(t, [][]int{{0}, {2}}, commits)
	})
}

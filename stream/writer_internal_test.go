package stream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

// holdings counts what is held of the entries handed over, as a consumer does.
type holdings struct {
	context.Context
	mu       sync.Mutex
	held     int
	released int
}

func (h *holdings) Value(key any) any {
	if key == (holdKey{}) {
		return h
	}
	return h.Context.Value(key)
}

func (h *holdings) hold() func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.released++
	}
}

// counts waits for all to be quiet.
func (h *holdings) counts() (held, released int) {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held, h.released
}

func (h *holdings) require(t *testing.T, held, released int) {
	t.Helper()
	gotHeld, gotReleased := h.counts()
	require.Equal(t, [2]int{held, released}, [2]int{gotHeld, gotReleased}, "held, released")
}

func actionsOf(sessionID string, n int) activity.Batch {
	return activity.Batch{ProductID: "acme", SessionID: sessionID, Count: n, Actions: make([]activity.BatchAction, n)}
}

func TestWriter_holdsWhatIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail bool
		w := NewWriter(func(context.Context, activity.Batch) error {
			if fail {
				return errors.New("down")
			}
			return nil
		}, &WriterOptions{Debounce: time.Second, MaxPending: 4})
		ctx, stop := context.WithCancel(t.Context())
		h := &holdings{Context: t.Context()}
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		for range 3 {
			require.NoError(t, w.Add(h, actionsOf("s", 1)))
		}
		require.NoError(t, w.Add(h, actionsOf("other", 1)))
		h.require(t, 4, 0)
		time.Sleep(time.Second)
		h.require(t, 4, 4)

		fail = true
		require.NoError(t, w.Add(h, actionsOf("s", 1)))
		time.Sleep(time.Minute)
		require.NoError(t, w.Add(h, actionsOf("s", 1)))
		require.NoError(t, w.Add(h, actionsOf("other", 1)))
		stop()
		<-done
		h.require(t, 7, 4)
		require.Len(t, w.slots, 3)
	})
}

func TestWriter_holdsNothingThatWaitsForALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter(func(context.Context, activity.Batch) error { return nil }, &WriterOptions{AwaitLink: true})
		h := &holdings{Context: t.Context()}
		require.NoError(t, w.Add(h, actionsOf("s", 1)))
		require.NoError(t, w.Add(h, actionsOf("", 1)))
		h.require(t, 2, 2)
		require.NoError(t, w.SessionLinked(h, "s", "c"))
		require.NoError(t, w.Add(h, actionsOf("s", 1)))
		h.require(t, 3, 2)
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = w.Run(ctx) }()
		h.require(t, 3, 3)
		stop()
	})
}

// What is released at the same time can share a commit of the cursor.
func TestWriter_releasesAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter(func(context.Context, activity.Batch) error { return nil }, &WriterOptions{Debounce: time.Second})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = w.Run(ctx) }()
		var all sync.WaitGroup
		all.Add(3)
		together := slowHold{Context: ctx, release: func() { all.Done(); all.Wait() }}
		for range 3 {
			require.NoError(t, w.Add(together, actionsOf("s", 1)))
		}
		require.NoError(t, w.Flush(ctx))
		stop()
	})
}

type slowHold struct {
	context.Context
	release func()
}

func (h slowHold) Value(key any) any {
	if key == (holdKey{}) {
		return h
	}
	return h.Context.Value(key)
}

func (h slowHold) hold() func() { return h.release }

// A writer that has nothing to do keeps nothing.
func TestWriter_forgetsWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter(func(context.Context, activity.Batch) error { return nil }, &WriterOptions{
			Summarizer: NewSummarizer(func(context.Context, Summary) error { time.Sleep(time.Second); return nil },
				&SummarizerOptions{Threshold: 1, Model: func(context.Context, string) (string, error) {
					time.Sleep(time.Second)
					return "x", nil
				}})})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		for _, session := range []string{"s1", "s2", ""} {
			require.NoError(t, w.Add(ctx, actionsOf(session, 1)))
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		w.mu.Lock()
		require.Len(t, w.sessions, 2, "a summary is under way")
		w.mu.Unlock()
		time.Sleep(time.Second)
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
		require.Empty(t, w.sessions)
		require.Empty(t, w.idle)
		require.Empty(t, w.slots)
		require.Zero(t, w.links.sessions.Len(), "nobody was linked")
		require.Empty(t, w.summarizer.busy)
	})
}

func TestPile_wait(t *testing.T) {
	now := time.Now()
	p := pile{}
	p.add(actionsOf("s", 1), "", now, time.Second)
	assert.Equal(t, time.Second, p.wait(now))
	assert.Equal(t, time.Second/4, p.wait(now.Add(750*time.Millisecond)))
	p.add(actionsOf("s", 498), "", now.Add(500*time.Millisecond), time.Second)
	assert.Equal(t, 1500*time.Millisecond, p.wait(now), "each batch starts the wait anew")
	assert.LessOrEqual(t, p.wait(now.Add(1500*time.Millisecond)), time.Duration(0))
	p.add(actionsOf("s", 0), "", now.Add(9500*time.Millisecond), time.Second)
	assert.Equal(t, 10*time.Second, p.wait(now), "but not for ever")
	hurried := p
	hurried.now = true
	hurried.add(actionsOf("s", 0), "", now, time.Hour)
	assert.Zero(t, hurried.wait(now), "what is in a hurry stays so")
	p.add(actionsOf("s", 1), "", now, time.Hour)
	assert.Zero(t, p.wait(now), "500 actions")
}

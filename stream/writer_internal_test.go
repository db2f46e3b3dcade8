package stream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func actionsOf(sessionID string, n int) activity.Batch {
	return activity.Batch{ProductID: "acme", SessionID: sessionID, Count: n, Actions: make([]activity.BatchAction, n)}
}

// A writer that has nothing to do keeps nothing.
func TestWriter_forgetsFinishedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := musttest.New(NewWriter(func(context.Context, activity.Batch) error { return nil }, &WriterOptions{
			Summarizer: musttest.New(NewSummarizer(func(context.Context, Summary) error { time.Sleep(time.Second); return nil },
				&SummarizerOptions{Threshold: 1, Model: func(context.Context, string) (string, error) {
					time.Sleep(time.Second)
					return "x", nil
				}}))}))
		stop := waittest.Run(t, w.Run)
		for _, session := range []string{"s1", "s2", ""} {
			require.NoError(t, w.Add(t.Context(), actionsOf(session, 1)))
		}
		time.Sleep(2500 * time.Millisecond)
		require.ErrorIs(t, stop(), context.Canceled)
		require.Zero(t, w.Stats().Pending)
		require.Zero(t, w.links.sessions.Len(), "nobody was linked")
		w.summarizer.sessions.Each("acme", func(e *fair.Entry[string, *history]) bool {
			require.False(t, e.Value.busy)
			return true
		})
		require.Equal(t, 2, w.summarizer.sessions.Len())
	})
}

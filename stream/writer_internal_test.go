package stream

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// A session without a link takes no memory once its batches are written.
func TestWriter_forgetsFinishedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := musttest.New(NewWriter(func(context.Context, activity.Batch) error { return nil }, nil))
		waittest.Run(t, w.Run)
		require.NoError(t, w.Add(t.Context(), activity.Batch{SessionID: "s1", Actions: make([]activity.BatchAction, 1)}))
		require.NoError(t, w.Flush(t.Context()))
		require.Zero(t, w.links.sessions.Len())
	})
}

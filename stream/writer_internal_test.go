package stream

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// A session without a link takes no memory.
func TestWriter_keepsNothingOfUnlinkedSessions(t *testing.T) {
	w := musttest.New(NewWriter(func(context.Context, activity.Batch) error { return nil }, nil))
	require.Empty(t, w.link("s1", ""))
	require.Zero(t, w.links.sessions.Len())
}

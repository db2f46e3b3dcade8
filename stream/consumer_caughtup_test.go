package stream_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

func follow(t *testing.T, server *streamtest.Server, actions func(context.Context, activity.Batch) error) *running {
	t.Helper()
	return startConsumer(t, server.URL(), stream.Handlers{Actions: actions},
		stream.ConsumerOptions{Since: time.Unix(0, 0), MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond})
}

func did(session string) activity.Batch {
	return activity.Batch{SessionID: session, Actions: []activity.BatchAction{{Action: activity.Action{Type: activity.TypeClick}}}}
}

// Also while the server is away later: what was handled is handled.
func TestConsumer_hasCaughtUpOnceWhatWasRetainedIsHandled(t *testing.T) {
	server := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{Token: "token"}))
	defer server.Close()
	for range 5 {
		server.Send(did("a"), did("b"))
	}
	handle := make(chan struct{})
	c := follow(t, server, func(ctx context.Context, _ activity.Batch) error {
		select {
		case <-handle:
		case <-ctx.Done():
		}
		return nil
	})
	waittest.Until(t, "it is connected", c.Connected)
	for range 9 {
		handle <- struct{}{}
	}
	time.Sleep(2 * 250 * time.Millisecond)
	assert.False(t, c.CaughtUp(), "one is not handled")
	handle <- struct{}{}
	waittest.Until(t, "it has caught up", c.CaughtUp)

	server.Refuse(503, -1)
	server.Disconnect()
	waittest.Until(t, "it is disconnected", func() bool { return !c.Connected() })
	assert.True(t, c.CaughtUp())
}

func TestConsumer_hasCaughtUpWithAStreamOfNothing(t *testing.T) {
	server := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{Token: "token"}))
	defer server.Close()
	server.Refuse(503, -1)
	c := follow(t, server, func(context.Context, activity.Batch) error { return nil })
	time.Sleep(2 * 250 * time.Millisecond)
	assert.False(t, c.CaughtUp(), "the stream was never open")
	server.Refuse(503, 0)
	waittest.Until(t, "it has caught up", c.CaughtUp)
}

func TestConsumer_takesAHeartbeatForTheEndOfWhatWasRetained(t *testing.T) {
	server := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{Token: "token", Heartbeat: 20 * time.Millisecond}))
	defer server.Close()
	c := follow(t, server, func(context.Context, activity.Batch) error { return nil })
	waittest.Until(t, "it has caught up", c.CaughtUp)
}

// A stream that is never silent is caught up with where a batch comes that is
// newer than the connection.
func TestConsumer_catchesUpWithAStreamThatIsNeverSilent(t *testing.T) {
	server := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{Token: "token"}))
	defer server.Close()
	var handled atomic.Int64
	c := follow(t, server, func(context.Context, activity.Batch) error {
		handled.Add(1)
		return nil
	})
	waittest.Until(t, "it has caught up", func() bool {
		server.Send(did("a"))
		return c.CaughtUp()
	})
	assert.Positive(t, handled.Load())
}

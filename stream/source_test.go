package stream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// ending is a source of some entries that ends after them.
type ending struct {
	data []string
	err  error
}

func (e ending) Follow(_ context.Context, _ string, _ time.Time, _ string, deliver func(feed.Event) error) error {
	for i, data := range e.data {
		if err := deliver(feed.Event{Message: feed.NewMessage(string(rune('1'+i)), []byte(data))}); err != nil {
			return err
		}
	}
	return e.err
}

func TestConsumer_handlesEverythingOfASourceThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errClosed := errors.New("the log is closed")
		var n notes
		consumer, err := stream.NewSourceConsumer(ending{[]string{entryOf("s", "a"), entryOf("s", "b"), entryOf("t", "c")}, errClosed}, n.slowly(), nil)
		require.NoError(t, err)
		require.ErrorIs(t, consumer.Run(t.Context()), errClosed)
		assert.Len(t, n.all(), 3)
	})
}

// A consumer of a log is given what a client of its stream is sent.
func TestConsumer_ofALogIsGivenOnlyWhatClientsKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(nil))
		link := eventlog.Entry{SessionID: "s", Data: []byte(`{"type":"link","session_id":"s"}`)}
		entries := []eventlog.Entry{link, {SessionID: "s", Data: []byte(entryOf("s", "a"))}, link}
		require.NoError(t, log.Append(t.Context(), "acme", entries))
		var n notes
		source := musttest.New(eventlog.NewSource(log, "acme"))
		consumer, err := stream.NewSourceConsumer(source, n.raw(), &stream.ConsumerOptions{Since: time.Unix(0, 0)})
		require.NoError(t, err)
		require.NoError(t, log.Close())
		require.ErrorIs(t, consumer.Run(t.Context()), eventlog.ErrClosed)
		assert.Equal(t, []string{entryOf("s", "a")}, n.all())
	})
}

func TestNewSourceConsumer_reportsEveryMistake(t *testing.T) {
	_, err := stream.NewSourceConsumer(nil, stream.Handlers{}, &stream.ConsumerOptions{MaxPending: -1})
	for _, option := range []string{"source", "handlers", "MaxPending"} {
		require.ErrorContains(t, err, "stream: "+option+" must")
	}
}

package stream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream"
)

// ending is a source of some entries that ends after them.
type ending struct {
	data []string
	err  error
}

func (e ending) Follow(_ context.Context, _ string, _ time.Time, _ string, deliver func(event, id string, data []byte) error) error {
	for i, data := range e.data {
		if err := deliver(stream.EventEntry, string(rune('1'+i)), []byte(data)); err != nil {
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

func TestNewSourceConsumer_reportsEveryMistake(t *testing.T) {
	_, err := stream.NewSourceConsumer(nil, stream.Handlers{}, &stream.ConsumerOptions{MaxPending: -1})
	for _, option := range []string{"source", "handlers", "MaxPending"} {
		require.ErrorContains(t, err, "stream: "+option+" must")
	}
}

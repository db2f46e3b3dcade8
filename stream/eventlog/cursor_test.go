package eventlog_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

var _ stream.CursorStore = (*eventlog.Cursor)(nil)

func TestCursor_isKeptByProductAndName(t *testing.T) {
	log := musttest.New(memorylog.New(nil))
	cursor := func(productID, name string) *eventlog.Cursor {
		return musttest.New(eventlog.NewSource(log, productID)).Cursor(name)
	}
	mine := cursor("acme", "printer")
	saved, err := mine.Load(t.Context())
	require.NoError(t, err)
	require.Empty(t, saved)
	for _, place := range []string{"1-0", "2-0"} {
		require.NoError(t, mine.Save(t.Context(), place))
		saved, err = cursor("acme", "printer").Load(t.Context())
		require.NoError(t, err)
		assert.Equal(t, place, saved)
	}
	for _, other := range []*eventlog.Cursor{cursor("acme", "crm"), cursor("globex", "printer")} {
		saved, err = other.Load(t.Context())
		require.NoError(t, err)
		assert.Empty(t, saved)
	}
}

// A consumer that runs again handles the entries that came while it was away, and none
// twice.
func TestCursor_survivesARestartOfTheConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(nil))
		var handled []string
		handle := func(_ context.Context, m stream.Message) error {
			handled = append(handled, m.SessionID)
			return nil
		}
		for _, session := range []string{"first", "second", "third"} {
			data := fmt.Appendf(nil, `{"type":"summary","session_id":%q}`, session)
			require.NoError(t, log.Append(t.Context(), "acme", []eventlog.Entry{{SessionID: session, Data: data}}))
			source := musttest.New(eventlog.NewSource(log, "acme"))
			consumer := musttest.New(stream.NewSourceConsumer(source, stream.Handlers{Raw: handle},
				&stream.ConsumerOptions{Cursor: source.Cursor("crm"), Since: time.Unix(0, 0)}))
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, stop)
			require.ErrorIs(t, consumer.Run(ctx), context.Canceled)
		}
		assert.Equal(t, []string{"first", "second", "third"}, handled)
	})
}

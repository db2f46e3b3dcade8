package stream_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// recorded returns the bytes of a stream of n entries of so many actions each, of 1000 sessions.
func recorded(tb testing.TB, n, actions int) []byte {
	tb.Helper()
	var frames []byte
	at := time.Now()
	clicks := slices.Repeat([]activity.Action{activitytest.Click(at, "Export CSV",
		"https://app.example.com/dashboard?tab=reports")}, actions)
	for i := range n {
		b := activitytest.NewBatch("acme", fmt.Sprintf("0190a1b2-c3d4-7e5f-8a9b-%012d", i%1000), "user_42", clicks...)
		data, err := jsontext.Marshal(b)
		require.NoError(tb, err)
		frames = fmt.Appendf(frames, "id: %s\ndata: %s\n\n", eventlog.ID{Milli: uint64(at.UnixMilli()), Seq: uint64(i)}, data)
	}
	return frames
}

// replaying returns a server that sends these bytes to every reader, as fast as the reader takes
// them, and then nothing more.
func replaying(tb testing.TB, frames []byte) *httptest.Server {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for at := 0; at < len(frames); at += 64 << 10 {
			if _, err := w.Write(frames[at:min(at+64<<10, len(frames))]); err != nil {
				return
			}
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	tb.Cleanup(server.Close)
	return server
}

// consume runs a consumer until it has handled n entries.
func consume(tb testing.TB, url string, n int64) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	var events atomic.Int64
	consumer, err := stream.NewConsumer(url, "token", stream.Handlers{
		Actions: func(context.Context, activity.Batch) error {
			if events.Add(1) == n {
				cancel()
			}
			return nil
		},
	}, nil)
	require.NoError(tb, err)
	require.ErrorIs(tb, consumer.Run(ctx), context.Canceled)
	require.Equal(tb, n, events.Load())
}

// An entry holds several actions, because posthog-js sends a user's actions of three seconds at once.
func BenchmarkConsumer(b *testing.B) {
	for _, actions := range []int{1, 5, 20} {
		b.Run(fmt.Sprintf("of=%d", actions), func(b *testing.B) {
			entries := 24_000 / (actions + 1)
			server := replaying(b, recorded(b, entries, actions))
			b.ReportAllocs()
			for b.Loop() {
				consume(b, server.URL, int64(entries))
			}
			b.ReportMetric(float64(b.N*entries)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

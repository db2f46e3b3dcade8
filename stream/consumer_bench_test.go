package stream_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// recorded returns the bytes of a stream of n entries of so many actions each,
// of 1000 sessions.
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

// subscribe is the bare client: it reads until n events were there.
func subscribe(tb testing.TB, url string, n int) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	events := 0
	_ = sse.NewClient(url).SubscribeRawWithContext(ctx, func(*sse.Event) {
		if events++; events == n {
			cancel()
		}
	})
	require.Equal(tb, n, events)
}

// consume runs a consumer until it has finished n entries.
func consume(tb testing.TB, url string, n int64, handlers func(finished func()) stream.Handlers) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	var events atomic.Int64
	consumer, err := stream.NewConsumer(url, "token", handlers(func() {
		if events.Add(1) == n {
			cancel()
		}
	}), nil)
	require.NoError(tb, err)
	require.ErrorIs(tb, consumer.Run(ctx), context.Canceled)
	require.Equal(tb, n, events.Load())
}

// The consumer and the bare client read the same bytes in turns, so that both meet the same noise.
// An entry holds several actions, because posthog-js sends a user's actions of three seconds at
// once.
func BenchmarkConsumer(b *testing.B) {
	kinds := map[string]func(finished func()) stream.Handlers{
		"deliver": func(finished func()) stream.Handlers {
			return stream.Handlers{Deliver: func(_ context.Context, d *stream.Delivery) error {
				d.Done(nil)
				finished()
				return nil
			}}
		},
		"raw": func(finished func()) stream.Handlers {
			return stream.Handlers{Raw: func(context.Context, stream.Message) error { finished(); return nil }}
		},
		"actions": func(finished func()) stream.Handlers {
			return stream.Handlers{Actions: func(context.Context, activity.Batch) error { finished(); return nil }}
		},
	}
	for _, actions := range []int{1, 5, 20} {
		entries := 24_000 / (actions + 1)
		server := replaying(b, recorded(b, entries, actions))
		for name, handlers := range kinds {
			b.Run(fmt.Sprintf("%s/of=%d", name, actions), func(b *testing.B) {
				b.ReportAllocs()
				const never = time.Duration(math.MaxInt64)
				bare, ours := never, never // the fastest runs: other work on the machine only slows
				for b.Loop() {
					start := time.Now()
					subscribe(b, server.URL, entries)
					bare = min(bare, time.Since(start))
					start = time.Now()
					consume(b, server.URL, int64(entries), handlers)
					ours = min(ours, time.Since(start))
				}
				perSecond := func(d time.Duration) float64 { return float64(entries) / d.Seconds() }
				b.ReportMetric(perSecond(bare), "bare-entries/s")
				b.ReportMetric(perSecond(ours), "entries/s")
				b.ReportMetric(perSecond(ours)/perSecond(bare), "ratio")
			})
		}
	}
}

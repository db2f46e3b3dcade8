package durability

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// What the log of BenchmarkRebuild holds.
const (
	rebuilt      = 1_000_000
	rebuiltUsers = 20_000
)

// The time from opening a full log to answering lookups: a million actions of
// twenty thousand users, fifty each.
func BenchmarkRebuild(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir)
	b.ReportAllocs()
	for b.Loop() {
		log, err := boltlog.Open(dir, nil)
		require.NoError(b, err)
		opened := b.Elapsed()
		ctx, cancel := context.WithCancel(b.Context())
		require.NoError(b, log.Run(ctx, func(p eventlog.Progress) {
			if p.Done {
				cancel()
			}
		}))
		b.ReportMetric((b.Elapsed() - opened).Seconds(), "replay-s")
		require.Equal(b, rebuiltUsers, log.Stats()["acme"].Users)
		b.StopTimer()
		require.NoError(b, log.Release())
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s")
}

// fill records the actions, five to a request.
func fill(b *testing.B, dir string) {
	b.Helper()
	log, err := boltlog.Open(dir, nil)
	require.NoError(b, err)
	recorder := musttest.New(eventlog.NewRecorder(log, nil))
	const size = 5
	fillConcurrently(b, rebuilt/size, func(n int) error { return record(b.Context(), recorder, n, size, rebuiltUsers) })
	require.NoError(b, log.Release())
}

// fillConcurrently calls record with every number below total, from many
// clients at once.
func fillConcurrently(b *testing.B, total int, record func(n int) error) {
	b.Helper()
	const clients = 128
	var running sync.WaitGroup
	for client := range clients {
		running.Go(func() {
			for n := client; n < total; n += clients {
				if err := record(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}

// record records the n-th request: so many actions of one of so many users.
func record(ctx context.Context, recorder *eventlog.Recorder, n, size, users int) error {
	user := n % users
	events := make([]activity.Event, size)
	for i := range events {
		action := activity.NewAction(activity.TypeClick, activity.Target{Label: fmt.Sprint("Open report ", n%1000)}, fmt.Sprintf("https://app.acme.example/reports/%d?tab=q3", n%5000))
		events[i] = activity.Event{ID: fmt.Sprintf("%d/%d", n, i), Time: time.Now(), Action: &action,
			SessionID: fmt.Sprintf("0199f3a2-session-%d", user), UserID: fmt.Sprintf("user_%d", user), Email: fmt.Sprintf("user_%d@acme.example", user)}
	}
	_, err := recorder.Record(ctx, "acme", events)
	return err
}

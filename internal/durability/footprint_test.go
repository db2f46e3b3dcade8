package durability

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// What one of 100,000 actions takes in each place, everything included: log,
// keys, documents, and the 50 that each of 2000 users keeps. An action comes
// in a request of its own.
func BenchmarkFootprint(b *testing.B) {
	const actions, users = 100_000, 2000
	fill := func(b *testing.B, log eventlog.Log) (data float64) {
		recorder := musttest.New(eventlog.NewRecorder(log, nil))
		fillConcurrently(b, actions, func(n int) error { return record(b.Context(), recorder, n, 1, users) })
		bounds, err := log.Bounds(b.Context(), "acme")
		require.NoError(b, err)
		entries := make([]eventlog.Entry, 1)
		_, err = log.Read(b.Context(), "acme", bounds.TrimmedTo, entries)
		require.NoError(b, err)
		return float64(len(entries[0].Data))
	}
	report := func(b *testing.B, unit string, bytes float64) { b.ReportMetric(bytes/actions, unit+"/action") }
	b.Run("memory", func(b *testing.B) {
		before := heaptest.InUse()
		log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{MaxBytes: 1 << 40}}))
		b.ReportMetric(fill(b, log), "data/action")
		report(b, "heap", float64(heaptest.InUse()-before))
		runtime.KeepAlive(log)
	})
	b.Run("bbolt", func(b *testing.B) {
		before := heaptest.InUse()
		dir := b.TempDir()
		log, err := boltlog.Open(dir, nil)
		require.NoError(b, err)
		b.ReportMetric(fill(b, log), "data/action")
		report(b, "heap", float64(heaptest.InUse()-before))
		info, err := os.Stat(filepath.Join(dir, boltlog.FileName))
		require.NoError(b, err)
		report(b, "file", float64(info.Size()))
		require.NoError(b, log.Release())
	})
	b.Run("redis", func(b *testing.B) {
		server := redistest.Start(b)
		log, err := redislog.Open(server.URL(), nil)
		require.NoError(b, err)
		used := func() float64 { return usedMemory(b, server) }
		before := used()
		b.ReportMetric(fill(b, log), "data/action")
		report(b, "redis", used()-before)
		require.NoError(b, log.Release())
	})
}

// What a user of 50 actions takes where lookups are answered from.
func BenchmarkFootprintOfUsers(b *testing.B) {
	const users, kept = 2000, 50
	fill := func(b *testing.B, store activitytest.Engine) {
		fillConcurrently(b, users*kept, func(n int) error {
			return store.Add(b.Context(), batchOf(n, users))
		})
	}
	b.Run("memory", func(b *testing.B) {
		before := heaptest.InUse()
		store := musttest.New(activity.NewMemory(nil))
		fill(b, store)
		b.ReportMetric(float64(heaptest.InUse()-before)/users, "heap/user")
		runtime.KeepAlive(store)
	})
	b.Run("redis", func(b *testing.B) {
		server := redistest.Start(b)
		log, err := redislog.Open(server.URL(), nil)
		require.NoError(b, err)
		before := usedMemory(b, server)
		fill(b, eventlogtest.NewFiler(log))
		b.ReportMetric((usedMemory(b, server)-before)/users, "redis/user")
		require.NoError(b, log.Release())
	})
}

// batchOf returns the n-th action, of one of so many users.
func batchOf(n, users int) activity.Batch {
	action := activity.NewAction(activity.TypeClick, activity.Target{Label: fmt.Sprint("Open report ", n%1000)}, fmt.Sprintf("https://app.acme.example/reports/%d?tab=q3", n%5000))
	action.ID, action.TimestampStart = fmt.Sprint(n), activity.Seconds(time.Now())
	user, session := fmt.Sprint("user_", n%users), fmt.Sprint("0199f3a2-session-", n%users)
	return activity.Batch{Type: activity.BatchType, ProductID: "acme", SessionID: session, UserID: user, Count: 1,
		Actions: []activity.BatchAction{{Action: action, SessionID: session, UserID: user}}}
}

// usedMemory returns what a Redis server says of itself.
func usedMemory(b *testing.B, server *redistest.Server) float64 {
	b.Helper()
	info, err := server.Client().Info(b.Context(), "memory").Result()
	require.NoError(b, err)
	_, rest, _ := strings.Cut(info, "used_memory:")
	number, _, _ := strings.Cut(rest, "\r\n")
	used, err := strconv.ParseFloat(number, 64)
	require.NoError(b, err)
	return used
}

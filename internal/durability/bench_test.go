// Package durability compares the storage engines: their costs, and whether they keep all
// acknowledged data when processes are killed.
package durability

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

var engines = []struct {
	name string
	open func(b *testing.B) eventlog.Log
}{
	{"memory", func(*testing.B) eventlog.Log { return musttest.New(memorylog.New(nil)) }},
	{"bbolt", func(b *testing.B) eventlog.Log {
		log := musttest.New(boltlog.Open(b.TempDir(), nil))
		b.Cleanup(func() { require.NoError(b, log.Release()) })
		return log
	}},
	{"redis", func(b *testing.B) eventlog.Log {
		log := musttest.New(redislog.Open(redistest.Start(b).URL(), nil))
		b.Cleanup(func() { require.NoError(b, log.Release()) })
		return log
	}},
}

// request is the n-th request of a benchmark: so many actions of one of so many users.
func request(n, size, users int) []activity.Event {
	user := n % users
	events := make([]activity.Event, size)
	for i := range events {
		action := activity.NewAction(activity.TypeClick, activity.Target{Label: fmt.Sprint("Open report ", n%1000)},
			fmt.Sprintf("https://app.acme.example/reports/%d?tab=q3", n%5000))
		events[i] = activity.Event{ID: fmt.Sprintf("%d/%d", n, i), Time: time.Now(), Action: &action,
			SessionID: fmt.Sprintf("0199f3a2-session-%d", user), UserID: fmt.Sprintf("user_%d", user),
			Email: fmt.Sprintf("user_%d@acme.example", user)}
	}
	return events
}

func record(ctx context.Context, recorder *eventlog.Recorder, n, size, users int) error {
	_, err := recorder.Record(ctx, "acme", request(n, size, users))
	return err
}

// BenchmarkIngest reports the acknowledged events per second of 64 clients at once. The metric
// "of-memory" compares engines within the run.
func BenchmarkIngest(b *testing.B) {
	const clients = 64
	for _, size := range []int{1, 20} {
		var inMemory float64
		for _, e := range engines {
			b.Run(fmt.Sprintf("%s/batch=%d", e.name, size), func(b *testing.B) {
				log := e.open(b)
				recorder := musttest.New(eventlog.NewRecorder(log, nil))
				b.ReportAllocs()
				var requests atomic.Int64
				b.ResetTimer()
				waittest.Together(clients, func(client int) {
					for n := 0; requests.Add(1) <= int64(b.N); n++ {
						result, err := recorder.Record(b.Context(), "acme", request(n*clients+client, size, clients))
						if err != nil || result.Accepted != size {
							b.Errorf("%+v, %v", result, err)
							return
						}
					}
				})
				rate := float64(b.N*size) / b.Elapsed().Seconds()
				if e.name == "memory" {
					inMemory = rate
				}
				b.ReportMetric(rate, "events/s")
				b.ReportMetric(rate/inMemory, "of-memory")
			})
		}
	}
}

// BenchmarkLookup reports lookups of 50 actions per second, over 1000 users and from as many
// clients as there are processors.
func BenchmarkLookup(b *testing.B) {
	const users, rounds, size = 1000, 10, 5
	var inMemory float64
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			log := e.open(b)
			recorder := musttest.New(eventlog.NewRecorder(log, nil))
			fillConcurrently(b, users*rounds, func(n int) error { return record(b.Context(), recorder, n, size, users) })
			lookup := musttest.New(recent.NewLookup(log.Activity(), 0))
			b.ReportAllocs()
			var next atomic.Int64
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				var buf []byte
				for pb.Next() {
					var err error
					buf, err = lookup.AppendJSON(b.Context(), buf[:0], "acme", fmt.Sprint("user_", next.Add(1)%users), 0)
					if err != nil || len(buf) < 50*100 {
						b.Errorf("%d bytes, %v", len(buf), err)
					}
				}
			})
			rate := float64(b.N) / b.Elapsed().Seconds()
			if e.name == "memory" {
				inMemory = rate
			}
			b.ReportMetric(rate, "lookups/s")
			b.ReportMetric(rate/inMemory, "of-memory")
		})
	}
}

// BenchmarkFootprint reports the size of one of 100,000 actions in each place, with log, keys,
// documents and the 50 actions kept of each of 2000 users. An action comes in a request of its own.
func BenchmarkFootprint(b *testing.B) {
	const actions, users = 100_000, 2000
	fill := func(b *testing.B, log eventlog.Log) (data float64) {
		recorder := musttest.New(eventlog.NewRecorder(log, nil))
		fillConcurrently(b, actions, func(n int) error { return record(b.Context(), recorder, n, 1, users) })
		bounds, entries := musttest.New(log.Bounds(b.Context(), "acme")), make([]eventlog.Entry, 1)
		musttest.New(log.Read(b.Context(), "acme", bounds.TrimmedTo, entries))
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
		log := musttest.New(boltlog.Open(dir, nil))
		b.ReportMetric(fill(b, log), "data/action")
		report(b, "heap", float64(heaptest.InUse()-before))
		info, err := os.Stat(filepath.Join(dir, boltlog.FileName))
		require.NoError(b, err)
		report(b, "file", float64(info.Size()))
		require.NoError(b, log.Release())
	})
	b.Run("redis", func(b *testing.B) {
		server := redistest.Start(b)
		log := musttest.New(redislog.Open(server.URL(), nil))
		used := func() float64 { return usedMemory(b, server) }
		before := used()
		b.ReportMetric(fill(b, log), "data/action")
		report(b, "redis", used()-before)
		require.NoError(b, log.Release())
	})
}

// BenchmarkFootprintOfUsers reports the size of a user of 50 actions in the stores that answer lookups.
func BenchmarkFootprintOfUsers(b *testing.B) {
	const users, kept = 2000, 50
	fill := func(b *testing.B, store activitytest.Engine) {
		fillConcurrently(b, users*kept, func(n int) error {
			e := request(n, 1, users)[0]
			e.Action.ID, e.Action.TimestampStart = e.ID, activity.Seconds(e.Time)
			return store.Add(b.Context(), activitytest.NewBatch("acme", e.SessionID, e.UserID, *e.Action))
		})
	}
	b.Run("memory", func(b *testing.B) {
		before := heaptest.InUse()
		store := musttest.New(recent.NewMemory(nil))
		fill(b, store)
		b.ReportMetric(float64(heaptest.InUse()-before)/users, "heap/user")
		runtime.KeepAlive(store)
	})
	b.Run("redis", func(b *testing.B) {
		server := redistest.Start(b)
		log := musttest.New(redislog.Open(server.URL(), nil))
		before := usedMemory(b, server)
		fill(b, eventlogtest.NewFiler(log))
		b.ReportMetric((usedMemory(b, server)-before)/users, "redis/user")
		require.NoError(b, log.Release())
	})
}

func usedMemory(b *testing.B, server *redistest.Server) float64 {
	b.Helper()
	info, err := server.Client().Info(b.Context(), "memory").Result()
	require.NoError(b, err)
	_, rest, _ := strings.Cut(info, "used_memory:")
	number, _, _ := strings.Cut(rest, "\r\n")
	return musttest.New(strconv.ParseFloat(number, 64))
}

// The size of BenchmarkRebuild's log.
const (
	rebuilt      = 1_000_000
	rebuiltUsers = 20_000
)

// BenchmarkRebuild reports the time of opening a full log: a million actions of twenty thousand users, fifty each.
func BenchmarkRebuild(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir)
	b.ReportAllocs()
	for b.Loop() {
		log := musttest.New(boltlog.Open(dir, nil))
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
	log := musttest.New(boltlog.Open(dir, nil))
	recorder := musttest.New(eventlog.NewRecorder(log, nil))
	const size = 5
	fillConcurrently(b, rebuilt/size, func(n int) error { return record(b.Context(), recorder, n, size, rebuiltUsers) })
	require.NoError(b, log.Release())
}

// fillConcurrently calls record with every number below total, from many clients at once.
func fillConcurrently(b *testing.B, total int, record func(n int) error) {
	b.Helper()
	const clients = 128
	waittest.Together(clients, func(client int) {
		for n := client; n < total; n += clients {
			if err := record(n); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

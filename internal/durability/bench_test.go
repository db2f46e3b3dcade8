// Package durability holds the storage engines side by side: what they cost,
// and that they keep what they acknowledge when processes are killed.
package durability

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

var engines = []struct {
	name string
	open func(b *testing.B) eventlog.Log
}{
	{"memory", func(*testing.B) eventlog.Log { return musttest.New(memorylog.New(nil)) }},
	{"bbolt", func(b *testing.B) eventlog.Log {
		log, err := boltlog.Open(b.TempDir(), nil)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, log.Release()) })
		return log
	}},
	{"redis", func(b *testing.B) eventlog.Log {
		log, err := redislog.Open(redistest.Start(b).URL(), nil)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, log.Release()) })
		return log
	}},
}

// request is what a client of the benchmarks sends: actions of one session.
func request(client, n, size int) []activity.Event {
	events := make([]activity.Event, size)
	for i := range events {
		action := activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"}, "https://app.acme.example/reports/42?tab=q3")
		events[i] = activity.Event{
			ID: fmt.Sprintf("%d/%d/%d", client, n, i), Time: time.Now(),
			SessionID: fmt.Sprintf("session-%d-%d", client, n/20), UserID: fmt.Sprintf("user_%d", client), Action: &action,
		}
	}
	return events
}

// Acknowledged events per second, from 64 clients at once. The metric
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
				var running sync.WaitGroup
				b.ResetTimer()
				for client := range clients {
					running.Go(func() {
						for n := 0; requests.Add(1) <= int64(b.N); n++ {
							result, err := recorder.Record(b.Context(), "acme", request(client, n, size))
							if err != nil || result.Accepted != size {
								b.Errorf("%+v, %v", result, err)
								return
							}
						}
					})
				}
				running.Wait()
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

// Lookups of 50 actions per second, from as many clients as there are
// processors, over 1000 users.
func BenchmarkLookup(b *testing.B) {
	const users, rounds, size = 1000, 10, 5
	var inMemory float64
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			log := e.open(b)
			recorder := musttest.New(eventlog.NewRecorder(log, nil))
			var filling sync.WaitGroup
			for client := range users {
				filling.Go(func() {
					for n := range rounds {
						_, err := recorder.Record(b.Context(), "acme", request(client, n, size))
						assert.NoError(b, err)
					}
				})
			}
			filling.Wait()
			lookup := musttest.New(activity.NewLookup(log.Activity(), 0))
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

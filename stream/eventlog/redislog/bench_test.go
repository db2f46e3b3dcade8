package redislog_test

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// clients is how many append at a time.
const clients = 64

// batch returns an entry of n actions of a user in a session.
func batch(user string, n int) eventlog.Entry {
	now := time.Now()
	actions := make([]activity.Action, n)
	for i := range actions {
		actions[i] = activitytest.Click(now.Add(time.Duration(i)*time.Millisecond), "Export CSV", page)
	}
	b := activitytest.NewBatch(product, "session-"+user, user, actions...)
	e := eventlog.Entry{SessionID: b.SessionID, Batch: &b, Keys: make([]activity.Key, n)}
	for i, a := range actions {
		e.Keys[i] = activity.EventKey(a.ID)
	}
	e.Data, _ = activity.Marshal(b) // a batch always encodes
	return e
}

// BenchmarkAppend measures how many events a second are appended and filed, and
// how that compares with what redis-benchmark, which does nothing else, gets
// out of the same script and arguments.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 20} {
		b.Run(fmt.Sprintf("actions=%d", n), func(b *testing.B) {
			server := redistest.Start(b)
			log := open(b, server.URL(), &redislog.Options{Prefix: "la"})
			var users atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(clients / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					e := batch(fmt.Sprintf("user%012d", users.Add(1)), n)
					if err := log.Append(context.Background(), product, []eventlog.Entry{e}); err != nil {
						b.Error(err)
					}
				}
			})
			rate := float64(n*b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "events/s")
			if b.N > 1000 { // else it is not the one that counts
				b.StopTimer()
				ceiling := float64(n) * redisBenchmark(b, server, log, n, min(b.N, 50_000))
				b.ReportMetric(ceiling, "redis-benchmark-events/s")
				b.ReportMetric(rate/ceiling, "ratio")
			}
		})
	}
}

// random is what redis-benchmark puts other digits for in each request.
const random = "__rand_int__"

var perSecond = regexp.MustCompile(`,"([0-9.]+)"(?:,"[0-9.]+"){6}\s*$`)

// redisBenchmark returns how many such appends redis-benchmark gets done in a
// second, 20 in a round trip on each of 50 connections.
func redisBenchmark(b *testing.B, server *redistest.Server, log *redislog.Log, n, requests int) float64 {
	b.Helper()
	path, err := exec.LookPath("redis-benchmark")
	require.NoError(b, err, "it is in Debian's redis-tools")
	e := batch("user"+random, n)
	args, script, err := log.CommitCommand(b.Context(), product, []eventlog.Entry{e})
	require.NoError(b, err)
	for i := range args {
		for k, key := range e.Keys {
			args[i] = strings.ReplaceAll(args[i], string(key[:]), fmt.Sprintf("%s%04d", random, k))
		}
	}
	require.NoError(b, server.Client().ScriptLoad(b.Context(), script).Err())
	host, port, _ := strings.Cut(server.Addr, ":")
	out, err := exec.Command(path, append([]string{"-h", host, "-p", port, "-c", "50", "-P", "20", "-r", "100000000000",
		"-n", strconv.Itoa(requests), "--csv"}, args...)...).CombinedOutput()
	require.NoError(b, err, "%s", out)
	match := perSecond.FindSubmatch(out)
	require.NotNil(b, match, "%s", out)
	rate, err := strconv.ParseFloat(string(match[1]), 64)
	require.NoError(b, err)
	require.Positive(b, rate)
	return rate
}

func BenchmarkRecent(b *testing.B) {
	for _, clients := range []int{1, clients} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			log := open(b, redistest.Start(b).URL(), &redislog.Options{Prefix: "la"})
			const users = 100
			for i := range users {
				require.NoError(b, log.Append(b.Context(), product, []eventlog.Entry{batch(fmt.Sprint("user", i), activity.DefaultMaxEvents)}))
			}
			var calls atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(max(1, clients/runtime.GOMAXPROCS(0)))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					user := fmt.Sprint("user", calls.Add(1)%users)
					recent, err := log.Activity().Recent(context.Background(), product, user, activity.DefaultMaxEvents)
					if err != nil || len(recent) != activity.DefaultMaxEvents {
						b.Error(len(recent), err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lookups/s")
		})
	}
}

// BenchmarkRead reads what another server appends, as a reader who keeps up.
func BenchmarkRead(b *testing.B) {
	url := redistest.Start(b).URL()
	from, to := open(b, url, &redislog.Options{Prefix: "la"}), open(b, url, &redislog.Options{Prefix: "la"})
	r := follow(b, to, newest(b, to))
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		entries := make([]eventlog.Entry, min(20, b.N-sent))
		for i := range entries {
			entries[i] = batch("user", 1)
			entries[i].Batch = nil
		}
		require.NoError(b, from.Append(b.Context(), product, entries))
		sent += len(entries)
	}
	waittest.Until(b, "all is read", func() bool { return len(r.read()) == b.N })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

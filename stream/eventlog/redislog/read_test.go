package redislog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// The bounds of a log and its first entries take Redis as long with many entries as with few.
func TestRead_doesNotWalkTheLog(t *testing.T) {
	t.Parallel()
	const calls, few, many = 20, 1000, 60_000
	server := redistest.Start(t, "--appendonly", "no")
	log := open(t, server.URL(), nil)
	start := newest(t, log)
	least := func() (bounds, read time.Duration) {
		bounds = leastDuration(t, server.Client(), func() {
			for range calls {
				newest(t, log)
			}
		})
		into := make([]eventlog.Entry, 1)
		for _, after := range []eventlog.ID{{}, start} {
			read = max(read, leastDuration(t, server.Client(), func() {
				for range calls {
					n, err := log.Read(t.Context(), product, after, into)
					require.NoError(t, err)
					require.Equal(t, 1, n)
				}
			}))
		}
		return bounds, read
	}
	fill := func(from, to int) {
		for i := from; i < to; i += few {
			require.NoError(t, log.Append(t.Context(), product, eventlogtest.Entries(fmt.Sprint("s", i), few)))
		}
	}
	fill(0, few)
	// The first entries are no longer in the memory of another server.
	log = open(t, server.URL(), &redislog.Options{Prefix: t.Name(), TailBytes: 1})
	bounds, read := least()
	fill(few, many)
	manyBounds, manyRead := least()
	require.Less(t, manyBounds, 10*bounds)
	require.Less(t, manyRead, 10*read)
}

// leastDuration returns how long the fastest script took Redis that was called meanwhile.
func leastDuration(t *testing.T, client *redis.Client, calls func()) time.Duration {
	t.Helper()
	require.NoError(t, client.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	require.NoError(t, client.SlowLogReset(t.Context()).Err())
	calls()
	logged, err := client.SlowLogGet(t.Context(), -1).Result()
	require.NoError(t, err)
	least := time.Hour
	for _, entry := range logged {
		if entry.Args[0] == "evalsha" {
			least = min(least, entry.Duration)
		}
	}
	require.Less(t, least, time.Hour, "a script was called")
	return least
}

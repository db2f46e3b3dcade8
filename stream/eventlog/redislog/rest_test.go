package redislog_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// A product at rest makes no request, though readers follow it, here and on another server.
func TestRest_isFree(t *testing.T) {
	t.Parallel()
	const products = 200
	server := redistest.Start(t)
	a, b := pair(t, server.URL(), nil)
	ends := map[string]eventlog.ID{}
	for i := range products {
		id, entries := fmt.Sprint("product", i), eventlogtest.Entries("s", 1)
		if ends[id] = (eventlog.ID{}); i%2 == 0 { // the others have no entry yet
			require.NoError(t, a.Append(t.Context(), id, entries))
			ends[id] = entries[0].ID
		}
		for _, log := range []*redislog.Log{a, b} {
			source := musttest.New(eventlog.NewSource(log, id))
			go func() {
				_ = source.Follow(t.Context(), "", time.Time{}, "", func(feed.Event) error { return nil })
			}()
		}
	}
	waittest.Until(t, "all products are watched", func() bool {
		return a.Watched() == products && b.Watched() == products
	})
	read := func() {
		for id, end := range ends { // as heartbeats do
			for _, log := range []*redislog.Log{a, b} {
				n, err := log.Read(t.Context(), id, end, make([]eventlog.Entry, 1))
				require.NoError(t, err)
				require.Zero(t, n)
			}
		}
	}
	read()
	a.Rest(time.Hour)
	b.Rest(time.Hour)
	before := commands(t, server)
	read()
	const seconds = 3
	time.Sleep(seconds * time.Second)
	spent := commands(t, server) - before
	t.Logf("%d commands in %d s", spent, seconds)
	require.Less(t, spent, products, "the servers' own: the time each second, and whether the subscription is alive")
}

// commands returns how many commands a server has been sent or has called in scripts.
func commands(t *testing.T, server *redistest.Server) (n int) {
	t.Helper()
	info, err := server.Client().Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		if _, calls, ok := strings.Cut(line, ":calls="); ok {
			var c int
			_, err := fmt.Sscan(calls[:strings.IndexByte(calls, ',')], &c)
			require.NoError(t, err)
			n += c
		}
	}
	return n
}

// clientLog counts the lines of the client's own logger.
type clientLog struct{ logtest.Buffer }

func (l *clientLog) Printf(_ context.Context, format string, values ...any) {
	fmt.Fprintf(&l.Buffer, format+"\n", values...)
}

// Failures to connect go to the log's logger, once and with the address. The client's own logger, which the whole
// process shares, is silent.
func TestOutage_isLoggedOnce(t *testing.T) {
	var ours logtest.Buffer
	var theirs clientLog
	redis.SetLogger(&theirs)
	server := redistest.Start(t)
	server.Kill()
	log := open(t, server.URL(), &redislog.Options{Logger: slog.New(slog.NewTextHandler(&ours, nil))})
	for range 50 {
		require.ErrorContains(t, log.Ping(t.Context()), "connection refused")
	}
	require.Equal(t, 1, strings.Count(ours.String(), "cannot connect to Redis"))
	require.Contains(t, ours.String(), server.Addr)
	require.NotContains(t, theirs.String(), "dial")
}

package redislog

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/document/documenttest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// pair returns two logs in one space, as two servers have them.
func pair(t *testing.T, url string, o *Options) (a, b *Log) {
	t.Helper()
	set := *cmp.Or(o, &Options{})
	set.Prefix = t.Name()
	return open(t, url, &set), open(t, url, &set)
}

func TestServers_areOne(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		for name, test := range map[string]func(t *testing.T, a, b *Log){
			"a cursor goes from one to the other":                                          testCursorMoves,
			"lookups find what the other filed, where it ends, and nothing that it erased": testLookupElsewhere,
			"closing one leaves the other open":                                            testCloseOne,
		} {
			t.Run(name, func(t *testing.T) {
				a, b := pair(t, url, nil)
				test(t, a, b)
			})
		}
	})
}

// A client that moves to another server goes on at its place, even if that server has not heard of the entry yet.
func testCursorMoves(t *testing.T, a, b *Log) {
	logs := []*Log{a, b}
	cursor := newest(t, a)
	for i := range 100 {
		e := appendOne(t, logs[i%2], eventlogtest.Entry("s", i))
		log := logs[(i/2)%2]
		require.Equal(t, e.ID, newest(t, log))
		if i%3 > 0 {
			cursor = readTo(t, log, cursor, e.ID)
		}
	}
}

// readTo reads from the cursor on until it comes to an entry, and returns its ID.
func readTo(t *testing.T, log *Log, cursor, id eventlog.ID) eventlog.ID {
	t.Helper()
	dst := make([]eventlog.Entry, 10)
	for cursor != id {
		changed := log.Changed(acme)
		n, err := log.Read(t.Context(), acme, cursor, dst)
		require.NoError(t, err)
		if n == 0 {
			<-changed
			continue
		}
		cursor = dst[n-1].ID
		require.LessOrEqual(t, cursor.Compare(id), 0)
	}
	return cursor
}

func testLookupElsewhere(t *testing.T, a, b *Log) {
	appendOne(t, a, entry("s", "bob", "ada"))
	later := entry("s", "ada")
	appendOne(t, b, later)
	appendOne(t, b, entry("s", "eve"))
	for _, log := range []*Log{a, b} {
		found, err := log.Activity().Recent(t.Context(), acme, recent.Subject{UserID: "ada"}, 2)
		require.NoError(t, err)
		require.Equal(t, later.Batch.Actions[0].Start().UnixMicro(), found.Records[0].End)
		require.Equal(t, []string{"Click ada", "Click ada"}, labels(t, log, "ada"))
		require.Equal(t, []string{"Click bob"}, labels(t, log, "bob"))
		require.Equal(t, []string{"Click eve"}, labels(t, log, "eve"))
	}
	appendOne(t, a, eventlogtest.EraseEntry(t, feed.Erasure{UserID: "ada", SessionIDs: []string{"s"}}))
	for _, log := range []*Log{a, b} {
		require.Empty(t, labels(t, log, "ada"))
		require.Equal(t, [][]string{{"erased"}, {"erased"}, {"erased"}, {"erase"}}, eventlogtest.Told(t, log, acme))
	}
}

func testCloseOne(t *testing.T, a, b *Log) {
	start := newest(t, a)
	ending, going := follow(t, a, start), follow(t, b, start)
	appendOne(t, a, eventlogtest.Entry("s", 0))
	require.NoError(t, a.Close())
	waittest.Receive(t, ending.ended)
	require.ErrorIs(t, ending.stop(), eventlog.ErrClosed)
	require.Len(t, ending.read(), 1)
	appendOne(t, b, eventlogtest.Entry("s", 1))
	going.has(t, 2)
	require.ErrorIs(t, errorOf(a.Read(t.Context(), acme, newest(t, a), make([]eventlog.Entry, 1))), eventlog.ErrClosed)
	require.Equal(t, newest(t, b), newest(t, a), "bounds are those in Redis")
}

func TestPrefixes_keepApart(t *testing.T) {
	url := redistest.Start(t).URL()
	a, b := open(t, url, &Options{Prefix: "a"}), open(t, url, &Options{Prefix: "a:b"})
	appendOne(t, a, entry("s", "ada"))
	start := newest(t, b)
	require.Empty(t, eventlogtest.ReadAll(t, b, acme, start, 50))
	require.Empty(t, labels(t, b, "ada"))
	write(t, a, document.Put(document.Document{Name: "doc"}, nil, 0))
	require.Empty(t, listed(t, b, ""))
	r := follow(t, b, start)
	appendOne(t, a, entry("s", "ada"))
	appendOne(t, b, entry("s", "bob"))
	require.Contains(t, string(r.has(t, 1)[0].Data), "bob")
}

// If a server drops a product, its readers get a gap at once, also for entries that this server has not heard of.
func TestDrop_isAGapForReadersOfTheSameServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--user", "mute", "on", "nopass", "~*", "resetchannels", "+@all")
	log := open(t, server.URL(), nil)
	mute := opened(t, "redis://mute:any@"+server.Addr, &Options{Prefix: t.Name()})
	for n := range 30 {
		id := fmt.Sprint("product", n)
		entries := []eventlog.Entry{eventlogtest.Entry("s", 0)}
		require.NoError(t, log.Append(t.Context(), id, entries))
		readsNothing(t, log, id, entries[0].ID)
		require.NoError(t, mute.Append(t.Context(), id, []eventlog.Entry{eventlogtest.Entry("s", 1)}))
		require.NoError(t, log.Drop(t.Context(), id, 0))
		_, err := log.Read(t.Context(), id, entries[0].ID, make([]eventlog.Entry, 1))
		require.ErrorAs(t, err, new(*eventlog.GapError))
	}
}

// A server's readers get its own entries from its memory, though a message announces them before
// the append is answered.
func TestAppend_isNotReadBackByItsOwnServer(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), nil)
	r := follow(t, log, newest(t, log))
	appended := 0
	reads := func(n int) int {
		before := commands(t, server, "xrange")
		require.NoError(t, log.Append(t.Context(), acme, eventlogtest.Entries(fmt.Sprint("from", appended), n)))
		appended += n
		r.has(t, appended)
		return commands(t, server, "xrange") - before
	}
	waittest.Until(t, "messages are received", func() bool { return reads(1) == 0 })
	const calls = 50
	sum := 0
	for range calls {
		sum += reads(100)
	}
	require.Less(t, sum, calls/5, "it looks when it has not heard anything for long")

	start, into := newest(t, log), make([]eventlog.Entry, 2)
	appendOne(t, log, entry("s", "ada"))
	appendOne(t, log, eventlogtest.EraseEntry(t, feed.Erasure{UserID: "ada", SessionIDs: []string{"s"}}))
	n, err := log.Read(t.Context(), acme, start, into)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Contains(t, string(into[0].Data), `"type":"erased"`, "its own erasures hold in its memory, too")
}

// Servers whose clocks differ agree on the time: from the first connection on it is the time of Redis.
func TestServers_agreeOnTheTime(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		for name, ahead := range map[string]time.Duration{"fast": time.Hour, "slow": -time.Hour, "right": 0} {
			t.Run(name, func(t *testing.T) {
				log := opened(t, url, &Options{Prefix: "clock"})
				log.clock.local = func() time.Time { return time.Now().Add(ahead) }
				require.NoError(t, log.Ping(t.Context()))
				assert.WithinDuration(t, time.Now(), log.Now(), 10*time.Second)
			})
		}
	})
}

// A log's clock is steady. A step of the wall clock shows only as a difference between the two.
func TestNow_followsNoStepOfTheWallClock(t *testing.T) {
	log := opened(t, "redis://127.0.0.1:1", nil)
	assert.NotContains(t, log.Now().String(), " m=", "a monotonic part would hide the difference")
	assert.WithinDuration(t, time.Now().Round(0), log.Now(), time.Minute)
}

// The bounds of a log and its first entries take Redis as long with many entries as with few.
func TestRead_doesNotWalkTheLog(t *testing.T) {
	t.Parallel()
	const calls, few, many = 20, 500, 20_000
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
					n, err := log.Read(t.Context(), acme, after, into)
					require.NoError(t, err)
					require.Equal(t, 1, n)
				}
			}))
		}
		return bounds, read
	}
	fill := func(from, to int) {
		for i := from; i < to; i += few {
			require.NoError(t, log.Append(t.Context(), acme, eventlogtest.Entries(fmt.Sprint("s", i), few)))
		}
	}
	fill(0, few)
	// The first entries are no longer in the memory of another server.
	log = open(t, server.URL(), &Options{Prefix: t.Name(), TailBytes: 1})
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

// open returns a log that runs, in a space of its own, and is released at the
// end of the test. The options may be nil.
func open(t testing.TB, url string, o *Options) *Log {
	t.Helper()
	set := *cmp.Or(o, &Options{})
	set.Prefix = cmp.Or(set.Prefix, t.Name())
	log := opened(t, url, &set)
	stop := waittest.Run(t, func(ctx context.Context) error { return log.Run(ctx, nil) })
	t.Cleanup(func() { require.NoError(t, stop()) })
	return log
}

// opened returns a log that does not run: it does not hear of the commits of others.
func opened(t testing.TB, url string, o *Options) *Log {
	t.Helper()
	log, err := Open(url, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Release()) })
	return log
}

// onEach runs the test on every kind of Redis that there is: a single server,
// a cluster, and Valkey where it is installed.
func onEach(t *testing.T, test func(t *testing.T, url string)) {
	onSingle(t, test)
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t)[0].URL()) })
}

// onSingle is onEach without a cluster. A node of a cluster runs the same scripts, and finds the
// keys that TestLog and TestDocuments use wherever it may find any.
func onSingle(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("single", func(t *testing.T) { test(t, redistest.Start(t).URL()) })
	if valkey, err := exec.LookPath("valkey-server"); err == nil {
		t.Run("valkey", func(t *testing.T) { test(t, redistest.StartBinary(t, valkey).URL()) })
	}
}

func TestLog(t *testing.T) {
	on := func(url string) func(t *testing.T, r eventlog.Retention) eventlog.Log {
		return func(t *testing.T, r eventlog.Retention) eventlog.Log { return open(t, url, &Options{Retention: r}) }
	}
	for name, suite := range map[string]func(t *testing.T, url string){
		"Log":     func(t *testing.T, url string) { eventlogtest.TestLog(t, on(url)) },
		"State":   func(t *testing.T, url string) { eventlogtest.TestState(t, on(url)) },
		"Storage": func(t *testing.T, url string) { eventlogtest.TestStorage(t, "redis", on(url)) },
		"Activity": func(t *testing.T, url string) {
			eventlogtest.TestActivity(t, func(t *testing.T, o activitytest.Options) eventlog.Log {
				return open(t, url, &Options{Retention: eventlog.Retention{TTL: o.TTL, StateMaxBytes: 2 * o.MaxBytes},
					MaxEvents: o.MaxEvents})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSingle(t, suite)
		})
	}
}

// A process that does not run its log, and has hardly any of it in memory, reads the rest from
// Redis, with the same outcome.
func TestLog_isReadFromACluster(t *testing.T) {
	t.Parallel()
	url := redistest.Cluster(t)[0].URL()
	eventlogtest.TestLog(t, func(t *testing.T, r eventlog.Retention) eventlog.Log {
		return opened(t, url, &Options{Retention: r, Prefix: t.Name(), TailBytes: 1})
	})
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		documenttest.TestStore(t, func(t *testing.T) document.Store {
			return open(t, url, nil).Documents()
		})
	})
}

package redislog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// outages are ways in which Redis can be away, and come back.
var outages = []struct {
	name       string
	begin, end func(*redistest.Server)
	lasts      time.Duration // so that calls meet with it
}{
	{"killed", (*redistest.Server).Kill, (*redistest.Server).Restart, 500 * time.Millisecond},
	// Calls time out, and yet are carried out later.
	{"paused", (*redistest.Server).Pause, (*redistest.Server).Resume, 2500 * time.Millisecond},
}

// calls are all the calls that need Redis.
func calls(log *Log, n int) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Append": func(ctx context.Context) error {
			return log.Append(ctx, acme, []eventlog.Entry{eventlogtest.Entry("call", n)})
		},
		"Bounds": func(ctx context.Context) error { return errorOf(log.Bounds(ctx, acme)) },
		"Read": func(ctx context.Context) error {
			err := errorOf(log.Read(ctx, acme, eventlog.ID{Milli: 1}, make([]eventlog.Entry, 1)))
			if errors.As(err, new(*eventlog.GapError)) {
				return nil
			}
			return err
		},
		"Read of a product that is new": func(ctx context.Context) error {
			return errorOf(log.Read(ctx, fmt.Sprint("new", n), eventlog.ID{Milli: 1 << 50}, make([]eventlog.Entry, 1)))
		},
		"Recent": func(ctx context.Context) error {
			return errorOf(log.Activity().Recent(ctx, acme, recent.Subject{UserID: "ada"}, 10))
		},
		"Get": func(ctx context.Context) error { return errorOf(log.Documents().Get(ctx, acme, "doc")) },
		"Write": func(ctx context.Context) error {
			put := document.Put(document.Document{Name: fmt.Sprint("doc", n)}, nil, time.Hour)
			return errorOf(log.Documents().Write(ctx, acme, put))
		},
		"List": func(ctx context.Context) error { return errorOf(log.Documents().List(ctx, acme, "", "", 10)) },
		"Ping": log.Ping,
	}
}

func errorOf(_ any, err error) error { return err }

func TestOutage_makesEveryCallFailSoonAndThenWorkAgain(t *testing.T) {
	t.Parallel()
	for _, outage := range outages {
		t.Run(outage.name, func(t *testing.T) {
			server := redistest.Start(t)
			log := open(t, server.URL(), nil)
			allWork(t, log, 0)
			outage.begin(server)
			for round := range 2 {
				requireFailures(t, log, 100*(round+1))
			}
			assert.Empty(t, log.Stats())
			outage.end(server)
			for name := range calls(log, 0) {
				n := 300
				waittest.Until(t, name+" works again", func() bool {
					n++
					return calls(log, n)[name](t.Context()) == nil
				})
			}
			require.NotEmpty(t, log.Stats())
		})
	}
}

func allWork(t *testing.T, log *Log, n int) {
	t.Helper()
	for name, call := range calls(log, n) {
		require.NoError(t, call(t.Context()), name)
	}
}

// requireFailures makes every call more often at once than there are connections and than commits
// share a round trip. It requires that none waits for the failures of others, which take seconds each.
func requireFailures(t *testing.T, log *Log, n int) {
	t.Helper()
	var calling sync.WaitGroup
	for i := range 80 {
		for name, call := range calls(log, n+i) {
			calling.Go(func() {
				began := time.Now()
				assert.Error(t, call(context.Background()), name)
				assert.Less(t, time.Since(began), waittest.Patience, name)
			})
		}
	}
	calling.Wait()
}

// After any outage of Redis, every acknowledged entry is there once, and every reader gets all entries in order.
func TestOutage_losesNothing(t *testing.T) {
	t.Parallel()
	const n, each = 80, 3
	for _, outage := range outages {
		t.Run(outage.name, func(t *testing.T) {
			server := redistest.Start(t)
			a, b := pair(t, server.URL(), nil)
			start := newest(t, a)
			readers := []*reader{follow(t, a, start), follow(t, b, start), follow(t, b, start)}
			var writers []*writer
			var writing sync.WaitGroup
			for i := range 2 * each {
				w, log := &writer{name: fmt.Sprint("w", i)}, []*Log{a, b}[i%2]
				writers = append(writers, w)
				writing.Go(func() { assert.NoError(t, w.write(t.Context(), log, 0, n)) })
			}
			for round := range 2 {
				readers[round].has(t, (round+1)*n/2)
				outage.begin(server)
				time.Sleep(outage.lasts)
				outage.end(server)
			}
			writing.Wait()
			for _, r := range readers {
				got := r.has(t, n*len(writers))
				requireAll(t, got, n, writers...)
				require.Zero(t, r.gaps)
			}
		})
	}
}

func TestOutage_ofAClusterNode(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	log := open(t, nodes[0].URL()+"?addr="+nodes[1].Addr+"&addr="+nodes[2].Addr, nil)
	r := follow(t, log, newest(t, log))
	w := writer{name: "w"}
	require.NoError(t, w.write(t.Context(), log, 0, 20))
	for i, node := range nodes {
		node.Kill()
		waittest.Until(t, "a node is missed", func() bool { return log.Ping(t.Context()) != nil })
		node.Restart()
		require.NoError(t, w.write(t.Context(), log, 20*(i+1), 20*(i+2)))
		waittest.Until(t, "all nodes answer", func() bool { return log.Ping(t.Context()) == nil })
	}
	requireAll(t, r.has(t, 80), 80, &w)
}

// A server may start before its Redis.
func TestOutage_mayBeAtTheStart(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	log := open(t, server.URL(), nil)
	require.ErrorContains(t, log.Ping(t.Context()), server.Addr)
	r := follow(t, log, eventlog.ID{Milli: 1 << 50})
	server.Restart()
	waittest.Until(t, "Redis answers", func() bool { return log.Ping(t.Context()) == nil })
	appendOne(t, log, eventlogtest.Entry("s", 0))
	require.Empty(t, r.read())
	require.Len(t, follow(t, log, eventlog.ID{}).has(t, 1), 1)
}

// While a slot moves, its products are refused, and keep their entries.
func TestCluster_refusesWhileASlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	log := open(t, nodes[0].URL(), nil)
	start := newest(t, log)
	first := appendOne(t, log, entry("s", "ada"))
	slot, err := nodes[0].Client().ClusterKeySlot(t.Context(), "{p:"+acme+"}").Result()
	require.NoError(t, err)
	owner := slices.IndexFunc(nodes, func(node *redistest.Server) bool {
		return node.Client().Exists(t.Context(), t.Name()+":{p:"+acme+"}:meta").Val() == 1
	})
	require.GreaterOrEqual(t, owner, 0)
	other := (owner + 1) % len(nodes)
	idOf := func(node int) string { return nodes[node].Client().Do(t.Context(), "cluster", "myid").Val().(string) }
	move := func(node int, args ...any) {
		t.Helper()
		require.NoError(t, nodes[node].Client().Do(t.Context(), append([]any{"cluster", "setslot", slot}, args...)...).Err())
	}
	move(other, "importing", idOf(owner))
	move(owner, "migrating", idOf(other))
	for range 3 {
		writesFail(t, log)
	}
	move(owner, "stable")
	move(other, "stable")
	second := appendOne(t, log, entry("s", "eve"))
	require.Equal(t, data([]eventlog.Entry{first, second}), data(eventlogtest.ReadAll(t, log, acme, start, 50)))
	require.Empty(t, labels(t, log, "bob"))
	require.Empty(t, listed(t, log, ""))
}

// writesFail requires that neither bob's action nor a document can be written.
func writesFail(t *testing.T, log *Log) {
	t.Helper()
	require.Error(t, log.Append(t.Context(), acme, []eventlog.Entry{entry("s", "bob")}))
	put := document.Put(document.Document{Name: "doc"}, nil, 0)
	require.Error(t, errorOf(log.Documents().Write(t.Context(), acme, put)))
}

func TestScripts_areSentAgainWhenRedisForgetsThem(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), nil)
	for i := range 3 {
		require.NoError(t, server.Client().ScriptFlush(t.Context()).Err())
		allWork(t, log, i)
	}
	start := newest(t, log)
	var writers []*writer
	var writing sync.WaitGroup
	for i := range 8 {
		w := &writer{name: fmt.Sprint("w", i)}
		writers = append(writers, w)
		writing.Go(func() {
			for k := range 20 {
				assert.NoError(t, log.Append(t.Context(), acme, []eventlog.Entry{eventlogtest.Entry(w.name, k)}))
			}
		})
	}
	for range 50 {
		require.NoError(t, server.Client().ScriptFlush(t.Context()).Err())
	}
	writing.Wait()
	requireAll(t, eventlogtest.ReadAll(t, log, acme, start, 50), 20, writers...)
}

// After FLUSHALL the product begins anew: readers get a gap, since they may have
// missed something, and go on. IDs and versions still grow, and views hear of the loss.
func TestFlush_isSurvived(t *testing.T) {
	server := redistest.Start(t)
	a, b := pair(t, server.URL(), nil)
	readers := []*reader{follow(t, a, newest(t, a)), follow(t, b, newest(t, b))}
	last := appendOne(t, a, eventlogtest.Entry("s", 0)).ID
	for _, r := range readers {
		r.has(t, 1)
	}
	put := document.Put(document.Document{Name: "doc"}, nil, 0)
	version := write(t, a, put)
	for round := range 4 {
		require.NoError(t, server.Client().FlushAll(t.Context()).Err())
		if round == 3 {
			require.Negative(t, last.Compare(eventlogtest.Bounds(t, b, acme).Lost), "a read finds it, too")
			continue
		}
		if round == 1 {
			allWork(t, b, round)
			continue
		}
		lost := last
		id := appendOne(t, a, eventlogtest.Entry("s", 0)).ID
		require.Positive(t, id.Compare(last))
		last = id
		for _, log := range []*Log{a, b} {
			require.Negative(t, lost.Compare(eventlogtest.Bounds(t, log, acme).Lost))
		}
		for _, r := range readers {
			r.gets(t, id)
		}
		next := write(t, b, put)
		require.Greater(t, next, version)
		version = next
	}
}

// A refusal by Redis is an error, also of Ping, and the refused call changes nothing.
func TestRefusal_isAnError(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), nil)
	appendOne(t, log, entry("s", "ada"))
	before := newest(t, log)
	set := func(t *testing.T, name, value string) {
		t.Helper()
		require.NoError(t, server.Client().ConfigSet(t.Context(), name, value).Err())
	}
	refuses := func(t *testing.T, why string) {
		t.Helper()
		for range 3 {
			writesFail(t, log)
			require.ErrorContains(t, log.Ping(t.Context()), why)
		}
		require.Equal(t, before, newest(t, log), "what is there can be read")
		require.Equal(t, []string{"Click ada"}, labels(t, log, "ada"))
		require.Empty(t, labels(t, log, "bob"))
	}
	for _, c := range []struct{ name, setting, refusing, usual, why string }{
		{"out of memory", "maxmemory", "1mb", "0", "OOM"},
		{"too few replicas", "min-replicas-to-write", "1", "0", "NOREPLICAS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set(t, c.setting, c.refusing)
			refuses(t, c.why)
			set(t, c.setting, c.usual)
			require.NoError(t, log.Ping(t.Context()))
		})
	}
	t.Run("a replica", func(t *testing.T) {
		master := redistest.Start(t)
		host, port, err := net.SplitHostPort(master.Addr)
		require.NoError(t, err)
		client := server.Client()
		// It is configured to follow a master that it never reaches, so it keeps its data.
		master.Kill()
		require.NoError(t, client.ReplicaOf(t.Context(), host, port).Err())
		demoted := log.client.Load()
		refuses(t, "READONLY")
		require.NotSame(t, demoted, log.client.Load(), "the name in the URL may lead to the new master")
		waittest.Until(t, "the connections are closed", func() bool {
			return errors.Is(demoted.Ping(t.Context()).Err(), redis.ErrClosed)
		})
		require.NoError(t, client.ReplicaOf(t.Context(), "no", "one").Err())
	})
	appendOne(t, log, entry("s", "eve"))
}

// A Redis that evicts keys refuses nothing, so nothing else would tell.
func TestEviction_isWarnedOf(t *testing.T) {
	server := redistest.Start(t)
	for _, c := range []struct{ memory, policy, warns string }{
		{"100mb", "noeviction", ""}, {"0", "allkeys-lru", ""}, {"100mb", "volatile-lru", "maxmemory_policy=volatile-lru"},
	} {
		require.NoError(t, server.Client().ConfigSet(t.Context(), "maxmemory", c.memory).Err())
		require.NoError(t, server.Client().ConfigSet(t.Context(), "maxmemory-policy", c.policy).Err())
		var logged logtest.Buffer
		log := opened(t, server.URL(), &Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		for range 2 {
			require.NoError(t, log.Ping(t.Context()))
		}
		require.Equal(t, min(len(c.warns), 1), strings.Count(logged.String(), "\n"), "%s", &logged)
		require.Contains(t, logged.String(), c.warns)
	}
}

// While the client is made, another call that uses it may find out that it leads to a replica.
func TestRedis_returnsTheClientThatIsGivenUpMeanwhile(t *testing.T) {
	server := redistest.Start(t)
	require.NoError(t, server.Client().ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	require.NoError(t, server.Client().ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err())
	var log *Log
	log = opened(t, server.URL(), &Options{Logger: slog.New(slog.NewTextHandler(onWrite(func() {
		log.renewAfter(readOnly{})
	}), nil))})
	require.NoError(t, log.Ping(t.Context()))
}

// onWrite is called for each line of a log.
type onWrite func()

func (f onWrite) Write(line []byte) (int, error) { f(); return len(line), nil }

type readOnly struct{}

func (readOnly) Error() string { return "READONLY You can't write against a read only replica." }
func (readOnly) RedisError()   {}

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
		for _, log := range []*Log{a, b} {
			source := musttest.New(eventlog.NewSource(log, id))
			go func() {
				_ = source.Follow(t.Context(), "", time.Time{}, func(feed.Event) error { return nil })
			}()
		}
	}
	waittest.Until(t, "all products are watched", func() bool { return a.watched()+b.watched() == 2*products })
	read := func() {
		for id, end := range ends { // as heartbeats do
			for _, log := range []*Log{a, b} {
				readsNothing(t, log, id, end)
			}
		}
	}
	read()
	a.rest(time.Hour)
	b.rest(time.Hour)
	before := commands(t, server, "")
	read()
	const seconds = 3
	time.Sleep(seconds * time.Second)
	spent := commands(t, server, "") - before
	t.Logf("%d commands in %d s", spent, seconds)
	require.Less(t, spent, products, "the servers' own: the time each second, and whether the subscription is alive")
}

// commands returns how many commands of that name, "" for all, a server has been sent or has called in scripts.
func commands(t *testing.T, server *redistest.Server, name string) (n int) {
	t.Helper()
	info, err := server.Client().Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		if _, calls, ok := strings.Cut(line, name+":calls="); ok {
			var c int
			require.NoError(t, errorOf(fmt.Sscan(calls[:strings.IndexByte(calls, ',')], &c)))
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
	log := open(t, server.URL(), &Options{Logger: slog.New(slog.NewTextHandler(&ours, nil))})
	for range 50 {
		require.ErrorContains(t, log.Ping(t.Context()), "connection refused")
	}
	require.Equal(t, 1, strings.Count(ours.String(), "\n"), "an outage makes one line a minute: %s", &ours)
	require.Contains(t, ours.String(), "cannot connect to Redis")
	require.Contains(t, ours.String(), server.Addr)
	require.NotContains(t, theirs.String(), "dial")
}

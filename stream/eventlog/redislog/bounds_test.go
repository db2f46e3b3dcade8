package redislog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// used returns how many bytes Redis uses for its keys.
func used(t *testing.T, client *redis.Client) (bytes int64) {
	t.Helper()
	pipe := client.Pipeline()
	for _, key := range client.Keys(t.Context(), "*").Val() {
		pipe.MemoryUsage(t.Context(), key, 0)
	}
	sizes, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	const table = 56 // bytes of the tables of keys and of expiry for each
	for _, size := range sizes {
		bytes += size.(*redis.IntCmd).Val() + table
	}
	return bytes
}

// put writes documents of a name's kind, a hundred at a time.
func put(t *testing.T, log *Log, kind string, n, size int, ttl time.Duration) {
	t.Helper()
	for i := 0; i < n; i += 100 {
		var changes []document.Change
		for k := i; k < min(n, i+100); k++ {
			name := fmt.Sprintf("%s/0194c3f0-%08d", kind, k)
			changes = append(changes, document.Put(document.Document{Name: name}, []byte(strings.Repeat("x", size)), ttl))
		}
		write(t, log, changes...)
	}
}

// Documents of any size take at most a quarter more memory in Redis than their bound. The oldest go
// first, and documents without a time to live never go.
func TestState_ofDocumentsIsBoundedInRedis(t *testing.T) {
	const limit = 1 << 20
	for _, size := range []int{0, 100, 3000} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			server := redistest.Start(t, "--appendonly", "no")
			client := server.Client()
			log := open(t, server.URL(), &Options{Prefix: "la", Retention: eventlog.Retention{StateMaxBytes: 2 * limit}})
			put(t, log, "registration", 1, 10, 0)
			put(t, log, "first", 1, 10, time.Hour)
			before := used(t, client)
			put(t, log, "session", 3*limit/(size+500), size, time.Hour)
			require.Less(t, used(t, client)-before, int64(limit*5/4))
			require.Greater(t, used(t, client)-before, int64(limit/2))
			require.Len(t, listed(t, log, "registration/"), 1)
			require.Empty(t, listed(t, log, "first/"))
		})
	}
}

func TestState_ofActivityIsBoundedInRedis(t *testing.T) {
	const limit = 1 << 20
	for _, each := range []int{1, 20} {
		t.Run(fmt.Sprint(each, " actions of a user"), func(t *testing.T) {
			server := redistest.Start(t, "--appendonly", "no")
			client := server.Client()
			log := open(t, server.URL(), &Options{Prefix: "la",
				Retention: eventlog.Retention{StateMaxBytes: 2 * limit, MaxBytes: 256 << 10}})
			appendOne(t, log, entry("session of first", slices.Repeat([]string{"first"}, each)...))
			for i := 0; i < 2500/each; i += 20 {
				var entries []eventlog.Entry
				for n := range 20 {
					user := fmt.Sprintf("user%08d", i+n)
					entries = append(entries, entry("session of "+user, slices.Repeat([]string{user}, each)...))
				}
				require.NoError(t, log.Append(t.Context(), acme, entries))
			}
			require.Less(t, used(t, client), int64(limit*5/4+3<<18), "and the log")
			require.Empty(t, labels(t, log, "first"))
			require.Len(t, labels(t, log, fmt.Sprintf("user%08d", 2500/each-1)), each)
		})
	}
}

// Rewriting and deleting documents leaves nothing counted.
func TestState_isCountedRight(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), &Options{Prefix: "la"})
	for i := range 50 {
		doc := document.Document{Name: fmt.Sprint("doc", i)}
		for k := range 5 {
			doc.Version = write(t, log, document.Put(doc, make([]byte, 700*k*i), time.Hour))
		}
		write(t, log, document.Touch(doc, 2*time.Hour))
		write(t, log, document.Delete(doc))
	}
	require.Equal(t, "0", server.Client().HGet(t.Context(), "la:{p:acme}:meta", "docs").Val())
}

// Expired documents and entries are soon counted no longer, even where nothing is written any more.
func TestState_isCountedAgain(t *testing.T) {
	t.Parallel()
	log := open(t, redistest.Start(t).URL(), &Options{Retention: eventlog.Retention{TTL: time.Second}})
	put(t, log, "registration", 1, 10, 0)
	kept, err := log.Storage(t.Context(), acme)
	require.NoError(t, err)
	put(t, log, "session", 1000, 10, 10*time.Millisecond)
	appendOne(t, log, entry("s", "ada", "bob"))
	waittest.Until(t, "only the registration is counted", func() bool {
		now, err := log.Storage(t.Context(), acme)
		require.NoError(t, err)
		return now == kept
	})
}

// The sizes of the rest are added up once what has expired is gone.
func TestState_isCountedRightBesideExpiredActivity(t *testing.T) {
	server := redistest.Start(t)
	log := opened(t, server.URL(), &Options{Prefix: "la"})
	const sessions = 1000
	var entries []eventlog.Entry
	for i := range sessions {
		entries = append(entries, entry(fmt.Sprint("s", i), fmt.Sprint("user", i)))
	}
	require.NoError(t, log.Append(t.Context(), acme, entries))
	client, order := server.Client(), "la:{p:acme}:acts"
	half := client.ZRangeWithScores(t.Context(), order, 0, sessions-1).Val()
	for i := range half {
		half[i].Score = 1
	}
	require.NoError(t, client.ZAdd(t.Context(), order, half...).Err())
	var counted [2]eventlog.Storage
	for i := range counted {
		require.NoError(t, log.product(acme).tidyAll(t.Context()))
		counted[i] = musttest.New(log.Storage(t.Context(), acme))
		require.Equal(t, int64(sessions), client.ZCard(t.Context(), order).Val())
	}
	require.Equal(t, counted[1], counted[0])
}

// The real size of its entries bounds the log, also when they grow.
func TestLog_isBoundedWhenEntriesGrow(t *testing.T) {
	const limit = 2 << 20
	server := redistest.Start(t, "--appendonly", "no")
	client := server.Client()
	log := open(t, server.URL(), &Options{Prefix: "la", Retention: eventlog.Retention{MaxBytes: limit}})
	for i := range 80 {
		require.NoError(t, log.Append(t.Context(), acme, eventlogtest.Entries(fmt.Sprint("small", i), 100)))
	}
	require.Less(t, used(t, client), int64(limit*5/4))
	for i := range 60 {
		appendOne(t, log, eventlogtest.Sized(eventlogtest.Entry("large", i), 60<<10))
		require.LessOrEqual(t, log.Stats()[acme].Bytes, int64(limit))
	}
	require.Less(t, used(t, client), int64(limit*5/4))
	stats := log.Stats()[acme]
	require.Equal(t, int64(8060), int64(stats.Entries)+stats.Dropped)
	require.InEpsilon(t, client.MemoryUsage(t.Context(), "la:{p:acme}:log", 0).Val(), stats.Bytes, 0.5)
}

// Entries that are too old go, however little is appended after them.
func TestExpiry_isDoneUnderATrickle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), &Options{Retention: eventlog.Retention{TTL: time.Second}, Prefix: "la"})
	for i := range 30 {
		require.NoError(t, log.Append(t.Context(), acme, eventlogtest.Entries(fmt.Sprint("s", i), 100)))
	}
	waittest.Until(t, "what is too old is gone", func() bool {
		time.Sleep(200 * time.Millisecond) // it is a trickle
		appendOne(t, log, entry("new", fmt.Sprint(time.Now().UnixNano())))
		length := server.Client().XLen(t.Context(), "la:{p:acme}:log").Val()
		seen, err := server.Client().SCard(t.Context(), "la:{p:acme}:seen").Result()
		return err == nil && length < 30 && seen == length
	})
}

// IDs of a clock that was ahead do not keep entries for longer.
func TestExpiry_goesByTheClockNotByTheIDs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), &Options{Retention: eventlog.Retention{TTL: time.Second}, Prefix: "la"})
	ahead := eventlog.ID{Milli: uint64(time.Now().Add(48 * time.Hour).UnixMilli())}
	appendOne(t, log, eventlogtest.Entry("s", 0))
	require.NoError(t, server.Client().HSet(t.Context(), "la:{p:acme}:meta", "newest", ahead.String()).Err())
	e := appendOne(t, log, eventlogtest.Entry("s", 1))
	require.Positive(t, e.ID.Compare(ahead))
	i := 1
	waittest.Until(t, "the entry has expired", func() bool {
		i++
		appendOne(t, log, eventlogtest.Entry("s", i)) // so that the log does not expire as a whole
		time.Sleep(200 * time.Millisecond)
		return eventlogtest.Bounds(t, log, acme).TrimmedTo.Compare(e.ID) >= 0
	})
	appendOne(t, log, eventlogtest.Entry("s", 1)) // its key is free again
}

// All data of a product is dropped, however much it is, and no data of another.
func TestDrop_isDoneInSteps(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), &Options{Prefix: "la"})
	require.NoError(t, log.Append(t.Context(), "other", []eventlog.Entry{entry("s", "ada")}))
	size := server.Client().DBSize(t.Context()).Val()
	put(t, log, "doc", 1000, 1, time.Hour)
	for i := range 400 {
		appendOne(t, log, entry(fmt.Sprint("s", i), fmt.Sprint("user", i)))
	}
	require.NoError(t, log.Drop(t.Context(), acme, 0))
	require.Positive(t, size)
	require.Equal(t, size+1, server.Client().DBSize(t.Context()).Val(), "but for what IDs and versions go on from")
}

// A call ends with its context, at any point of its wait.
func TestOutage_endsWaitingWithTheContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), nil)
	appendOne(t, log, eventlogtest.Entry("s", 0))
	server.Pause()
	defer server.Resume()
	const rounds = 4
	began := time.Now()
	waittest.Together(64, func(i int) {
		for range rounds {
			all := calls(log, i)
			for _, call := range []func(context.Context) error{all["Append"], all["Write"]} {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				assert.Error(t, call(ctx))
				cancel()
			}
		}
	})
	assert.Less(t, time.Since(began), rounds*2*2*time.Second, "the client's own time-out is two seconds a call")
}

// A waiting reader gets entries that were not announced, and soon if that is because the subscription was lost.
func TestRead_ofAWaitingReader_needsNoMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--user", "mute", "on", "nopass", "~*", "resetchannels", "+@all")
	log := open(t, server.URL(), nil)
	mute := opened(t, "redis://mute:any@"+server.Addr, &Options{Prefix: t.Name()})
	r := follow(t, log, newest(t, log))
	waittest.Until(t, "nothing is left to read", func() bool {
		return len(eventlogtest.ReadAll(t, log, acme, newest(t, log), 50)) == 0
	})
	time.Sleep(50 * time.Millisecond) // it waits
	appendOne(t, mute, eventlogtest.Entry("s", 0))
	r.has(t, 1)
	log.rest(time.Hour)
	appendOne(t, mute, eventlogtest.Entry("s", 1))
	require.NoError(t, server.Client().ClientKillByFilter(t.Context(), "type", "pubsub").Err())
	r.has(t, 2)
}

// A subscription in which nothing is announced goes on for as long as Redis answers, and no longer.
func TestSubscription_goesOnWhileRedisAnswers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), nil)
	waittest.Until(t, "it begins", func() bool { return log.following.Load() != nil })
	began := log.following.Load()
	time.Sleep(2*pingInterval + time.Second)
	require.Same(t, began, log.following.Load())
	server.Pause()
	defer server.Resume()
	waittest.Until(t, "it ends", func() bool { return log.following.Load() == nil })
}

// The entries of all products in the memory of a process are bounded together, also the entries
// that it read from Redis. Nothing is lost by it.
func TestTails_areBoundedTogether(t *testing.T) {
	t.Parallel()
	const products, each, total = 20, 30, 256 << 10
	server := redistest.Start(t)
	opts := &Options{Prefix: "tails", Retention: eventlog.Retention{TotalBytes: total}}
	writer, reader := open(t, server.URL(), opts), open(t, server.URL(), opts)
	for n := range each {
		for p := range products {
			require.NoError(t, writer.Append(t.Context(), fmt.Sprint(p),
				[]eventlog.Entry{eventlogtest.Sized(eventlogtest.Entry("a", n), 2000)}))
			require.LessOrEqual(t, writer.tailBytes(), int64(total))
		}
	}
	require.Greater(t, writer.tailBytes(), int64(total*3/4), "the room is used")
	for _, log := range []*Log{writer, reader} {
		for p := range products {
			require.Len(t, eventlogtest.ReadAll(t, log, fmt.Sprint(p), eventlog.ID{}, each), each)
			require.LessOrEqual(t, log.tailBytes(), int64(total))
		}
	}
}

// brief is a retention that is over soon.
var brief = eventlog.Retention{TTL: 100 * time.Millisecond}

// fillWithDocuments appends entries of 20 users, the erasure of one, and as many documents that live as long.
func fillWithDocuments(t *testing.T, log *Log, ttl time.Duration) {
	t.Helper()
	var entries []eventlog.Entry
	var changes []document.Change
	for i := range 20 {
		entries = append(entries, entry(fmt.Sprint("session", i), fmt.Sprint("user", i), "ada"))
		changes = append(changes, document.Put(document.Document{Name: fmt.Sprint("doc", i)}, []byte("x"), ttl))
	}
	entries = append(entries, eventlogtest.EraseEntry(t, feed.Erasure{UserID: "user0", SessionIDs: []string{"session0"}}))
	require.NoError(t, log.Append(t.Context(), acme, entries, changes...))
}

// Every other key has a time to live, so that this needs no server that runs.
func TestExpiry_leavesOnlyPermanentKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := opened(t, server.URL(), &Options{Retention: brief, Prefix: "la"})
	client := server.Client()
	fillWithDocuments(t, log, brief.TTL)
	waittest.Until(t, "only the product's key is left, and the format", func() bool {
		keys, err := client.Keys(t.Context(), "*").Result()
		slices.Sort(keys)
		return err == nil && slices.Equal(keys, []string{"la:format", "la:{p:acme}:meta"})
	})
	require.Equal(t, map[string]eventlog.Stats{acme: {}}, log.Stats())
	appendOne(t, log, entry("session", "ada"))
	require.Equal(t, 1, log.Stats()[acme].Entries)
}

// Redis does one thing at a time, and would free an expired key of a large product at once.
func TestExpiry_leavesNoLargeKeyToRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := opened(t, server.URL(), &Options{Retention: brief, Prefix: "la"})
	fillWithDocuments(t, log, brief.TTL)
	p := log.product(acme)
	p.tidied(time.Now())
	require.False(t, p.untidy(p.tidiedAt))
	expiry := p.committedAt.Add(brief.TTL + 2*time.Millisecond)
	require.True(t, p.untidy(expiry), "long before the keys expire")
	time.Sleep(time.Until(expiry))
	require.NoError(t, p.tidyAll(t.Context()))
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Subset(t, []string{"la:format", "la:{p:acme}:meta", "la:{p:acme}:torn"}, keys)
}

// Each write puts off the end of the keys to which it adds, to 9/8 of the retention.
func TestExpiry_isPutOffByEachWrite(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := opened(t, server.URL(), &Options{Retention: eventlog.Retention{TTL: time.Hour}, Prefix: "la"})
	client := server.Client()
	appendOne(t, log, entry("session", "ada"))
	keys := client.Keys(t.Context(), "la:{p:acme}:*").Val()
	keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":meta") })
	require.NotEmpty(t, keys)
	for _, key := range keys {
		require.NoError(t, client.Expire(t.Context(), key, time.Minute).Err())
	}
	appendOne(t, log, entry("session", "ada"))
	for _, key := range keys {
		require.InDelta(t, 9*time.Hour/8, client.TTL(t.Context(), key).Val(), float64(time.Minute), key)
	}
}

// Anybody may name a product, in a token that nobody issued.
func TestDocuments_ofUnknownProductsTakeNoMemory(t *testing.T) {
	t.Parallel()
	log := open(t, redistest.Start(t).URL(), nil)
	for i := range 10 {
		require.NoError(t, errorOf(log.Documents().Get(t.Context(), fmt.Sprint("product", i), "doc")))
	}
	require.Empty(t, log.products.All())
}

// Expired documents leave no names behind, though others stay.
func TestExpiry_forgetsNamesOfDocuments(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), &Options{Prefix: "la"})
	client := server.Client()
	write(t, log, document.Put(document.Document{Name: "immortal"}, nil, 0))
	for i := range 300 {
		write(t, log, document.Put(document.Document{Name: fmt.Sprint("doc", i)}, nil, 5*time.Millisecond))
	}
	names := func() int64 { return client.ZCard(t.Context(), "la:{p:acme}:names").Val() }
	require.Less(t, names(), int64(300))
	time.Sleep(10 * time.Millisecond) // they are over
	require.Len(t, listed(t, log, ""), 1)
	require.Equal(t, int64(1), names())
}

// Redis does one thing at a time: the actions of a session that goes as a whole are not read first.
func TestAppend_erasesASessionWithoutReadingItsActions(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), nil)
	const sessions = 20
	gone := feed.Erasure{UserID: "ada", SessionIDs: []string{}}
	for i := range sessions {
		gone.SessionIDs = append(gone.SessionIDs, fmt.Sprint("s", i))
		appendOne(t, log, entry(gone.SessionIDs[i], "ada"))
	}
	require.Len(t, labels(t, log, "ada"), sessions)
	before := commands(t, server, "hgetall")
	appendOne(t, log, eventlogtest.EraseEntry(t, gone))
	require.Less(t, commands(t, server, "hgetall")-before, sessions)
	require.Empty(t, labels(t, log, "ada"))
}

func TestAppend_readsASharedSessionOnceToEraseItsPart(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), nil)
	const sessions = 20
	gone := feed.Erasure{UserID: "ada", SessionIDs: []string{}, Kept: map[string][]string{}}
	for i := range sessions {
		id := fmt.Sprint("s", i)
		gone.SessionIDs, gone.Kept[id] = append(gone.SessionIDs, id), []string{"bob"}
		appendOne(t, log, entry(id, "ada", "bob"))
	}
	before := commands(t, server, "hgetall")
	appendOne(t, log, eventlogtest.EraseEntry(t, gone))
	require.Less(t, commands(t, server, "hgetall")-before, sessions+5)
	require.Empty(t, labels(t, log, "ada"))
	require.Len(t, labels(t, log, "bob"), sessions)
}

// The commit after a large deletion is not slow.
func TestWrite_afterManyDeletions_removesTheirTracesTogether(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), &Options{Prefix: "la"})
	put(t, log, "doc", 300, 1, time.Hour)
	var changes []document.Change
	for _, doc := range listed(t, log, "doc/") {
		changes = append(changes, document.Delete(doc))
	}
	write(t, log, changes...)
	before := commands(t, server, "unlink")
	write(t, log, document.Put(document.Document{Name: changes[0].Name}, nil, time.Hour)) // it is there again
	require.Less(t, commands(t, server, "unlink")-before, 10)
	require.Len(t, listed(t, log, "doc/"), 1)
	require.Len(t, server.Client().Keys(t.Context(), "la:{p:acme}:doc:*").Val(), 1)
}

// Redis does one thing at a time: sessions that grow together do not lose their oldest actions together.
func TestAppend_doesNotCompactManySessionsAtOnce(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), &Options{MaxEvents: 20})
	const sessions = 60
	total := 0
	for range 100 {
		var entries []eventlog.Entry
		for i := range sessions {
			entries = append(entries, entry(fmt.Sprint("s", i), fmt.Sprint("user", i)))
		}
		before := commands(t, server, "hgetall")
		require.NoError(t, log.Append(t.Context(), acme, entries))
		compacted := commands(t, server, "hgetall") - before - 1 // meta
		require.Less(t, compacted, sessions/2)
		total += compacted
	}
	require.GreaterOrEqual(t, total, sessions, "as many as if each was compacted")
}

// A server that starts applies all erasures, however many, but Redis does not read them in one step.
func TestRead_appliesManyErasures(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), &Options{Prefix: "la"})
	const people = 2*maxErasures + 1
	entries := make([]eventlog.Entry, 2*people)
	for i := range people {
		user := fmt.Sprint("user", i)
		entries[i] = entry("session of "+user, user)
		entries[people+i] = eventlogtest.EraseEntry(t, feed.Erasure{UserID: user, SessionIDs: []string{"session of " + user}})
	}
	require.NoError(t, log.Append(t.Context(), acme, entries))
	started := open(t, server.URL(), &Options{Prefix: "la"})
	reply, err := started.eval(t.Context(), readScript, []string{"la:{p:acme}:meta", "la:{p:acme}:log"},
		milliseconds(time.Hour), "0-0", 0, 0, "0-0", "0-0", "0-0", maxErasures)
	require.NoError(t, err)
	require.Len(t, reply[5], 2*maxErasures)
	for _, e := range eventlogtest.ReadAll(t, started, acme, eventlog.ID{}, len(entries))[:people] {
		require.NotContains(t, string(e.Data), "user")
	}
}

package redislog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// brief is a retention that is over soon.
var brief = eventlog.Retention{TTL: 100 * time.Millisecond}

// fillWithDocuments appends entries of 20 users, and as many documents that live
// as long.
func fillWithDocuments(t *testing.T, log *redislog.Log, ttl time.Duration) {
	t.Helper()
	var entries []eventlog.Entry
	var changes []document.Change
	for i := range 20 {
		entries = append(entries, entry(fmt.Sprint("session", i), fmt.Sprint("user", i), "ada"))
		changes = append(changes, document.Put(document.Document{Name: fmt.Sprint("doc", i)}, []byte("x"), ttl))
	}
	require.NoError(t, log.Append(t.Context(), product, entries, changes...))
}

func TestExpiry_everyKeyButTheProductsHasATimeToLive(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), &redislog.Options{Retention: eventlog.Retention{TTL: time.Hour}, Prefix: "la"})
	fillWithDocuments(t, log, time.Hour)
	client := server.Client()
	keys, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Greater(t, len(keys), 60)
	for _, key := range keys {
		ttl, err := client.TTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.Equal(t, strings.HasSuffix(key, ":meta") || strings.HasSuffix(key, ":format"), ttl < 0, "%s lives for %v", key, ttl)
	}
}

func TestExpiry_leavesOnlyPermanentKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), &redislog.Options{Retention: brief, Prefix: "la"})
	client := server.Client()
	fillWithDocuments(t, log, brief.TTL)
	waittest.Until(t, "only the product's key is left, and the format", func() bool {
		keys, err := client.Keys(t.Context(), "*").Result()
		slices.Sort(keys)
		return err == nil && slices.Equal(keys, []string{"la:format", "la:{p:acme}:meta"})
	})
	require.Equal(t, map[string]eventlog.Stats{product: {}}, log.Stats())
	appendOne(t, log, entry("session", "ada"))
	require.Equal(t, 1, log.Stats()[product].Entries)
}

// A product that goes on is freed of what is too old by what is appended.
func TestExpiry_isDoneByAppending(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), &redislog.Options{Retention: brief, Prefix: "la"})
	client := server.Client()
	require.NoError(t, log.Append(t.Context(), product, eventlogtest.Entries("s", 200)))
	time.Sleep(2 * brief.TTL) // they are too old
	for i := range 20 {
		appendOne(t, log, eventlogtest.Entry("new", i))
	}
	length, err := client.XLen(t.Context(), "la:{p:acme}:log").Result()
	require.NoError(t, err)
	require.LessOrEqual(t, length, int64(20))
	seen, err := client.SCard(t.Context(), "la:{p:acme}:seen").Result()
	require.NoError(t, err)
	require.Equal(t, length, seen)
}

// Expired documents leave no names behind, though others stay.
func TestExpiry_forgetsNamesOfDocuments(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), &redislog.Options{Prefix: "la"})
	client := server.Client()
	docs := log.Documents()
	_, err := docs.Write(t.Context(), product, document.Put(document.Document{Name: "immortal"}, nil, 0))
	require.NoError(t, err)
	for i := range 300 {
		_, err := docs.Write(t.Context(), product, document.Put(document.Document{Name: fmt.Sprint("doc", i)}, nil, 5*time.Millisecond))
		require.NoError(t, err)
	}
	names := func() int64 {
		n, err := client.ZCard(t.Context(), "la:{p:acme}:names").Result()
		require.NoError(t, err)
		return n
	}
	require.Less(t, names(), int64(300))
	time.Sleep(10 * time.Millisecond) // they are over
	found, err := docs.List(t.Context(), product, "", "", 1000)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, int64(1), names())
}

func TestStats_countWhatRedisHolds(t *testing.T) {
	server := redistest.Start(t)
	log := open(t, server.URL(), &redislog.Options{Retention: eventlog.Retention{MaxBytes: 64 << 10}, Prefix: "la"})
	for i := range 200 {
		appendOne(t, log, eventlogtest.Sized(eventlogtest.Entry("s", i), 1<<10))
	}
	s := log.Stats()[product]
	require.LessOrEqual(t, s.Bytes, int64(64<<10))
	require.Greater(t, s.Bytes, int64(48<<10))
	require.Equal(t, int64(200), int64(s.Entries)+s.Dropped)
	used, err := server.Client().MemoryUsage(t.Context(), "la:{p:acme}:log", 0).Result()
	require.NoError(t, err)
	require.InEpsilon(t, used, s.Bytes, 0.5)
}

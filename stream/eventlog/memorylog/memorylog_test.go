package memorylog_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

func TestLog_keepsTheContract(t *testing.T) {
	open := func(_ *testing.T, r eventlog.Retention) eventlog.Log {
		return musttest.New(memorylog.New(&memorylog.Options{Retention: r}))
	}
	eventlogtest.TestLog(t, open)
	t.Run("State", func(t *testing.T) { eventlogtest.TestState(t, open) })
	t.Run("Storage", func(t *testing.T) { eventlogtest.TestStorage(t, "memory", open) })
	t.Run("Activity", func(t *testing.T) {
		eventlogtest.TestActivity(t, func(_ *testing.T, o activitytest.Options) eventlog.Log {
			return musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TTL: o.TTL,
				StateMaxBytes: o.MaxBytes / 3 * 8}, MaxEvents: o.MaxEvents}))
		})
	})
}

const product = "acme"

func TestNew_reportsEveryMistake(t *testing.T) {
	_, err := memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TTL: -1, MaxBytes: -1, StateMaxBytes: -1,
		TotalBytes: -1}})
	require.Equal(t, []string{"eventlog.Retention.TTL", "eventlog.Retention.MaxBytes", "eventlog.Retention.StateMaxBytes",
		"eventlog.Retention.TotalBytes"},
		musttest.Mistakes(t, err))
}

func TestLog_doesNotCountExpiredEntriesAsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(nil))
		eventlogtest.Append(t, log, product, eventlogtest.Entries("a", 3)...)
		time.Sleep(eventlog.DefaultTTL - time.Minute)
		eventlogtest.Append(t, log, product, eventlogtest.Entry("a", 3))
		require.Equal(t, 4, log.Stats()[product].Entries)
		time.Sleep(2 * time.Minute)
		require.NotZero(t, eventlogtest.Bounds(t, log, product).Oldest)
		require.NoError(t, log.Expire(t.Context()))
		require.Equal(t, 1, log.Stats()[product].Entries)
		time.Sleep(eventlog.DefaultTTL)
		require.Zero(t, eventlogtest.Bounds(t, log, product).Oldest)
		require.NoError(t, log.Expire(t.Context()))
		require.Equal(t, eventlog.Stats{}, log.Stats()[product])
	})
}

// After a restart the log is empty, and a cursor from before it is a gap.
func TestLog_isGapAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := eventlogtest.Append(t, musttest.New(memorylog.New(nil)), product, eventlogtest.Entry("a", 0))[0]
		time.Sleep(time.Second)
		restarted := musttest.New(memorylog.New(nil))
		_, err := restarted.Read(t.Context(), product, before.ID, make([]eventlog.Entry, 1))
		require.ErrorAs(t, err, new(*eventlog.GapError))
		after := eventlogtest.Append(t, restarted, product, eventlogtest.Entry("a", 1))[0]
		require.Positive(t, after.ID.Compare(before.ID))
	})
}

// The logs of all products together stay within the bound, for entries of any kind.
func TestLog_takesNoMoreThanItMay(t *testing.T) {
	const total, products, entries = 2 << 20, 10, 15_000
	for name, of := range map[string]func(i int) eventlog.Entry{
		"tiny": func(i int) eventlog.Entry { return eventlog.Entry{Data: []byte(`{}`)} },
		"long sessions": func(i int) eventlog.Entry {
			return eventlog.Entry{SessionID: strings.Repeat("s", 1000), Data: []byte(`{}`)}
		},
		"keyed": func(i int) eventlog.Entry { return eventlogtest.Entry("a", i) },
		"many keys": func(i int) eventlog.Entry {
			e := eventlog.Entry{Data: []byte(`{}`)}
			for k := range 20 {
				e.Keys = append(e.Keys, feed.KeyOf(fmt.Sprint(i, "/", k)))
			}
			return e
		},
		"of any size": func(i int) eventlog.Entry { return eventlogtest.Sized(eventlogtest.Entry("a", i), i%3000) },
	} {
		t.Run(name, func(t *testing.T) {
			log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TotalBytes: total}}))
			grown := heaptest.After(func() {
				for i := range entries {
					require.NoError(t, log.Append(t.Context(), fmt.Sprint("product", i*products/entries), []eventlog.Entry{of(i)}))
				}
			})
			t.Logf("%.2f of the bound", float64(grown)/total)
			require.LessOrEqual(t, grown, int64(total*12/10))
			runtime.KeepAlive(log)
		})
	}
}

// An entry may be larger than all that the process may hold: it is kept until the next one of its product comes.
func TestLog_keepsTheNewestEntryOfEachProductDespiteTheTotal(t *testing.T) {
	log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TotalBytes: 4000}}))
	waittest.Within(t, "Append", func() {
		for n := range 3 {
			for _, productID := range []string{"acme", "other"} {
				assert.NoError(t, log.Append(t.Context(), productID,
					[]eventlog.Entry{eventlogtest.Sized(eventlogtest.Entry("s", n), 10_000)}))
			}
		}
	})
	for _, productID := range []string{"acme", "other"} {
		require.Equal(t, 1, log.Stats()[productID].Entries)
	}
}

// A product that appends as much as it can takes nothing from another, and its own losses are counted.
func TestLog_takesFromTheLargestProduct(t *testing.T) {
	log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TotalBytes: 1 << 20}}))
	eventlogtest.Append(t, log, product, eventlogtest.Entries("quiet", 100)...)
	waittest.Together(4, func(w int) {
		for n := range 1000 {
			entry := eventlogtest.Sized(eventlogtest.Entry(fmt.Sprint("loud", w), n), 1000)
			assert.NoError(t, log.Append(t.Context(), fmt.Sprint("loud", w%2), []eventlog.Entry{entry}))
		}
	})
	stats := log.Stats()
	require.Equal(t, 100, stats[product].Entries)
	require.Zero(t, stats[product].Dropped)
	total := int64(0)
	for _, id := range []string{"loud0", "loud1"} {
		require.EqualValues(t, 2000, int64(stats[id].Entries)+stats[id].Dropped)
		require.InDelta(t, 500_000, stats[id].Bytes, 50_000, "each has its share")
		total += stats[id].Bytes
	}
	require.LessOrEqual(t, total+stats[product].Bytes, int64(1<<20))
}

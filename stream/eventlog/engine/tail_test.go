package engine_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// tailEntries returns entries with IDs that are ten apart, from the first on.
func tailEntries(first, n int) []eventlog.Entry {
	entries := make([]eventlog.Entry, n)
	for i := range entries {
		entries[i] = eventlogtest.Entry("tail", first+i)
		entries[i].Encode(tailID(first + i))
	}
	return entries
}

func tailID(n int) eventlog.ID { return eventlog.ID{Milli: uint64(n) / 4, Seq: uint64(n) % 4 * 10} }

func readTail(t testing.TB, tail *engine.Tail, after eventlog.ID, n int) []eventlog.Entry {
	t.Helper()
	dst := make([]eventlog.Entry, n)
	n, ok := tail.Read(after, dst)
	require.True(t, ok)
	return dst[:n]
}

func TestTail_beginsAtTheNewestOfTheLog(t *testing.T) {
	newest := eventlog.ID{Milli: 7, Seq: 3}
	tail := engine.NewTail(newest)
	require.Equal(t, eventlog.Bounds{TrimmedTo: newest, Newest: newest}, tail.Bounds())
	require.Zero(t, tail.Len())
	require.Zero(t, tail.Bytes())
	require.False(t, tail.Closed())
	require.Empty(t, readTail(t, tail, newest, 5), "who has read everything misses nothing")
	require.Empty(t, readTail(t, tail, eventlog.ID{Milli: 1 << 40}, 5))
	_, ok := tail.Read(eventlog.ID{Milli: 7, Seq: 2}, make([]eventlog.Entry, 5))
	require.False(t, ok, "what came before is not in the tail")
	tail.Add()
	tail.DropUpTo(eventlog.ID{Milli: 1 << 40}, nil)
	require.Zero(t, tail.Shrink(0, nil))
	require.Equal(t, eventlog.Bounds{TrimmedTo: newest, Newest: newest}, tail.Bounds())
}

func TestTail_dropsFromItsFront(t *testing.T) {
	tail := engine.NewTail(tailID(0))
	tail.Add(tailEntries(1, 10)...)
	var dropped []eventlog.Entry
	note := func(e eventlog.Entry) { dropped = append(dropped, e) }
	tail.DropUpTo(tailID(0), note)
	require.Empty(t, dropped)
	tail.DropUpTo(eventlog.ID{Milli: tailID(3).Milli, Seq: tailID(3).Seq + 1}, note)
	require.Equal(t, eventlogtest.IDs(tailEntries(1, 3)), eventlogtest.IDs(dropped))
	require.Equal(t, tailEntries(1, 3)[2].Keys, dropped[2].Keys, "whole, as they were")
	require.Equal(t, eventlog.Bounds{TrimmedTo: tailID(3), Oldest: tailID(4), Newest: tailID(10)}, tail.Bounds())
	tail.DropUpTo(tailID(2), note)
	require.Len(t, dropped, 3, "what it is trimmed to does not move back")
	_, ok := tail.Read(tailID(2), make([]eventlog.Entry, 1))
	require.False(t, ok)
	require.Len(t, readTail(t, tail, tailID(3), 10), 7)
	tail.DropUpTo(eventlog.ID{Milli: 1 << 40}, nil)
	require.Equal(t, eventlog.Bounds{TrimmedTo: tailID(10), Newest: tailID(10)}, tail.Bounds())
	tail.Add(tailEntries(11, 1)...)
	require.Equal(t, eventlog.Bounds{TrimmedTo: tailID(10), Oldest: tailID(11), Newest: tailID(11)}, tail.Bounds())
}

func TestTail_shrinksToItsSizeButKeepsTheNewest(t *testing.T) {
	tail := engine.NewTail(eventlog.ID{})
	tail.Add(tailEntries(1, 10)...)
	each := tail.Bytes() / 10
	var dropped []eventlog.Entry
	require.Zero(t, tail.Shrink(tail.Bytes(), func(eventlog.Entry) { require.Fail(t, "it fits") }))
	n := tail.Shrink(5*each, func(e eventlog.Entry) { dropped = append(dropped, e) })
	require.Equal(t, n, len(dropped))
	require.LessOrEqual(t, tail.Bytes(), 5*each)
	require.Equal(t, 10-n, tail.Len())
	require.Equal(t, tailID(n), tail.Bounds().TrimmedTo)
	require.Equal(t, tail.Len()-1, tail.Shrink(0, nil))
	require.Equal(t, tailID(10), tail.Bounds().Oldest)
	require.Positive(t, tail.Bytes())
	tail.DropUpTo(tailID(10), nil)
	require.Zero(t, tail.Bytes(), "nothing costs nothing")
}

// The cost of an entry is at least the bytes that it holds.
func TestTail_countsTheBytesOfEntries(t *testing.T) {
	for name, e := range map[string]eventlog.Entry{
		"data":    {Data: make([]byte, 10_000)},
		"session": {SessionID: string(make([]byte, 10_000))},
		"keys":    {Keys: make([]activity.Key, 10_000/16)},
		"nothing": {},
	} {
		tail := engine.NewTail(eventlog.ID{})
		e.Encode(tailID(1))
		tail.Add(e)
		held := int64(len(e.Data) + len(e.SessionID) + 16*len(e.Keys))
		require.Greater(t, tail.Bytes(), held, name)
		require.Less(t, tail.Bytes(), 4*held+1000, name)
	}
}

func TestTail_keepsNothingOfTheCallers(t *testing.T) {
	tail := engine.NewTail(eventlog.ID{})
	b := activitytest.NewBatch("acme", "s", "ada", activitytest.Pageview(time.Now(), "https://app.acme.example/"))
	entries := tailEntries(1, 2)
	entries[0].Batch = &b
	tail.Add(entries...)
	entries[1] = eventlog.Entry{}
	got := readTail(t, tail, eventlog.ID{}, 10)
	require.Nil(t, got[0].Batch, "it would hold the batch in memory")
	require.Equal(t, []eventlog.ID{tailID(1), tailID(2)}, eventlogtest.IDs(got))
	got[0] = eventlog.Entry{}
	require.Equal(t, tailID(1), readTail(t, tail, eventlog.ID{}, 1)[0].ID)
}

func TestTail_wakesWaitingReaders(t *testing.T) {
	tail := engine.NewTail(eventlog.ID{})
	for name, wake := range map[string]func(){
		"by an entry": func() { tail.Add(tailEntries(1+tail.Len(), 1)...) },
		"for nothing": tail.Notify,
	} {
		changed := tail.Changed()
		require.Equal(t, changed, tail.Changed(), "all wait for the same")
		require.False(t, waittest.Fired(changed))
		tail.Add()
		tail.Shrink(1<<40, nil)
		require.False(t, waittest.Fired(changed), "nothing has come")
		wake()
		require.True(t, waittest.Fired(changed), name)
		require.False(t, waittest.Fired(tail.Changed()), "the next change is another")
	}
}

func TestTail_wakesEverybodyWhenItIsClosed(t *testing.T) {
	for name, waited := range map[string]bool{"with somebody waiting": true, "with nobody waiting": false} {
		tail := engine.NewTail(eventlog.ID{})
		tail.Add(tailEntries(1, 3)...)
		var changed <-chan struct{}
		if waited {
			changed = tail.Changed()
		}
		tail.Close()
		require.True(t, tail.Closed())
		require.True(t, changed == nil || waittest.Fired(changed), name)
		require.True(t, waittest.Fired(tail.Changed()), name)
		tail.Notify()
		tail.Close()
		require.True(t, waittest.Fired(tail.Changed()), name)
		require.Len(t, readTail(t, tail, eventlog.ID{}, 10), 3, "what is there can be read")
	}
}

// Entries that were dropped are not held in memory, also while others stay.
func TestTail_letsGoOfDroppedEntries(t *testing.T) {
	tail := engine.NewTail(eventlog.ID{})
	tail.Add(tailEntries(1, 100)...)
	freed := make(chan struct{})
	e := eventlogtest.Entry("watched", 0)
	e.Encode(tailID(101))
	runtime.AddCleanup(&e.Data[0], func(struct{}) { close(freed) }, struct{}{})
	tail.Add(e)
	e = eventlog.Entry{}
	tail.Add(tailEntries(102, 300)...)
	tail.DropUpTo(tailID(101), nil)
	waittest.Until(t, "what is trimmed is freed", func() bool {
		runtime.GC()
		return waittest.Fired(freed)
	})
	require.Equal(t, 300, tail.Len())
}

// Through random calls the tail has the entries of a plain list.
func TestTail_isAsAList(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		tail, next := engine.NewTail(tailID(0)), 1
		first := 1 // the oldest in the tail
		for range 300 {
			switch random.IntN(4) {
			case 0:
				at := first + random.IntN(5)
				tail.DropUpTo(tailID(at), nil)
				first = max(first, min(at+1, next))
			case 1:
				n := tail.Shrink(tail.Bytes()*3/4, nil)
				first += n
			default:
				n := random.IntN(8)
				tail.Add(tailEntries(next, n)...)
				next += n
			}
			require.Equal(t, next-first, tail.Len())
			after := first - 2 + random.IntN(next-first+3)
			dst := make([]eventlog.Entry, random.IntN(10))
			n, ok := tail.Read(tailID(max(after, 0)), dst)
			require.Equal(t, max(after, 0) >= first-1, ok)
			if ok {
				require.Equal(t, eventlogtest.IDs(tailEntries(max(after, 0)+1, min(len(dst), max(0, next-1-max(after, 0))))),
					eventlogtest.IDs(dst[:n]), fmt.Sprint(seed))
			}
		}
	}
}

// While IDs are ahead of the clock, entries expire by the time when they were first seen. Once the
// clock has caught up they expire as usual.
func TestTail_expiresEntriesAheadOfTheClock(t *testing.T) {
	const ttl = time.Hour
	now := time.UnixMilli(1_000_000_000)
	add := func(tail *engine.Tail, at time.Time) eventlog.ID {
		e := eventlogtest.Entry("a", tail.Len())
		e.Encode(engine.NextID(tail.Bounds().Newest, at))
		tail.Add(e)
		return e.ID
	}
	tail := engine.NewTail(eventlog.ID{})
	ahead := add(tail, now.Add(100*ttl))
	require.Equal(t, eventlog.IDAt(now.Add(-ttl)), tail.Expired(now, ttl))
	later := add(tail, now.Add(ttl/2))
	require.Negative(t, tail.Expired(now.Add(ttl/2), ttl).Compare(ahead))
	require.Negative(t, tail.Expired(now.Add(ttl-1), ttl).Compare(ahead))
	require.Equal(t, ahead, tail.Expired(now.Add(ttl), ttl))
	tail.DropUpTo(ahead, nil)
	require.Negative(t, tail.Expired(now.Add(ttl+ttl/2-1), ttl).Compare(later))
	for range 3 {
		require.Equal(t, later, tail.Expired(now.Add(ttl+ttl/2), ttl))
	}
	end := add(tail, now.Add(101*ttl))
	require.Equal(t, eventlog.IDAt(now.Add(101*ttl)), tail.Expired(now.Add(102*ttl), ttl))
	require.Positive(t, tail.Expired(now.Add(103*ttl), ttl).Compare(end))
}

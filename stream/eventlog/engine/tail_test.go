package engine_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/feed"
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

// The cost of an entry is at least the bytes that it holds.
func TestTail_countsTheBytesOfEntries(t *testing.T) {
	for name, e := range map[string]eventlog.Entry{
		"data":    {Data: make([]byte, 10_000)},
		"session": {SessionID: string(make([]byte, 10_000))},
		"keys":    {Keys: make([]feed.Key, 10_000/16)},
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
	changed := tail.Changed()
	tail.Close()
	require.True(t, waittest.Fired(changed))
	require.True(t, waittest.Fired(tail.Changed()), "whoever comes later")
	tail.Notify()
	tail.Close()
	require.True(t, waittest.Fired(tail.Changed()))
	require.True(t, tail.Closed())
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

// Through random calls the tail has the entries and the bounds of a plain list.
func TestTail_isAsAList(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		first, next := 5, 5 // the oldest in the tail, and the next to come
		tail, dropped := engine.NewTail(tailID(first-1)), first-1
		note := func(e eventlog.Entry) {
			dropped++
			require.Equal(t, tailEntries(dropped, 1)[0], e, "whole, in order")
		}
		for range 300 {
			switch random.IntN(4) {
			case 0:
				at := first - 2 + random.IntN(7)
				id := tailID(at)
				id.Seq += uint64(random.IntN(10)) // up to before the next
				tail.DropUpTo(id, note)
				first = max(first, min(at+1, next))
			case 1:
				first += shrink(t, tail, int64(random.IntN(5)), note)
			default:
				n := random.IntN(8)
				tail.Add(tailEntries(next, n)...)
				next += n
			}
			want := eventlog.Bounds{TrimmedTo: tailID(first - 1), Newest: tailID(next - 1)}
			if first < next {
				want.Oldest = tailID(first)
			}
			require.Equal(t, want, tail.Bounds())
			require.Equal(t, next-first, tail.Len())
			require.Equal(t, first == next, tail.Bytes() == 0)
			require.Equal(t, first-1, dropped)
			after := first - 3 + random.IntN(next-first+6) // or later than all
			dst := make([]eventlog.Entry, random.IntN(10))
			n, ok := tail.Read(tailID(after), dst)
			require.Equal(t, after >= first-1, ok)
			if ok {
				require.Equal(t, eventlogtest.IDs(tailEntries(after+1, min(len(dst), max(0, next-1-after)))),
					eventlogtest.IDs(dst[:n]), fmt.Sprint(seed))
			}
		}
	}
}

// shrink shrinks the tail to so many quarters of its size, and returns how many entries went. They
// must be no more than needed.
func shrink(t *testing.T, tail *engine.Tail, quarters int64, dropped func(eventlog.Entry)) int {
	t.Helper()
	before, entries := tail.Bytes(), int64(tail.Len())
	most := before * quarters / 4
	n := tail.Shrink(most, dropped)
	require.True(t, tail.Bytes() <= most || tail.Len() == 1)
	if entries > 0 {
		require.Greater(t, tail.Bytes()+2*before/entries, most)
		require.Equal(t, entries > 1 && quarters < 4, n > 0)
	}
	return n
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

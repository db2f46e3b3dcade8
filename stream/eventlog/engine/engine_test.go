package engine_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

func TestNextID_growsStrictly(t *testing.T) {
	at := time.UnixMilli
	for name, c := range map[string]struct {
		after eventlog.ID
		now   time.Time
		want  eventlog.ID
	}{
		"the first ever":       {eventlog.ID{}, at(1000), eventlog.ID{Milli: 1000}},
		"a later millisecond":  {eventlog.ID{Milli: 1000, Seq: 5}, at(1001), eventlog.ID{Milli: 1001}},
		"the same millisecond": {eventlog.ID{Milli: 1000, Seq: 5}, at(1000), eventlog.ID{Milli: 1000, Seq: 6}},
		"part of a millisecond": {eventlog.ID{Milli: 1000}, at(1000).Add(999 * time.Microsecond),
			eventlog.ID{Milli: 1000, Seq: 1}},
		"the clock went back":            {eventlog.ID{Milli: 1000, Seq: 5}, at(1), eventlog.ID{Milli: 1000, Seq: 6}},
		"the clock is before the epoch":  {eventlog.ID{Milli: 1000}, at(-5), eventlog.ID{Milli: 1000, Seq: 1}},
		"the clock is at the epoch":      {eventlog.ID{}, at(0), eventlog.ID{Seq: 1}},
		"the clock was never set":        {eventlog.ID{}, time.Time{}, eventlog.ID{Seq: 1}},
		"the clock is far ahead":         {eventlog.ID{Milli: 1000}, at(math.MaxInt64), eventlog.ID{Milli: math.MaxInt64}},
		"the number is used up":          {eventlog.ID{Milli: 1000, Seq: math.MaxUint64}, at(1000), eventlog.ID{Milli: 1001}},
		"used up, the clock went back":   {eventlog.ID{Milli: 1000, Seq: math.MaxUint64}, at(1), eventlog.ID{Milli: 1001}},
		"used up, the clock has gone on": {eventlog.ID{Milli: 1000, Seq: math.MaxUint64}, at(2000), eventlog.ID{Milli: 2000}},
	} {
		next := engine.NextID(c.after, c.now)
		assert.Equal(t, c.want, next, name)
		assert.Positive(t, next.Compare(c.after), name)
	}
}

// erasures returns so many erasures, a millisecond apart, with these fields.
func erasures(n int, fields func(i int) string) *engine.Erasures {
	var x engine.Erasures
	for i := range n {
		data := fmt.Appendf(nil, `{"type":"erase","product_id":"acme",%s}`, fields(i))
		x.Add(eventlog.Entry{ID: eventlog.ID{Milli: uint64(10 + i)}, Data: data})
	}
	return &x
}

// read applies erasures to an entry before them, of a session with these actions. It returns the entry
// and the time of the fastest of some attempts.
func read(x *engine.Erasures, session, actions string) (e eventlog.Entry, least time.Duration) {
	least = time.Hour
	for range 5 {
		entries := []eventlog.Entry{{ID: eventlog.ID{Milli: 1}, SessionID: session,
			Data: fmt.Appendf(nil, `{"type":"actions","session_id":%q,"actions":[%s]}`, session, actions)}}
		began := time.Now()
		x.Apply(entries)
		e, least = entries[0], min(least, time.Since(began))
	}
	return e, least
}

// Readers take about as long with an erasure that is repeated 3000 times as with a single one.
func TestErasures_thatAreRepeatedCostNoMoreThanOne(t *testing.T) {
	times := func(n int) time.Duration {
		e, took := read(erasures(2*n, func(i int) string {
			user := []string{"ada", "bob"}[i%2]
			return fmt.Sprintf(`"user_id":%q,"session_ids":["s-%s"]`, user, user)
		}), "s-ada", `{"user_id":"ada"}`)
		require.Contains(t, string(e.Data), `"erased"`)
		return took
	}
	waittest.Until(t, "they cost as much as one", func() bool { return times(3000) < 20*times(1) })
}

// A user has many erasures, each with a session of its own. A reader pays for each erasure once,
// not for each pair of them. An append that trims none of them pays for none.
func TestErasures_ofManySessionsCostReadersTheirNumber(t *testing.T) {
	const many = 10_000
	x := erasures(many, func(i int) string { return fmt.Sprintf(`"user_id":"ada","session_ids":["s%d"]`, i) })
	pairs := make([]*int, 0, many)
	began := time.Now()
	for range many {
		if one := new(int); !slices.Contains(pairs, one) {
			pairs = append(pairs, one)
		}
	}
	ofPairs := time.Since(began)
	e, took := read(x, "s", `{"user_id":"ada"}`)
	require.Contains(t, string(e.Data), `"erased"`)
	cut := time.Hour
	for range 5 {
		began = time.Now()
		x.DropUpTo(eventlog.ID{Milli: 5})
		cut = min(cut, time.Since(began))
	}
	assert.Less(t, 3*took, ofPairs)
	assert.Less(t, 5*cut, took)
}

// A reader pays once for each of many erasures of one user. The number of actions in an entry does
// not matter, whether they are of that user or of another whose address may be the person's.
func TestErasures_costAnEntryTheirNumberNotItsActions(t *testing.T) {
	x := erasures(10_000, func(i int) string {
		return fmt.Sprintf(`"user_id":"ada","session_ids":["s%d"],"kept":{"s%[1]d":["bob"]},"emails_sha256":[%q]`, i,
			feed.EmailDigest("ada@x.example"))
	})
	of := func(actions int) time.Duration {
		e, took := read(x, "s7", strings.Repeat(`{"user_id":"ada"},{"user_id":"bob","email":"bob@x.example"},`, actions)+
			`{"user_id":"bob","email":"ada@x.example"}`)
		b, err := e.Decode()
		require.NoError(t, err)
		require.Len(t, b.Actions, actions+1)
		require.Empty(t, b.Actions[actions].Email)
		require.NotContains(t, string(e.Data), "ada")
		return took
	}
	assert.Less(t, of(1000), 50*of(1))
}

// An entry has the user and the address of its session, also where another user acted.
func TestErasures_coverASessionsUserWhoDidNothing(t *testing.T) {
	x := erasures(1, func(int) string { return `"user_id":"ada","session_ids":[]` })
	entries := []eventlog.Entry{{ID: eventlog.ID{Milli: 1}, SessionID: "s", Data: []byte(`{"type":"actions",
		"session_id":"s","user_id":"ada","email":"ada@x.example","actions":[{"user_id":"bob","email":"bob@x.example"}]}`)}}
	x.Apply(entries)
	b, err := entries[0].Decode()
	require.NoError(t, err)
	assert.Equal(t, []string{"bob", "bob@x.example", "bob"}, []string{b.UserID, b.Email, b.Actions[0].UserID})
}

// The user of an identity stays where the erasure is another person's, and loses only the address.
func TestErasures_hideTheAddressOfAnIdentity(t *testing.T) {
	x := erasures(1, func(int) string {
		return fmt.Sprintf(`"user_id":"","session_ids":["s"],"kept":{"s":["bob"]},"emails_sha256":[%q]`,
			feed.EmailDigest("ada@x.example"))
	})
	for email, want := range map[string]string{"Ada@x.example": "", "bob@x.example": "bob@x.example"} {
		said := feed.Identity{Type: feed.IdentityType, SessionID: "s", AnonymousID: "anon", UserID: "bob", Email: email}
		entries := []eventlog.Entry{{ID: eventlog.ID{Milli: 1}, SessionID: "s", Data: musttest.New(json.Marshal(said))}}
		x.Apply(entries)
		said.Email = want
		assert.Equal(t, &said, musttest.New(entries[0].DecodeIdentity()))
	}
}

// Erasures are kept for as long as the log has an entry before them.
func TestErasures_DropUpTo_keepsLaterOnes(t *testing.T) {
	x := erasures(3, func(i int) string { return fmt.Sprintf(`"user_id":"u%d","session_ids":[]`, i) })
	for upTo, left := range [][]bool{{true, true, true}, {false, true, true}, {false, false, true},
		{false, false, false}} {
		x.DropUpTo(eventlog.ID{Milli: uint64(9 + upTo)})
		for i, want := range left {
			e, _ := read(x, "s", fmt.Sprintf(`{"user_id":"u%d"}`, i))
			assert.Equal(t, want, strings.Contains(string(e.Data), `"erased"`), "u%d up to %d", i, 9+upTo)
		}
	}
}

// An erasure that is kept and files nothing would leave the person in every answer.
func TestFilings_refusesADamagedEntry(t *testing.T) {
	for _, typ := range []string{feed.IdentityType, feed.Erase} {
		e := eventlog.Entry{Data: fmt.Appendf(nil, `{"type":%q,"user_id":7,"session_ids":7}`, typ)}
		_, err := engine.Filings([]eventlog.Entry{e})
		assert.ErrorIs(t, err, eventlog.ErrInvalid, typ)
	}
}

func TestProducts_beginsEachProductOnce(t *testing.T) {
	var products engine.Products[string]
	assert.Nil(t, products.Known("acme"))
	var begun atomic.Int32
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for _, id := range []string{"acme", "other"} {
				p := products.Get(id, func() *string {
					begun.Add(1)
					return &id
				})
				assert.Equal(t, id, *p)
			}
		})
	}
	running.Wait()
	assert.EqualValues(t, 2, begun.Load())
	assert.ElementsMatch(t, []*string{products.Known("acme"), products.Known("other")}, products.All())
}

package engine_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/musttest"
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
		t.Run(name, func(t *testing.T) {
			next := engine.NextID(c.after, c.now)
			assert.Equal(t, c.want, next)
			assert.Positive(t, next.Compare(c.after), "IDs grow strictly")
		})
	}
}

// Readers take about as long with an erasure that is repeated 3000 times as with a single one.
func TestErasures_thatAreRepeatedCostNoMoreThanOne(t *testing.T) {
	read := func(times int) time.Duration {
		var x engine.Erasures
		for i := range times {
			for _, user := range []string{"ada", "bob"} {
				data := fmt.Appendf(nil, `{"type":"erase","product_id":"acme","user_id":%q,"session_ids":["s-%s"]}`, user, user)
				x.Add(eventlog.Entry{ID: eventlog.ID{Milli: 10, Seq: uint64(i)}, Data: data})
			}
		}
		b := activitytest.NewBatch("acme", "s-ada", "ada", activitytest.Click(time.Now(), "Save", "https://a.example/"))
		b.Actions[0].ID = "e1"
		least := time.Hour
		for range 3 {
			entries := []eventlog.Entry{{ID: eventlog.ID{Milli: 1}, SessionID: "s-ada", Data: musttest.New(json.Marshal(b)),
				Keys: []feed.Key{feed.KeyOf("e1")}}}
			began := time.Now()
			x.Apply(entries)
			least = min(least, time.Since(began))
			require.Contains(t, string(entries[0].Data), `"erased"`)
		}
		return least
	}
	assert.Less(t, read(3000), 20*read(1))
}

// A user has many erasures, each with a session of its own. A reader pays for each erasure once,
// not for each pair of them. An append that trims none of them pays for none.
func TestErasures_ofManySessionsCostReadersTheirNumber(t *testing.T) {
	const many = 20_000
	var x engine.Erasures
	pairs := make([]*int, 0, many)
	for i := range many {
		data := fmt.Appendf(nil, `{"type":"erase","product_id":"acme","user_id":"ada","session_ids":["s%d"]}`, i)
		x.Add(eventlog.Entry{ID: eventlog.ID{Milli: 10, Seq: uint64(i)}, Data: data})
	}
	began := time.Now()
	for range many {
		if one := new(int); !slices.Contains(pairs, one) {
			pairs = append(pairs, one)
		}
	}
	ofPairs := time.Since(began)
	read, cut := time.Hour, time.Hour
	for range 5 {
		entries := []eventlog.Entry{{ID: eventlog.ID{Milli: 1}, SessionID: "s",
			Data: []byte(`{"type":"actions","session_id":"s","actions":[{"user_id":"ada"}]}`)}}
		began = time.Now()
		x.Apply(entries)
		read = min(read, time.Since(began))
		require.Contains(t, string(entries[0].Data), `"erased"`)
		began = time.Now()
		x.DropUpTo(eventlog.ID{Milli: 5})
		cut = min(cut, time.Since(began))
	}
	assert.Less(t, 3*read, ofPairs)
	assert.Less(t, 5*cut, read)
}

// A reader pays once for each of many erasures of one user. The number of actions in an entry does
// not matter, whether they are of that user or of another whose address may be the person's.
func TestErasures_costAnEntryTheirNumberNotItsActions(t *testing.T) {
	const sessions = 10_000
	var x engine.Erasures
	for i := range sessions {
		session, digest := fmt.Sprintf("s%d", i), feed.EmailDigest("ada@x.example")
		data := fmt.Appendf(nil, `{"type":"erase","product_id":"acme","user_id":"ada","session_ids":[%q],`+
			`"kept":{%q:["bob"]},"emails_sha256":[%q]}`, session, session, digest)
		x.Add(eventlog.Entry{ID: eventlog.ID{Milli: 10, Seq: uint64(i)}, Data: data})
	}
	read := func(actions int) time.Duration {
		doings := strings.Repeat(`{"user_id":"ada"},{"user_id":"bob","email":"bob@x.example"},`, actions) +
			`{"user_id":"bob","email":"ada@x.example"}`
		least := time.Hour
		for range 5 {
			entries := []eventlog.Entry{{ID: eventlog.ID{Milli: 1}, SessionID: "s7",
				Data: []byte(`{"type":"actions","session_id":"s7","actions":[` + doings + `]}`)}}
			began := time.Now()
			x.Apply(entries)
			least = min(least, time.Since(began))
			b, err := entries[0].Decode()
			require.NoError(t, err)
			require.Len(t, b.Actions, actions+1)
			require.Empty(t, b.Actions[actions].Email)
			require.NotContains(t, string(entries[0].Data), "ada")
		}
		return least
	}
	assert.Less(t, read(1000), 50*read(1))
}

// Erasures are kept for as long as the log has an entry before them.
func TestErasures_DropUpTo_keepsLaterOnes(t *testing.T) {
	var x engine.Erasures
	for _, at := range []uint64{30, 10, 20} {
		x.Add(eventlog.Entry{ID: eventlog.ID{Milli: at},
			Data: fmt.Appendf(nil, `{"type":"erase","product_id":"acme","user_id":"u%d","session_ids":[]}`, at)})
	}
	isErased := func(user string) bool {
		entries := []eventlog.Entry{{ID: eventlog.ID{Milli: 1}, SessionID: "s",
			Data: fmt.Appendf(nil, `{"type":"actions","session_id":"s","actions":[{"user_id":%q}]}`, user)}}
		x.Apply(entries)
		return strings.Contains(string(entries[0].Data), `"erased"`)
	}
	for _, c := range []struct {
		upTo uint64
		left []bool
	}{{9, []bool{true, true, true}}, {10, []bool{false, true, true}}, {25, []bool{false, false, true}},
		{30, []bool{false, false, false}}} {
		x.DropUpTo(eventlog.ID{Milli: c.upTo})
		assert.Equal(t, c.left, []bool{isErased("u10"), isErased("u20"), isErased("u30")}, "up to %d", c.upTo)
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

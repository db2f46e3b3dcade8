package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/ledger"
)

var opts = ledger.Options{MaxBehind: 1024, MinBackoff: 30 * time.Second, MaxBackoff: 5 * time.Minute}

// load returns the ledger of a text.
func load(t *testing.T, text string, opts ledger.Options) *ledger.Ledger {
	l, err := ledger.Load(text, opts)
	require.NoError(t, err)
	return l
}

func TestLedger_passesOverAKeyThatFailsAndBringsItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load(t, `{"id":"1-0"}`, opts)
		a2, b3, a4 := l.Receive("2-0", "a"), l.Receive("3-0", "b"), l.Receive("4-0", "a")
		l.Finish(a2, false)
		assert.True(t, l.Dropped(a4), "it comes after an entry that is not finished")
		l.Finish(a4, true)
		assert.Nil(t, l.Receive("5-0", "a"))
		l.Finish(b3, true)
		assert.JSONEq(t, `{"id":"5-0","behind":{"a":"1-0"}}`, l.String())
		assert.Zero(t, l.InFlight())

		ended := false
		end := func() { ended = true }
		_, ok := l.BeginPass(time.Now(), end)
		assert.False(t, ok, "it waits for its back-off")
		due, ok := l.NextPass()
		require.True(t, ok)
		assert.Equal(t, 30*time.Second, time.Until(due))
		from, ok := l.BeginPass(due, end)
		assert.Equal(t, []any{"1-0", true}, []any{from, ok})
		for _, id := range []string{"2-0", "4-0", "5-0"} {
			e := l.Catch(id, "a")
			require.NotNil(t, e, id)
			assert.Equal(t, id != "5-0", e.More)
			l.Passed(id)
			assert.Equal(t, id == "5-0", ended, "it reads up to the live reader")
			l.Finish(e, true)
		}
		assert.Nil(t, l.Catch("3-0", "b"))
		l.EndPass()
		assert.NotNil(t, l.Receive("6-0", "a"))
		assert.JSONEq(t, `{"id":"6-0","behind":{"a":"5-0"}}`, l.String())
	})
}

func TestLedger_holdsAKeyUntilItIsResumed(t *testing.T) {
	l := load(t, "", opts)
	_, released := l.Hold(l.Receive("1-0", "a"))
	assert.False(t, released)
	l.Resume("b")
	_, ok := l.NextPass()
	assert.False(t, ok)
	<-l.Wake()
	l.Resume("a")
	l.Resume("a")
	<-l.Wake()
	_, ok = l.BeginPass(time.Now(), func() {})
	assert.True(t, ok)
}

func TestLedger_backsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load(t, "", ledger.Options{MinBackoff: time.Second, MaxBackoff: 3 * time.Second})
		e := l.Receive("1-0", "a")
		l.Receive("2-0", "a")
		for _, want := range []time.Duration{1, 2, 3, 3} {
			l.Finish(e, false)
			due, ok := l.NextPass()
			require.True(t, ok)
			assert.Equal(t, want*time.Second, time.Until(due))
			time.Sleep(time.Until(due))
			_, ok = l.BeginPass(time.Now(), func() {})
			require.True(t, ok)
			_, ok = l.NextPass()
			assert.False(t, ok, "its pass has begun")
			e = l.Catch("1-0", "a")
		}
		l.Drop(e)
		l.EndPass()
		due, _ := l.NextPass()
		assert.False(t, due.After(time.Now()), "a pass that was cut off is due again at once")
		l.BeginPass(time.Now(), func() {})
		l.Finish(l.Catch("1-0", "a"), true)
		l.Finish(l.Catch("2-0", "a"), false)
		due, _ = l.NextPass()
		assert.Equal(t, time.Second, time.Until(due), "anew after an entry was finished")
	})
}

func TestLedger_reportsALossAgainOnlyAfterAnEntryWasFinished(t *testing.T) {
	l := load(t, `{"id":"9-0","behind":{"a":"1-0"}}`, opts)
	l.BeginPass(time.Now(), func() {})
	assert.False(t, l.Lost("1-0"))
	assert.True(t, l.Lost("3-0"))
	assert.False(t, l.Lost("4-0"))
	l.Finish(l.Catch("4-0", "a"), true)
	assert.True(t, l.Lost("6-0"))
}

func TestLedger_finishesAnEntryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load(t, "", opts)
		first, second, third := l.Receive("1-0", "a"), l.Receive("2-0", "a"), l.Receive("3-0", "a")
		assert.True(t, l.Finish(second, true))
		assert.False(t, l.Finish(second, false), "it is finished already")
		assert.JSONEq(t, `{"id":"3-0","behind":{"a":""}}`, l.String(), "the one before is not")
		assert.True(t, l.Finish(first, true))
		assert.JSONEq(t, `{"id":"3-0","behind":{"a":"2-0"}}`, l.String())
		assert.True(t, l.Finish(third, false))
		due, _ := l.NextPass()
		assert.False(t, l.Finish(third, false), "it has failed already")
		_, ok := l.Hold(third)
		assert.False(t, ok)
		again, _ := l.NextPass()
		assert.Equal(t, due, again)
	})
}

// A pass looks at a held key until it has read the entries that the live reader passed over. Then
// the key waits.
// While the first entry of a key fails, others that are finished come again only beyond a bound.
func TestLedger_remembersSomeEntriesThatAreFinishedOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load(t, `{"id":"0-0"}`, opts)
		first := l.Receive("1-0", "a")
		for n := 2; n <= 5000; n++ {
			l.Finish(l.Receive(fmt.Sprint(n, "-0"), "a"), true)
		}
		l.Finish(first, false)
		time.Sleep(time.Hour)
		_, ok := l.BeginPass(time.Now(), func() {})
		require.True(t, ok)
		again := 0
		for n := 1; n <= 5000; n++ {
			if l.Catch(fmt.Sprint(n, "-0"), "a") != nil {
				again++
			}
		}
		assert.Equal(t, 5000-4096, again)
	})
}

func TestLedger_passesOverAKeyThatIsHeld(t *testing.T) {
	l := load(t, `{"id":"4-0","behind":{"a":"","b":""}}`, opts)
	ends := 0
	from, ok := l.BeginPass(time.Now(), func() { ends++ })
	require.True(t, ok)
	require.Empty(t, from)
	l.Hold(l.Catch("1-0", "a"))
	assert.Nil(t, l.Catch("2-0", "a"), "it is held")
	b := l.Catch("3-0", "b")
	l.Passed("4-0")
	l.Finish(b, true)
	assert.Equal(t, 1, ends)
	l.EndPass()
	assert.JSONEq(t, `{"id":"4-0","behind":{"a":""}}`, l.String())
	_, ok = l.BeginPass(time.Now().Add(time.Hour), func() {})
	assert.False(t, ok, "it waits for Resume")
	l.Resume("a")
	_, ok = l.BeginPass(time.Now(), func() { ends++ })
	assert.True(t, ok)
	l.Hold(l.Catch("1-0", "a"))
	l.Resume("a")
	assert.Equal(t, 2, ends, "the next pass brings its entry again")
}

func TestLedger_boundsSessionsThatAreBehind(t *testing.T) {
	l := load(t, "", ledger.Options{MaxBehind: 2})
	for i := range 2 {
		assert.True(t, l.CanFall())
		l.Finish(l.Receive(fmt.Sprint(i+1), fmt.Sprint("key", i)), false)
	}
	assert.False(t, l.CanFall())

	l = load(t, "", ledger.Options{MaxBehind: 2})
	for i := range 3 {
		key, released := l.Hold(l.Receive(fmt.Sprint(i+1), fmt.Sprint("key", i)))
		assert.Equal(t, i == 2, released)
		assert.Equal(t, map[bool]string{true: "key0"}[released], key)
	}
	assert.JSONEq(t, `{"id":"3","behind":{"key1":"1","key2":"2"}}`, l.String(), "the one held first is let go")
	assert.NotNil(t, l.Receive("4", "key0"))
}

func TestLoad_refusesInvalidState(t *testing.T) {
	for _, text := range []string{"x", "[]", `{"id":7}`, `{"behind":[]}`, `{"id":"7\n"}`,
		`{"id":"7","behind":{"a":"7\u0000"}}`} {
		_, err := ledger.Load(text, opts)
		assert.ErrorContains(t, err, "cannot be read", text)
	}
}

func TestCompare_ordersIDsByTheirNumbers(t *testing.T) {
	for _, ordered := range [][]string{
		{"", "0-0", "9-9", "9-10", "10-0", "100-0"},
		{"9", "10", "11"},
		{"1795187991289-18446744073709551615", "1795187991290-0"},
	} {
		for i, a := range ordered {
			for j, b := range ordered {
				assert.Equal(t, min(max(i-j, -1), 1), ledger.Compare(a, b), "%q, %q", a, b)
			}
		}
	}
}

// sim is a log with a live reader and a pass, and handlers that fail now and then.
type sim struct {
	t       *testing.T
	random  *rand.Rand
	log     []string // key of each entry; its id is its place, from 1
	l       *ledger.Ledger
	live    int                        // entries read by the live reader
	pass    int                        // … and by the pass; -1 for none
	over    bool                       // the pass has no keys left
	hand    map[string][]*ledger.Entry // in order
	busy    map[string]bool            // keys whose first entry is being worked on
	broken  map[string]bool            // keys whose handler fails
	written map[string][]string        // ids
}

func id(i int) string { return fmt.Sprintf("%d-0", i) }

func (s *sim) step() {
	switch s.random.IntN(6) {
	case 0:
		s.log = append(s.log, fmt.Sprint("key", s.random.IntN(5)))
	case 1:
		if s.live < len(s.log) {
			s.live++
			s.take(s.l.Receive(id(s.live), s.log[s.live-1]))
		}
	case 2:
		s.stepPass()
	case 3, 4:
		s.work()
	case 5:
		key := fmt.Sprint("key", s.random.IntN(5))
		s.broken[key] = !s.broken[key] && s.random.IntN(3) == 0
	}
}

func (s *sim) take(e *ledger.Entry) {
	if e != nil {
		s.hand[e.Key] = append(s.hand[e.Key], e)
	}
}

func (s *sim) stepPass() {
	if s.pass < 0 {
		from, ok := s.l.BeginPass(time.Now().Add(time.Hour), func() { s.over = true })
		if !ok {
			return
		}
		s.pass, s.over = 0, false
		if from != "" {
			_, err := fmt.Sscanf(from, "%d-0", &s.pass)
			require.NoError(s.t, err)
		}
	}
	if s.l.Received(id(s.pass + 1)) {
		s.pass++
		s.take(s.l.Catch(id(s.pass), s.log[s.pass-1]))
		s.l.Passed(id(s.pass))
	}
	if s.over || s.random.IntN(20) == 0 {
		s.l.EndPass()
		s.pass = -1
	}
}

// work begins to handle the first entry in flight of some key, or finishes it.
func (s *sim) work() {
	for key, entries := range s.hand {
		if len(entries) == 0 {
			continue
		}
		e := entries[0]
		if !s.busy[key] && !s.l.Dropped(e) {
			s.busy[key] = true
			return
		}
		s.hand[key] = entries[1:]
		if !s.busy[key] {
			continue
		}
		s.busy[key] = false
		if s.broken[key] {
			s.l.Finish(e, false)
			return
		}
		s.written[key] = append(s.written[key], e.ID)
		s.l.Finish(e, true)
		return
	}
}

// restart loses everything but the saved account.
func (s *sim) restart() {
	l := load(s.t, s.l.String(), opts)
	s.l, s.pass, s.hand, s.busy = l, -1, map[string][]*ledger.Entry{}, map[string]bool{}
}

// Every entry is written once, and a key's entries in order, through any failures and restarts.
func TestLedger_losesAndRepeatsNothing(t *testing.T) {
	for seed := range uint64(80) {
		s := &sim{t: t, random: rand.New(rand.NewPCG(seed, 7)), l: load(t, "", opts), pass: -1,
			hand: map[string][]*ledger.Entry{}, busy: map[string]bool{}, broken: map[string]bool{},
			written: map[string][]string{}}
		for i := range 2000 {
			s.step()
			if i%400 == 399 {
				s.restart()
			}
		}
		clear(s.broken)
		for range 4000 {
			if s.live < len(s.log) {
				s.live++
				s.take(s.l.Receive(id(s.live), s.log[s.live-1]))
			}
			s.stepPass()
			s.work()
		}
		want := map[string][]string{}
		for i, key := range s.log {
			want[key] = append(want[key], id(i+1))
		}
		require.Equal(t, want, s.written, "seed %d", seed)
		require.Zero(t, s.l.InFlight(), "seed %d", seed)
		require.NotContains(t, s.l.String(), "behind", "seed %d", seed)
	}
}

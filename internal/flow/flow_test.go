package flow

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
)

// server is a meter with the values that it reports.
type server struct {
	*Meter
	mu       sync.Mutex
	products []string
	version  document.Version // of each registration
	now      gauges
}

func newServer(docs document.Store, products ...string) *server {
	s := &server{products: products, version: 1}
	s.Meter = New(Config{Documents: docs, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Products: func() []string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.Clone(s.products)
		},
		Version: func(id string) (document.Version, bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.version, slices.Contains(s.products, id)
		},
		Readers: func(string) int { return s.gauges().Readers },
		Backlog: func(string) Backlog { return s.gauges().Backlog },
	})
	return s
}

func (s *server) gauges() gauges {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// set sets the current values. All waiting conversations belong to one desk.
func (s *server) set(readers int, lag time.Duration, waiting ...Desk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = gauges{Readers: readers, Backlog: Backlog{Lag: lag}}
	for _, desk := range waiting {
		s.now.Desks = map[string]Desk{"zendesk": desk}
	}
}

func (s *server) serve(products ...string) { s.register(s.version, products...) }

// register serves the products with registrations of that version.
func (s *server) register(version document.Version, products ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.products = version, products
}

// run runs the server's meter, and returns a function that ends it at once.
func (s *server) run(t *testing.T) (kill func() error) {
	return waittest.Run(t, func(ctx context.Context) error {
		s.Run(ctx)
		return nil
	})
}

func (s *server) sum(t *testing.T) Sum {
	t.Helper()
	sum, err := s.Read(t.Context(), "acme")
	require.NoError(t, err)
	require.Len(t, sum.Minutes, Span)
	for i := 1; i < Span; i++ {
		require.Equal(t, sum.Minutes[i-1].Begin+60, sum.Minutes[i].Begin)
	}
	last := sum.Minutes[Span-1].Begin
	require.Zero(t, last%60)
	require.Equal(t, time.Now().Unix()/60*60, last, "the last one is the current one")
	return sum
}

// total returns the sum of the last hour.
func (s *server) total(t *testing.T) (total tracing.Flow) {
	t.Helper()
	for _, m := range s.sum(t).Minutes {
		total = total.Plus(m.Flow)
	}
	return total
}

func newDocuments() *document.Memory { return musttest.New(document.NewMemory(nil)) }

func accepted(n int) tracing.Flow { return tracing.Flow{Accepted: n} }

func TestMeter_countsEachMinuteByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(newDocuments(), "acme")
		every := tracing.Flow{Accepted: 1, Ignored: 2, Duplicate: 3, Actions: 4, Summaries: 5, Notes: 6, Offers: 7}
		assert.Zero(t, s.total(t), "an hour of zeros")
		time.Sleep(time.Minute - time.Nanosecond) // a bubble begins at a full hour
		s.Count("acme", every)
		assert.Equal(t, every, s.sum(t).Minutes[Span-1].Flow)
		time.Sleep(time.Nanosecond)
		assert.Zero(t, s.sum(t).Minutes[Span-1].Flow)
		assert.Equal(t, every, s.sum(t).Minutes[Span-2].Flow)
		s.Count("acme", every)
		s.Count("acme", every)
		assert.Equal(t, every.Plus(every), s.sum(t).Minutes[Span-1].Flow)
		time.Sleep(58 * time.Minute)
		assert.Equal(t, every, s.sum(t).Minutes[0].Flow, "the oldest one")
		assert.Equal(t, every.Plus(every), s.sum(t).Minutes[1].Flow)
		time.Sleep(time.Minute)
		assert.Equal(t, every.Plus(every), s.total(t))
		time.Sleep(time.Minute)
		assert.Zero(t, s.total(t))
	})
}

func TestMeter_keepsAnHourAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(newDocuments(), "acme")
		for range 3 * Span {
			s.Count("acme", accepted(1))
			time.Sleep(time.Minute)
			require.LessOrEqual(t, len(s.series("acme", false).minutes), Span)
		}
		assert.Equal(t, accepted(Span-1), s.total(t), "and nothing in this minute")
	})
}

func TestMeter_countsWhenTheClockGoesBack(t *testing.T) {
	base := time.Unix(1_800_000_000, 0)
	m := minutes{}
	for _, at := range []time.Duration{0, 10 * time.Minute, 3 * time.Minute, 3*time.Minute + time.Second,
		10 * time.Minute} {
		m.add(base.Add(at), accepted(1))
	}
	assert.Equal(t, minutes{minuteOf(base): accepted(1), minuteOf(base.Add(3 * time.Minute)): accepted(2),
		minuteOf(base.Add(10 * time.Minute)): accepted(2)}, m)
	assert.Equal(t, int64(-60), minuteOf(time.Unix(-1, 0)))
}

func TestMeter_totalsItsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(newDocuments(), "acme", "other")
		s.Count("unknown", accepted(32))
		s.Count("acme", accepted(1))
		s.Count("other", accepted(2))
		assert.ElementsMatch(t, []string{"acme", "other"}, s.counted())
		time.Sleep(3 * time.Hour)
		s.Count("acme", accepted(4))
		s.serve("acme")
		s.Count("other", accepted(8))
		s.Count("other", accepted(16))
		assert.Equal(t, accepted(7), s.Total(), "of any age, and of products that are gone")
	})
}

func TestMeter_isSafeForConcurrentUse(t *testing.T) {
	s := newServer(newDocuments(), "acme")
	defer s.run(t)()
	waittest.Together(8, func(int) {
		for range 1000 {
			s.Count("acme", accepted(1))
		}
		_, err := s.Read(t.Context(), "acme")
		assert.NoError(t, err)
	})
	assert.Equal(t, accepted(8000), s.total(t))
}

func TestReport_isReadAsItWasWritten(t *testing.T) {
	r := report{minutes{60: {Accepted: 1, Ignored: 2, Duplicate: 3, Actions: 4, Summaries: 5, Notes: 6, Offers: 7},
		120: accepted(9)},
		gauges{3, Backlog{1500 * time.Millisecond, map[string]Desk{"intercom": {2, 1}, "zendesk": {}}}}, 4711}
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var got report
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, r, got)
}

func TestGauges_compareAndAddTheirDesks(t *testing.T) {
	g, h := gauges{Backlog: Backlog{Desks: map[string]Desk{"zendesk": {1, 0}}}},
		gauges{Backlog: Backlog{Desks: map[string]Desk{"zendesk": {1, 1}}}}
	assert.False(t, g.equal(h), "else the change is shared late")
	assert.True(t, g.equal(g))
	assert.False(t, g.areZero())
	assert.True(t, gauges{Backlog: Backlog{Desks: map[string]Desk{}}}.areZero())
	assert.Equal(t, map[string]Desk{"zendesk": {2, 1}}, g.plus(h).Desks)
	assert.Equal(t, map[string]Desk{"zendesk": {1, 0}}, g.Desks, "both stay as they are")
	assert.Equal(t, map[string]Desk{"zendesk": {1, 1}}, h.Desks)
}

func TestServers_sumTheirCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments()
		a, b, c := newServer(docs, "acme"), newServer(docs, "acme"), newServer(docs, "acme")
		for _, s := range []*server{a, b, c} {
			defer s.run(t)()
		}
		a.Count("acme", accepted(1))
		b.Count("acme", accepted(2))
		a.set(3, 2*time.Second, Desk{5, 1})
		b.set(4, time.Second, Desk{6, 2})
		time.Sleep(2 * shareEvery)
		for name, s := range map[string]*server{"a": a, "b": b, "one that counts nothing": c} {
			sum := s.sum(t)
			assert.Equal(t, accepted(3), s.total(t), name)
			assert.Equal(t, gauges{7, Backlog{2 * time.Second, map[string]Desk{"zendesk": {11, 3}}}}, sum.gauges, name)
		}
		b.Count("acme", accepted(10))
		assert.Equal(t, accepted(13), b.total(t), "one's own counts are there at once")
		time.Sleep(2 * shareEvery)
		assert.Equal(t, accepted(13), a.total(t))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 7, c.sum(t).Readers, "what does not change stays true")
	})
}

func TestServers_doNotCountTheReadersOfADeadOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments()
		a, b := newServer(docs, "acme"), newServer(docs, "acme")
		kill := a.run(t)
		defer b.run(t)()
		a.Count("acme", accepted(1))
		a.set(3, time.Second, Desk{4, 4})
		time.Sleep(2 * shareEvery)
		assert.Equal(t, 3, b.sum(t).Readers)
		kill()
		time.Sleep(freshFor)
		sum := b.sum(t)
		assert.Equal(t, Sum{Minutes: sum.Minutes}, sum)
		assert.Equal(t, accepted(1), b.total(t), "what it has counted stays")
		time.Sleep(keptFor)
		assert.Zero(t, b.total(t))
		left, err := docs.List(t.Context(), "acme", "", "", 10)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

func TestServers_knowAtOnceThatOneHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments()
		a, b := newServer(docs, "acme"), newServer(docs, "acme")
		kill := a.run(t)
		a.set(3, 0)
		time.Sleep(shareEvery + time.Second)
		require.Equal(t, 3, b.sum(t).Readers)
		kill()
		a.Count("acme", accepted(1))
		require.NoError(t, a.Leave(t.Context()))
		assert.Zero(t, b.sum(t).Readers)
		assert.Equal(t, accepted(1), b.total(t))
		assert.Equal(t, accepted(1), newServer(docs, "acme").total(t), "as does the one that takes its place")
	})
}

// A stop cuts a pass off, and its write may be made all the same.
func TestServers_knowTheCountsOfOneThatWasStoppedWithinAPass(t *testing.T) {
	docs := newDocuments()
	lost := newCounting(docs)
	lost.lost.Store(&context.Canceled)
	a, b := newServer(lost, "acme"), newServer(docs, "acme")
	a.set(1, 0)
	require.ErrorIs(t, a.share(t.Context(), a.look), context.Canceled)
	require.Equal(t, 1, b.sum(t).Readers)
	a.Count("acme", accepted(1))
	require.NoError(t, a.Leave(t.Context()))
	assert.Equal(t, accepted(1), b.total(t))
	assert.Zero(t, b.sum(t).Readers)
}

// The write of a cut-off pass may be made while the last pass is under way.
func TestMeter_writesOnTopOfAnEarlierWriteThatIsLate(t *testing.T) {
	docs := newDocuments()
	var late watchtest.Watch
	a, b := newServer(watchtest.Store{Store: docs, Watch: &late}, "acme"), newServer(docs, "acme")
	late.After = func(_ context.Context, op watchtest.Op, err error) error {
		if op.Name == "get" {
			late.After = nil
			_, err = docs.Write(t.Context(), "acme", document.Put(document.Document{Name: a.name}, []byte(`{}`), keptFor))
		}
		return err
	}
	a.Count("acme", accepted(1))
	require.NoError(t, a.Leave(t.Context()))
	assert.Equal(t, accepted(1), b.total(t))
}

type counting struct {
	watchtest.Store
	writes atomic.Int64
	lost   atomic.Pointer[error] // of the next write, which is made all the same
}

func newCounting(docs document.Store) *counting {
	c := &counting{Store: watchtest.Store{Store: docs, Watch: &watchtest.Watch{}}}
	c.After = func(_ context.Context, op watchtest.Op, err error) error {
		if op.Name != "write" {
			return err
		}
		c.writes.Add(1)
		if lost := c.lost.Swap(nil); lost != nil {
			return *lost
		}
		return err
	}
	return c
}

func TestMeter_writesOnlyNewCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newCounting(newDocuments())
		s := newServer(docs, "acme")
		defer s.run(t)()
		time.Sleep(time.Hour + time.Second) // between two rounds
		assert.Zero(t, docs.writes.Swap(0), "there is nothing to say")
		s.Count("acme", accepted(1))
		time.Sleep(10 * time.Minute)
		assert.EqualValues(t, 1, docs.writes.Swap(0))
		s.set(1, 0)
		time.Sleep(time.Minute)
		assert.InDelta(t, 10, docs.writes.Swap(0), 1, "a reader is confirmed now and then")
		s.set(0, 0)
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, docs.writes.Swap(0))
		time.Sleep(2 * time.Hour)
		s.Count("acme", accepted(1)) // its document has expired
		time.Sleep(shareEvery)
		assert.EqualValues(t, 1, docs.writes.Swap(0))
		assert.Equal(t, accepted(1), s.total(t))
		assert.Equal(t, accepted(1), newServer(docs, "acme").total(t))
	})
}

func TestMeter_goesOnAfterAnAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newCounting(newDocuments())
		s, other := newServer(docs, "acme"), newServer(docs, "acme")
		defer s.run(t)()
		for n := range 3 {
			docs.lost.Store(&watchtest.ErrDown)
			s.Count("acme", accepted(1))
			time.Sleep(5 * shareEvery)
			assert.Equal(t, accepted(n+1), s.total(t))
			assert.Equal(t, accepted(n+1), other.total(t))
		}
	})
}

func TestMeter_forgetsAProductThatIsRemoved(t *testing.T) {
	for name, settle := range map[string]time.Duration{"and registered again later": 5 * shareEvery,
		"and registered again at once": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				docs := newDocuments()
				a, b := newServer(docs, "acme"), newServer(docs, "acme")
				defer a.run(t)()
				defer b.run(t)()
				a.Count("acme", accepted(1))
				b.Count("acme", accepted(1))
				time.Sleep(2 * shareEvery)
				require.Equal(t, accepted(2), a.total(t))

				a.serve() // it is removed at a
				docs.Drop("acme", 1)
				if settle > 0 {
					b.serve()
					time.Sleep(settle)
					assert.Empty(t, b.counted())
					assert.Zero(t, b.total(t))
					left, err := docs.List(t.Context(), "acme", "", "", 10)
					require.NoError(t, err)
					assert.Empty(t, left)
				}
				a.register(2, "acme")
				b.register(2, "acme")
				assert.Zero(t, a.total(t))
				assert.Zero(t, b.total(t), "also where the removal went unnoticed")
				b.Count("acme", accepted(5))
				time.Sleep(2 * shareEvery)
				assert.Equal(t, accepted(5), a.total(t))
				assert.Equal(t, accepted(5), b.total(t))
			})
		})
	}
}

func TestMeter_sharesAgainAfterARemovalThatWentUnnoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments()
		a, b := newServer(docs, "acme"), newServer(docs, "acme")
		defer b.run(t)()
		b.Count("acme", accepted(1))
		time.Sleep(2 * shareEvery)
		require.Equal(t, accepted(1), a.total(t))
		docs.Drop("acme", 1)
		b.Count("acme", accepted(2)) // it finds out by this
		time.Sleep(2 * shareEvery)
		assert.Zero(t, a.total(t), "nothing of before")
		assert.Zero(t, b.total(t))
		b.register(2, "acme")
		b.Count("acme", accepted(4))
		time.Sleep(2 * shareEvery)
		assert.Equal(t, accepted(4), a.total(t))
		assert.Equal(t, accepted(4), b.total(t))
	})
}

// The counts outlive a document that was evicted or removed by an operator.
func TestMeter_sharesItsCountsAgainAfterStorageLostThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments()
		a, b := newServer(docs, "acme"), newServer(docs, "acme")
		defer b.run(t)()
		b.Count("acme", accepted(1))
		time.Sleep(2 * shareEvery)
		docs.Drop("acme", 0)
		assert.Equal(t, accepted(1), b.total(t))
		b.Count("acme", accepted(2))
		time.Sleep(2 * shareEvery)
		assert.Equal(t, accepted(3), a.total(t))
		assert.Equal(t, accepted(3), b.total(t))
	})
}

func TestMeter_keepsTheCountsOfAProductThatIsRegisteredDuringAPass(t *testing.T) {
	s := newServer(newDocuments(), "acme")
	s.config.Products = func() []string { return nil } // as it was when the pass began
	s.Count("acme", accepted(1))
	require.NoError(t, s.share(t.Context(), s.look))
	assert.Equal(t, accepted(1), s.total(t))
}

// A write that is on its way while the product is removed leaves nothing behind, and takes nothing of a
// new registration along.
func TestMeter_leavesNothingOfARemovedProduct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments()
		s := newServer(docs, "acme")
		s.Count("acme", accepted(1))
		of := s.series("acme", false)
		s.serve()
		docs.Drop("acme", 1)
		require.NoError(t, s.write(t.Context(), "acme", of, gauges{}))
		left, err := docs.List(t.Context(), "acme", "", "", 10)
		require.NoError(t, err)
		assert.Empty(t, left)
		s.register(2, "acme")
		s.Count("acme", accepted(5))
		require.NoError(t, s.write(t.Context(), "acme", of, gauges{}))
		assert.Equal(t, accepted(5), s.total(t))
		assert.Equal(t, accepted(6), s.Total())
	})
}

func TestRead_skipsUnreadableDocuments(t *testing.T) {
	docs := newDocuments()
	_, err := docs.Write(t.Context(), "acme", document.Put(document.Document{Name: documentPrefix + "other"},
		[]byte(`{"minutes":"later"}`), 0))
	require.NoError(t, err)
	s := newServer(docs, "acme")
	s.Count("acme", accepted(1))
	assert.Equal(t, accepted(1), s.total(t))
}

func TestRead_failsWithStorage(t *testing.T) {
	away := watchtest.Store{Store: newDocuments(), Watch: &watchtest.Watch{}}
	away.Down.Store(true)
	_, err := newServer(away, "acme").Read(t.Context(), "acme")
	assert.ErrorIs(t, err, watchtest.ErrDown)
}

func TestCount_allocatesNothing(t *testing.T) {
	s := newServer(newDocuments(), "acme")
	s.Count("acme", accepted(1))
	assert.Zero(t, testing.AllocsPerRun(1000, func() { s.Count("acme", accepted(1)) }))
}

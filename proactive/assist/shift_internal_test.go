package assist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// newTestShift returns a shift without storage, in which sessions are not linked.
func newTestShift(tb testing.TB) *shift {
	tb.Helper()
	core, err := assistance.NewCore(nil, proactive.PingPong{}, proactive.Dwell{})
	require.NoError(tb, err)
	log, err := memorylog.New(nil)
	require.NoError(tb, err)
	a := &Assistant{log: log, logger: slog.New(slog.DiscardHandler),
		products: func(string) (Product, bool, error) { return Product{Core: core}, true, nil }}
	return newShift(a, "acme", core, nil)
}

// entry returns an entry of the log with so many actions of a session.
func entry(tb testing.TB, sessionID string, actions int) feed.Message {
	tb.Helper()
	batch := activity.Batch{Type: activity.BatchType, ProductID: "acme", SessionID: sessionID, Email: sessionID + "@acme.example", Count: actions}
	for i := range actions {
		a := activity.NewAction(activity.TypePageview, activity.Target{}, fmt.Sprintf("https://app.example.com/page-%d", i%7))
		a.TimestampStart, a.Index = activity.Seconds(time.Now())-float64(actions-i), i
		batch.Actions = append(batch.Actions, activity.BatchAction{Action: a, SessionID: sessionID, Email: batch.Email})
	}
	data, err := json.Marshal(batch)
	require.NoError(tb, err)
	return feed.NewMessage("1-0", data)
}

// fill has so many sessions do something.
func fill(tb testing.TB, s *shift, sessions, actions int) {
	tb.Helper()
	for i := range sessions {
		s.see(tb.Context(), entry(tb, fmt.Sprintf("01920000-0000-7000-8000-%012d", i), actions))
	}
}

func TestShift_takesLittleMemoryForASession(t *testing.T) {
	const sessions = 1000
	for actions, most := range map[int]int64{5: 1_500, 50: 10_000} {
		s := newTestShift(t)
		each := heaptest.After(func() { fill(t, s, sessions, actions) }) / sessions
		t.Logf("%d actions: %d bytes a session", actions, each)
		assert.LessOrEqual(t, each, most)
		runtime.KeepAlive(s)
	}
}

func TestShift_forgetsWhatIsOver(t *testing.T) {
	s := newTestShift(t)
	fill(t, s, 100, 3)
	for i, known := range s.sessions {
		s.join(known, conversation{"acme", "intercom", i[len(i)-1:]})
	}
	require.Len(t, s.sessions, 100)
	require.Len(t, s.talks, 10)
	s.dueAt(time.Now().Add(assistance.WindowSpan - time.Second))
	require.Len(t, s.sessions, 100)
	s.dueAt(time.Now().Add(assistance.WindowSpan + sweepEvery))
	assert.Empty(t, s.sessions)
	assert.Empty(t, s.talks)
	assert.Empty(t, s.asks)
}

// A conversation whose machine needs a tick is kept without any session, and
// is forgotten when it needs none.
func TestShift_keepsAConversationWhileItsMachineNeedsATick(t *testing.T) {
	s := newTestShift(t)
	c := conversation{"acme", "intercom", "7"}
	now := s.now()
	m, _, err := s.core.Step(assistance.Machine{}, now, assistance.Message{Text: "Hi"})
	require.NoError(t, err)
	s.keep(c, m)
	_, due := s.dueAt(now.Add(299 * time.Second))
	require.Empty(t, due)
	_, due = s.dueAt(now.Add(301 * time.Second))
	require.Equal(t, []conversation{c}, due)
	_, due = s.dueAt(now.Add(302 * time.Second))
	require.Empty(t, due, "it is in flight")
	s.release(c)
	_, due = s.dueAt(now.Add(303 * time.Second))
	require.Len(t, due, 1)
	s.keep(c, assistance.Machine{})
	s.settled(c, true)
	assert.Empty(t, s.talks)
}

func TestShift_computesWhatIsDueAnewWhenTheClockIsSetBack(t *testing.T) {
	s := newTestShift(t)
	c := conversation{"acme", "intercom", "7"}
	ahead := s.now().Add(time.Hour)
	m, _, err := s.core.Step(assistance.Machine{}, ahead, assistance.Message{Text: "Hi"})
	require.NoError(t, err)
	s.keep(c, m)
	s.release(c)
	s.mu.Lock()
	s.talks[c].due = ahead
	s.arrange(s.talks[c])
	s.mu.Unlock()
	_, due := s.dueAt(ahead.Add(-time.Second))
	require.Empty(t, due)
	_, due = s.dueAt(ahead.Add(-time.Hour))
	assert.Equal(t, []conversation{c}, due)
}

func TestShift_backsOffWhileAConversationFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestShift(t)
		c := conversation{"acme", "intercom", "7"}
		s.doubt(c)
		for _, wait := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			s.talks[c].due = s.now()
			s.settled(c, false)
			assert.Equal(t, wait*time.Second, time.Until(s.talks[c].due))
		}
		s.settled(c, true)
		assert.Zero(t, s.talks[c].failures)
	})
}

// BenchmarkShift_look is what a look for what is due costs, of so many sessions
// that are to be asked later. There are four looks a second.
func BenchmarkShift_look(b *testing.B) {
	for _, sessions := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			s := newTestShift(b)
			fill(b, s, sessions, 2)
			now := s.now()
			b.ReportAllocs()
			for b.Loop() {
				s.dueAt(now)
			}
		})
		b.Run(fmt.Sprintf("sweep/sessions=%d", sessions), func(b *testing.B) {
			s := newTestShift(b)
			fill(b, s, sessions, 2)
			now := s.now()
			for b.Loop() {
				s.sweep(now)
			}
		})
	}
}

// BenchmarkShift_see is what an entry of the log costs.
func BenchmarkShift_see(b *testing.B) {
	for _, actions := range []int{1, 10} {
		b.Run(fmt.Sprintf("actions=%d", actions), func(b *testing.B) {
			s := newTestShift(b)
			m := entry(b, "01920000-0000-7000-8000-000000000000", actions)
			b.SetBytes(int64(len(m.Data)))
			b.ReportAllocs()
			for b.Loop() {
				s.see(b.Context(), m)
			}
		})
	}
}

// A process that wakes up after its lease has passed to another stores nothing.
func TestShift_storesNothingWithoutItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := musttest.New(document.NewMemory(nil))
		s := newLeasedShift(t, docs, 3*time.Second)
		c := conversation{"acme", "intercom", "7"}
		_, err := s.step(t.Context(), c, assistance.Message{Text: "Hello"})
		require.NoError(t, err)
		time.Sleep(4 * time.Second)
		_, err = document.Acquire(t.Context(), docs, "acme", leaseName, time.Minute)
		require.NoError(t, err)
		before, _, err := s.read(t.Context(), c)
		require.NoError(t, err)
		_, err = s.step(t.Context(), c, assistance.Finished{})
		require.ErrorIs(t, err, document.ErrLost)
		after, _, err := s.read(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, before.State(), after.State())
		assert.Equal(t, assistance.Reactive, after.State())
	})
}

// remover is a desk that can delete conversations; a plain one cannot.
type remover struct {
	helpdesk.Desk
	helpdesk.Remover
}

func TestProduct_keepsConversationsOfDesksThatCannotDeleteThem(t *testing.T) {
	core, err := assistance.NewCore(nil, proactive.PingPong{})
	require.NoError(t, err)
	p := Product{Core: core, Desks: []connector.Desk{{Name: "deletes", Desk: remover{}}, {Name: "keeps", Desk: struct{ helpdesk.Desk }{}}}}
	assert.False(t, p.rules("deletes").KeepIdle)
	assert.True(t, p.rules("keeps").KeepIdle)
}

// seen returns the session as the shift keeps it, which does something now.
func (s *shift) seen(id string) *session { return s.session(id, s.now()) }

func TestShift_forgetsWhenToAskAboutWhatIsOver(t *testing.T) {
	s := newTestShift(t)
	now := s.now()
	s.decide(s.seen("s"), func(assistance.Machine, assistance.Session) assistance.Decision {
		return assistance.Decision{Again: now.Add(24 * time.Hour)}
	})
	require.Len(t, s.asks, 1)
	s.dueAt(now.Add(assistance.WindowSpan + sweepEvery))
	assert.Empty(t, s.sessions)
	assert.Empty(t, s.asks)
}

func TestShift_keepsAConversationWhileItHasSessions(t *testing.T) {
	s := newTestShift(t)
	first, second := conversation{"acme", "intercom", "1"}, conversation{"acme", "intercom", "2"}
	a, b := s.seen("a"), s.seen("b")
	for range 2 { // a link may be seen again
		s.join(a, first)
		s.join(b, first)
	}
	s.join(a, second)
	assert.Contains(t, s.talks, first, "of the other session")
	assert.Contains(t, s.talks, second)
	s.join(b, conversation{})
	assert.NotContains(t, s.talks, first)
	s.join(a, first)
	assert.Contains(t, s.talks, first)
	assert.NotContains(t, s.talks, second)
}

func TestShift_letsTicksWaitForWhatIsInFlight(t *testing.T) {
	s := newTestShift(t)
	c := conversation{"acme", "intercom", "7"}
	now := s.now()
	s.doubt(c)
	s.begin(c)
	_, due := s.dueAt(now.Add(time.Hour))
	require.Empty(t, due)
	s.settled(c, true)
	_, due = s.dueAt(now.Add(time.Hour))
	assert.Equal(t, []conversation{c}, due)
}

func TestShift_readsWhatIsInDoubtAgainSoon(t *testing.T) {
	s := newTestShift(t)
	c := conversation{"acme", "intercom", "7"}
	s.doubt(c)
	soon := s.talks[c].due
	assert.WithinDuration(t, s.now().Add(firstRetry), soon, time.Minute/2)
	for _, other := range []time.Duration{-time.Hour, time.Hour} {
		s.talks[c].due = soon.Add(other)
		s.doubt(c)
		assert.WithinDuration(t, soon.Add(min(other, 0)), s.talks[c].due, time.Minute/2)
	}
}

// newLeasedShift returns a test's shift over documents that holds its lease.
func newLeasedShift(t *testing.T, docs document.Store, ttl time.Duration) *shift {
	t.Helper()
	s := newTestShift(t)
	s.docs, s.metrics = docs, newMetrics(&options.Mistakes{}, nil)
	var err error
	s.lease, err = document.Acquire(t.Context(), docs, "acme", leaseName, ttl)
	require.NoError(t, err)
	return s
}

// slowDesk is a desk that never answers, and that is not to be asked at once.
type slowDesk struct {
	helpdesk.Desk
	helpdesk.Offerer
	wait, asked time.Duration // before a request; when there was one, zero for never
	begun       time.Time
}

func (d *slowDesk) Pause(string) time.Duration { return d.wait }

func (d *slowDesk) Offer(ctx context.Context, _ string, _ helpdesk.Offer) (string, error) {
	d.asked = time.Since(d.begun)
	<-ctx.Done()
	return "", &helpdesk.APIError{Ambiguous: true, Err: ctx.Err()}
}

func TestShift_sendsAnOfferInTimeOrNotAtAll(t *testing.T) {
	const inTime = 10 * time.Second
	for wait, want := range map[time.Duration]struct {
		asked, took time.Duration
	}{
		time.Second:               {time.Second, time.Second + requestTime},
		7 * time.Second:           {7 * time.Second, inTime},
		inTime - leastTime/2:      {0, inTime - leastTime/2},
		inTime + time.Millisecond: {0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newLeasedShift(t, musttest.New(document.NewMemory(nil)), time.Hour)
			d := &slowDesk{wait: wait, begun: time.Now()}
			event, err := s.send(t.Context(), conversation{"acme", "intercom", "7"}, d, assistance.Send{SendBy: s.now().Add(inTime)})
			assert.Equal(t, want.took, time.Since(d.begun), "wait %s", wait)
			assert.Equal(t, want.asked, d.asked, "wait %s", wait)
			if want.asked > 0 {
				assert.True(t, helpdesk.IsAmbiguous(err))
				return
			}
			assert.NoError(t, err)
			assert.Equal(t, assistance.Refused{}, event)
		})
	}
}

func TestShift_ticksNoConversationThatWasDeleted(t *testing.T) {
	docs := musttest.New(document.NewMemory(nil))
	s := newLeasedShift(t, docs, time.Hour)
	c := conversation{"acme", "intercom", "7"}
	s.doubt(c)
	effects, err := s.step(t.Context(), c, assistance.Tick{})
	require.NoError(t, err)
	assert.Empty(t, effects)
	assert.Empty(t, s.talks, "it needs no tick any more")
	_, doc, err := s.read(t.Context(), c)
	require.NoError(t, err)
	assert.False(t, doc.Exists())
}

// unsure are documents of which it is not known whether a write had an effect.
type unsure struct{ document.Store }

func (unsure) Write(context.Context, string, ...document.Change) (document.Version, error) {
	return 0, errUnsure
}

var errUnsure = errors.New("the answer was lost")

func TestShift_doubtsWhatMayHaveBeenStored(t *testing.T) {
	docs := musttest.New(document.NewMemory(nil))
	s := newLeasedShift(t, docs, time.Hour)
	s.docs = unsure{docs}
	c := conversation{"acme", "intercom", "7"}
	_, err := s.step(t.Context(), c, assistance.Message{Text: "Hello"})
	require.ErrorIs(t, err, errUnsure)
	_, due := s.dueAt(s.now().Add(2 * firstRetry))
	assert.Equal(t, []conversation{c}, due)
}

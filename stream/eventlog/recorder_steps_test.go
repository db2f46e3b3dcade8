package eventlog_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// arrives gives the event the times of its request: when it was sent, by the sender's clock, and
// when it arrived, in seconds after noon.
func arrives(e activity.Event, sent, received float64) activity.Event {
	at := func(second float64) time.Time { return noon.Add(time.Duration(second * float64(time.Second))) }
	e.Sent, e.Received = at(sent), at(received)
	return e
}

// A redirect's page view comes on a faster request, and perhaps to another server, than the click that led to it.
func TestRecorder_placesNoPageViewBeforeTheClickThatLedToIt(t *testing.T) {
	for name, servers := range map[string]int{"one server": 1, "two servers": 2} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t)
			recorders := []*eventlog.Recorder{r.Recorder, musttest.New(eventlog.NewRecorder(r.log, nil))}
			other := recorders[1%servers]
			r.record(t, arrives(does("s1", "u1", "click", 3600), 3600, 0.3)) // the client's clock is an hour ahead
			recordBy(t, other, product, arrives(does("s1", "u1", "view", 3600.02), 3600.25, 0.31))
			r.record(t, arrives(does("s1", "u1", "scroll", 3600.01), 3603, 3.1),
				arrives(does("s1", "u1", "later", 3602), 3603, 3.1))
			require.Equal(t, []string{"click", "scroll", "view", "later"}, r.stored(t, "u1"))
			batches := r.batches(t)
			require.Equal(t, []string{"click", "view"}, append(activitytest.Titles(batches[0]),
				activitytest.Titles(batches[1])...), "the log is in the order of arrival")
		})
	}
}

func TestRecorder_leavesOutExpiredEvents(t *testing.T) {
	r := newRecording(t)
	require.Equal(t, activity.Result{Accepted: 1, Expired: 2}, r.record(t,
		arrives(does("s1", "u1", "old", -4*3600-1), 0, 0.5), arrives(does("s1", "u1", "kept", -4*3600), 0, 0.5),
		arrives(identifies("", "u1", "ada@example.com", -5*3600), 0, 0)))
	require.Equal(t, []string{"kept"}, activitytest.Titles(r.batches(t)[0]))
	r.amend(t, "other", func(s *directory.Session) { s.UserID = "u1" })
	ada, _, err := musttest.New(directory.New(r.log.Documents(), 0)).Session(t.Context(), product, "other")
	require.NoError(t, err)
	require.Empty(t, ada.Email)
}

// A commit that was reported to have failed may have happened. Its retry is then a duplicate, and
// lookups find its actions.
func TestRecorder_afterAnAmbiguousCommit_canBeRepeated(t *testing.T) {
	r := newRecording(t)
	var deaf atomic.Bool
	log := &watchtest.Log{Log: r.log}
	log.After = func(_ context.Context, op watchtest.Op, err error) error {
		if op.Name == "append" && err == nil && deaf.Load() {
			return errDown
		}
		return err
	}
	recorder := musttest.New(eventlog.NewRecorder(log, nil))
	events := []activity.Event{does("s1", "u1", "a", 1), does("s2", "u1", "b", 2)}
	recordBy(t, recorder, product, does("s0", "u1", "before", 0))
	deaf.Store(true)
	for range 3 {
		require.ErrorIs(t, errorOf(recorder.Record(t.Context(), product, events)), errDown)
		events = append(events, does("s3", "u1", fmt.Sprint("c", len(events)), float64(len(events)+1)))
	}
	deaf.Store(false)
	waittest.Together(4, func(int) {
		assert.NoError(t, errorOf(recorder.Record(t.Context(), product, events)))
		assert.Equal(t, []string{"before", "a", "b", "c2", "c3", "c4"}, r.stored(t, "u1"))
	})
	require.Len(t, r.entries(t), 6)
}

// hangingLog never answers while it hangs, unless the call's context ends.
type hangingLog struct {
	watchtest.Log
	hangs   func(productID string) bool
	appends atomic.Int64
	changes atomic.Int64 // the most in one append
}

func newHangingLog(hangs func(productID string) bool) *hangingLog {
	l := &hangingLog{Log: watchtest.Log{Log: newMemoryLog()}, hangs: hangs}
	l.Before = func(ctx context.Context, op watchtest.Op) error {
		if op.Name != "append" {
			return nil
		}
		l.appends.Add(1)
		l.changes.Store(max(l.changes.Load(), int64(len(op.Documents))))
		if l.hangs == nil || !l.hangs(op.ProductID) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	return l
}

// Every request gets an answer within 5 seconds, however many wait for the same session. Other
// products do not wait at all.
func TestRecorder_whileStorageHangs_answersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newHangingLog(func(productID string) bool { return productID == product })
		r := musttest.New(eventlog.NewRecorder(log, nil))
		start := time.Now()
		var running sync.WaitGroup
		for n := range 100 {
			running.Go(func() {
				events := []activity.Event{does("s1", "u1", fmt.Sprint("action ", n), 1)}
				if n%10 == 0 { // one of very many sessions
					for m := range 1000 {
						events = append(events, does(fmt.Sprint("s", m), "u1", fmt.Sprint(n, " ", m), 1))
					}
				}
				assert.ErrorIs(t, errorOf(r.Record(t.Context(), product, events)), context.DeadlineExceeded)
				assert.LessOrEqual(t, time.Since(start), 4*time.Second)
			})
		}
		synctest.Wait()
		recordBy(t, r, "other", does("s1", "u1", "a", 1))
		require.Zero(t, time.Since(start))
		running.Wait()
		log.hangs = nil
		recordBy(t, r, product, does("s1", "u1", "a", 1)) // nobody has kept a turn
	})
}

// A request that waits for a session gives up when its sender gives up.
func TestRecorder_waitsForASessionNoLongerThanTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newHangingLog(func(string) bool { return true })
		r := musttest.New(eventlog.NewRecorder(log, nil))
		var first sync.WaitGroup
		first.Go(func() { _, _ = r.Record(t.Context(), product, []activity.Event{does("s1", "u1", "a", 1)}) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := r.Record(ctx, product, []activity.Event{does("s1", "u1", "b", 1)})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		require.EqualValues(t, 1, log.appends.Load())
		first.Wait()
	})
}

// A request of very many sessions holds the sessions of one step at a time.
func TestRecorder_ofManySessions_holdsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newHangingLog(nil)
		log.hangs = func(string) bool { return log.appends.Load() == 3 }
		r := musttest.New(eventlog.NewRecorder(log, nil))
		var many []activity.Event
		for n := range 10_000 {
			many = append(many, does(fmt.Sprint("s", n), "u1", fmt.Sprint("action ", n), 1))
		}
		var running sync.WaitGroup
		running.Go(func() {
			assert.ErrorIs(t, errorOf(r.Record(t.Context(), product, many)), context.DeadlineExceeded)
		})
		synctest.Wait() // the third step hangs
		start := time.Now()
		for _, session := range []string{"s0", "s500", "s9999"} {
			recordBy(t, r, product, does(session, "u1", "of "+session, 2))
		}
		require.Zero(t, time.Since(start))
		running.Wait()
	})
}

// A step is bounded in the entries that it appends and in the documents that it changes.
func TestRecorder_dividesRequestsTooLargeForOneStep(t *testing.T) {
	const total = 10_000
	for name, event := range map[string]func(n int) activity.Event{
		"sessions": func(n int) activity.Event { return identifies(fmt.Sprint("s", n), fmt.Sprint("u", n), "", 1) },
		"identities of a session": func(n int) activity.Event {
			return identifies("s1", fmt.Sprint("u", n), fmt.Sprint("u", n, "@example.com"), float64(n)/100)
		},
		"users without a session": func(n int) activity.Event {
			return identifies("", fmt.Sprint("u", n), fmt.Sprint("u", n, "@example.com"), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := newHangingLog(nil)
			r := musttest.New(eventlog.NewRecorder(log, nil))
			var events []activity.Event
			for n := range total {
				events = append(events, event(n))
			}
			require.Equal(t, activity.Result{Accepted: total}, recordBy(t, r, product, events...))
			require.LessOrEqual(t, log.changes.Load(), int64(3*256))
			require.EqualValues(t, 40, log.appends.Load())
			if name == "identities of a session" {
				s, _, err := musttest.New(directory.New(log.Documents(), 0)).Session(t.Context(), product, "s1")
				require.NoError(t, err)
				require.Equal(t, []string{"u9999", "u9999@example.com"}, []string{s.UserID, s.Email})
			}
		})
	}
}

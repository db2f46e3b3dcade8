package schedule_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

var errAway = errors.New("away")

// bench is a scheduler at work in a bubble, with a record of its items.
type bench struct {
	t      *testing.T
	s      *schedule.Scheduler[int]
	cancel context.CancelFunc
	began  time.Time

	mu       sync.Mutex
	work     func(ctx context.Context, key string, items []int) error
	calls    []string // "key[items]@since began"
	finished map[string][]int
	errs     map[string][]error // of the items of finished
}

func run(t *testing.T, opts schedule.Options[int],
	work func(ctx context.Context, key string, items []int) error) *bench {
	b := &bench{t: t, began: time.Now(), work: work, finished: map[string][]int{}, errs: map[string][]error{}}
	b.s = schedule.New(b.call, b.finish, complete(opts))
	b.start()
	return b
}

// complete sets the fields that a test leaves open.
func complete(o schedule.Options[int]) schedule.Options[int] {
	o.MaxItems, o.MinBackoff = cmp.Or(o.MaxItems, 1024), cmp.Or(o.MinBackoff, time.Second)
	o.MaxBackoff, o.GiveUpAfter = cmp.Or(o.MaxBackoff, 30*time.Second), cmp.Or(o.GiveUpAfter, 1000*time.Hour)
	if o.CanGiveUp == nil {
		o.CanGiveUp = func([]int, bool) bool { return true }
	}
	if o.Failed == nil {
		o.Failed = func(string, error, time.Duration) {}
	}
	return o
}

// start runs the scheduler until stop, or the end of the test.
func (b *bench) start() {
	stop := waittest.Run(b.t, b.s.Run)
	b.cancel = func() { assert.ErrorIs(b.t, stop(), context.Canceled) }
	b.t.Cleanup(b.cancel)
}

func (b *bench) call(ctx context.Context, key string, items []int) error {
	b.mu.Lock()
	b.calls = append(b.calls, fmt.Sprint(key, items, "@", time.Since(b.began)))
	work := b.work
	b.mu.Unlock()
	if work == nil {
		return nil
	}
	return work(ctx, key, items)
}

func (b *bench) finish(key string, items []int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, item := range items {
		b.finished[key] = append(b.finished[key], item)
		b.errs[key] = append(b.errs[key], err)
	}
}

func (b *bench) add(key string, items ...int) {
	b.t.Helper()
	for _, item := range items {
		require.NoError(b.t, b.s.Add(b.t.Context(), key, item, 1))
	}
}

func (b *bench) called() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// all takes the waiting items in one call, up to eight.
func all(waiting []int, _ bool) (int, bool) { return min(len(waiting), 8), len(waiting) >= 8 }

func TestScheduler_waitsForAPauseForALimitedTime(t *testing.T) {
	for name, tt := range map[string]struct {
		debounce time.Duration
		items    int
		every    time.Duration
		first    string // call
	}{
		"a burst is one call after it ended":        {3 * time.Second, 2, 2 * time.Second, "a[0 1]@5s"},
		"a trickle waits for ten seconds":           {2 * time.Second, 20, 1500 * time.Millisecond, "a[0 1 2 3 4 5 6]@10s"},
		"slower than the debounce, each is alone":   {3 * time.Second, 3, 5 * time.Second, "a[0]@3s"},
		"or for three times a longer debounce time": {20 * time.Second, 10, 16 * time.Second, "a[0 1 2 3]@1m0s"},
		"a full call goes at once":                  {time.Hour, 9, 0, "a[0 1 2 3 4 5 6 7]@0s"},
	} {
		inBubble(t, name, func(t *testing.T) {
			b := run(t, schedule.Options[int]{Debounce: tt.debounce, Take: all}, nil)
			for i := range tt.items {
				b.add("a", i)
				time.Sleep(tt.every)
			}
			time.Sleep(time.Minute)
			assert.Equal(t, tt.first, b.called()[0])
		})
	}
}

func TestScheduler_retriesWithTheSameItemsAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 6
		var pauses []time.Duration
		b := run(t, schedule.Options[int]{Take: func(w []int, retried bool) (int, bool) {
			if retried {
				return len(w), true
			}
			return 1, true
		}, MaxBackoff: 8 * time.Second, Failed: func(_ string, err error, pause time.Duration) {
			assert.ErrorIs(t, err, errAway)
			pauses = append(pauses, pause)
		}}, nil)
		b.work = func(_ context.Context, key string, items []int) error {
			if failures--; (failures >= 0 || failures == -2) && key == "a" { // the seventh call succeeds
				return errAway
			}
			return nil
		}
		b.add("a", 1)
		b.called()
		b.add("a", 2, 3)
		time.Sleep(5 * time.Minute)
		calls := b.called()
		require.Len(t, calls, 9)
		for _, call := range calls[:7] {
			assert.Contains(t, call, "a[1]@")
		}
		for _, call := range calls[7:] {
			assert.Contains(t, call, "a[2 3]@", "what gathered meanwhile goes together")
		}
		require.Len(t, pauses, 7)
		for i, want := range []time.Duration{1, 2, 4, 8, 8, 8, 1} {
			assert.InDelta(t, want*time.Second, pauses[i], float64(want*time.Second)/5)
		}
		assert.Equal(t, []error{nil, nil, nil}, b.errs["a"])
		assert.Zero(t, b.s.Items())
	})
}

type busyError struct{ after time.Duration }

func (e busyError) Error() string             { return "busy" }
func (e busyError) RetryAfter() time.Duration { return e.after }

func TestScheduler_honoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := true
		b := run(t, schedule.Options[int]{}, nil)
		b.work = func(context.Context, string, []int) error {
			defer func() { busy = false }()
			if busy {
				return fmt.Errorf("desk: %w", busyError{time.Minute})
			}
			return nil
		}
		b.add("a", 1)
		time.Sleep(time.Minute - 1)
		assert.Len(t, b.called(), 1)
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"a[1]@0s", "a[1]@1m0s"}, b.called())
	})
}

func TestScheduler_skipsPermanentFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, schedule.Options[int]{}, func(_ context.Context, _ string, items []int) error {
			if items[0] == 1 {
				return fmt.Errorf("wrapped: %w", schedule.Permanent(errAway))
			}
			return nil
		})
		b.add("a", 1, 2)
		b.called()
		assert.Equal(t, []int{1, 2}, b.finished["a"])
		assert.ErrorAs(t, b.errs["a"][0], new(*schedule.PermanentError))
		assert.ErrorIs(t, b.errs["a"][0], errAway)
		assert.NoError(t, b.errs["a"][1])
		assert.Zero(t, b.s.Items())
	})
	assert.NoError(t, schedule.Permanent(nil))
}

func TestScheduler_givesUpAKeyThatFailsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, schedule.Options[int]{GiveUpAfter: 10 * time.Second}, func(_ context.Context, key string, _ []int) error {
			if key == "a" {
				return errAway
			}
			return nil
		})
		b.add("a", 1, 2, 3)
		b.add("b", 1)
		time.Sleep(11 * time.Second)
		b.called()
		assert.Equal(t, []int{1, 2, 3}, b.finished["a"], "all of it, in order")
		assert.Equal(t, []error{errAway, errAway, errAway}, b.errs["a"])
		assert.Equal(t, []error{nil}, b.errs["b"])
		assert.Zero(t, b.s.Items())
		b.add("a", 4)
		time.Sleep(11 * time.Second)
		b.called()
		assert.Equal(t, []int{1, 2, 3, 4}, b.finished["a"], "it begins anew")
	})
}

// A failing key is given up for room only when it takes half of the room.
func TestScheduler_givesUpOnlyWorkThatTakesRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		away, more     int  // items of the key that fails: before it has failed, and after
		again, givesUp bool // in the next Run
	}{"a third": {2, 0, false, false}, "a third, in the next Run": {2, 0, true, false},
		"half": {3, 0, false, true}, "half, most of it since": {1, 2, false, true}} {
		inBubble(t, name, func(t *testing.T) {
			b := run(t, schedule.Options[int]{GiveUpAfter: time.Hour, MaxItems: 6}, nil)
			recovers := true
			b.work = func(ctx context.Context, key string, items []int) error {
				switch {
				case key == "slow":
					<-ctx.Done()
				case key == "was away" && recovers:
					recovers = false
					return errAway
				case key == "away":
					return errAway
				}
				return ctx.Err()
			}
			b.add("was away", 1, 2, 3)
			time.Sleep(time.Minute)
			b.add("away", make([]int, tt.away)...)
			b.called()
			b.add("away", make([]int, tt.more)...)
			b.add("slow", make([]int, 6-tt.away-tt.more)...)
			if tt.again {
				b.cancel()
				b.start()
				b.called()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2) // shorter than a pause
			defer cancel()
			err := b.s.Add(ctx, "new", 1, 1)
			assert.Equal(t, tt.givesUp, err == nil)
			b.called()
			assert.Len(t, b.finished["away"], map[bool]int{true: tt.away + tt.more}[tt.givesUp])
		})
	}
}

func TestScheduler_givesUpNothingThatMustNotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		b := run(t, schedule.Options[int]{GiveUpAfter: time.Minute, CanGiveUp: func(items []int, _ bool) bool {
			assert.Equal(t, []int{1, 2}, items)
			asked++
			return false
		}}, func(context.Context, string, []int) error { return errAway })
		b.add("a", 1, 2)
		time.Sleep(time.Hour)
		b.called()
		assert.Empty(t, b.finished)
		assert.Positive(t, asked)
	})
}

// Items that announce another one wait for it, but not forever.
func TestScheduler_waitsForItemsThatWereAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, schedule.Options[int]{Take: func(w []int, _ bool) (int, bool) {
			if w[len(w)-1] < 3 {
				return 0, false
			}
			return len(w), true
		}}, nil)
		b.add("a", 1)
		time.Sleep(9 * time.Second)
		b.add("a", 2)
		time.Sleep(9 * time.Second)
		assert.Empty(t, b.called())
		b.add("a", 3)
		assert.Equal(t, []string{"a[1 2 3]@18s"}, b.called())
		b.add("a", 1, 2)
		time.Sleep(10 * time.Second)
		assert.Equal(t, "a[1 2]@28s", b.called()[1])
	})
}

func TestScheduler_pushesBackBeyondItsBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		opts  schedule.Options[int]
		bytes int
		fit   int
	}{
		"items":                {schedule.Options[int]{MaxItems: 3}, 1, 3},
		"bytes":                {schedule.Options[int]{}, 28 << 20, 2},
		"one item of any size": {schedule.Options[int]{}, 65 << 20, 1},
	} {
		inBubble(t, name, func(t *testing.T) {
			release := make(chan struct{})
			b := run(t, tt.opts, func(context.Context, string, []int) error {
				<-release
				return nil
			})
			added := 0
			go func() {
				for i := range 10 {
					if b.s.Add(t.Context(), fmt.Sprint(i), i, tt.bytes) == nil {
						added++
					}
				}
			}()
			synctest.Wait()
			assert.Equal(t, tt.fit, added)
			release <- struct{}{}
			synctest.Wait()
			assert.Equal(t, tt.fit+1, added)
			close(release)
			synctest.Wait()
			assert.Equal(t, 10, added)
			assert.Zero(t, b.s.Items())
		})
	}
}

func TestScheduler_waitsForNoPauseWhileSomebodyWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, schedule.Options[int]{Debounce: time.Hour, Take: all, MaxItems: 2}, nil)
		b.add("a", 1)
		b.add("b", 1)
		assert.Empty(t, b.called())
		b.add("c", 1)
		assert.Zero(t, time.Since(b.began))
		time.Sleep(time.Hour)
		b.add("d", 1)
		assert.Len(t, b.called(), 3, "there is room again")
	})
}

func TestScheduler_flushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, schedule.Options[int]{Debounce: time.Hour, Take: all}, func(context.Context, string, []int) error {
			time.Sleep(time.Second)
			return nil
		})
		b.add("a", 1, 2)
		b.add("b", 1)
		go func() { // nothing waits for the later items
			for i := range 1000 {
				time.Sleep(100 * time.Millisecond)
				if b.s.Add(t.Context(), "a", i+3, 1) != nil {
					return
				}
			}
		}()
		require.NoError(t, b.s.Flush(t.Context()))
		assert.Equal(t, time.Second, time.Since(b.began))
		assert.Equal(t, map[string][]int{"a": {1, 2}, "b": {1}}, b.finished)

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		b.add("c", 1)
		assert.ErrorIs(t, b.s.Flush(ctx), context.DeadlineExceeded)
	})
}

func TestScheduler_goesOnWithTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, schedule.Options[int]{}, func(ctx context.Context, key string, _ []int) error {
			if key == "away" {
				return errAway
			}
			<-ctx.Done()
			return ctx.Err()
		})
		b.add("a", 1, 2)
		b.add("away", 1)
		b.called()
		b.cancel()
		assert.Empty(t, b.finished)
		b.work = nil
		b.add("b", 1)
		b.add("away", 2)
		b.start()
		b.called()
		assert.Equal(t, map[string][]int{"a": {1, 2}, "away": {1, 2}, "b": {1}}, b.finished)
		assert.Zero(t, b.s.Items())
	})
}

// With many keys, random failures and eager adders, every item is finished once, and a key's items in order.
func TestScheduler_finishesEveryItemOnceAndInOrder(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			busy := map[string]bool{}
			opts := schedule.Options[int]{MaxItems: 1 + random.IntN(20), Take: all,
				Debounce: time.Duration(random.IntN(3)) * time.Second}
			b := run(t, opts, func(_ context.Context, key string, items []int) error {
				mu.Lock()
				assert.False(t, busy[key], "calls of a key overlap")
				busy[key] = true
				fails, wait := random.IntN(4) == 0, time.Duration(random.IntN(2000))*time.Millisecond
				mu.Unlock()
				time.Sleep(wait)
				mu.Lock()
				defer mu.Unlock()
				busy[key] = false
				if fails {
					return errAway
				}
				return nil
			})
			var want []int
			for i := range 50 {
				want = append(want, i)
			}
			waittest.Together(10, func(key int) { b.add(fmt.Sprint(key), want...) })
			require.NoError(t, b.s.Flush(t.Context()))
			for key := range 10 {
				assert.Equal(t, want, b.finished[fmt.Sprint(key)])
			}
			assert.Zero(t, b.s.Items())
		})
	}
}

// An agenda equals a map of due times, whatever is set, moved and removed.
func TestAgenda_popsTheEarliestThatIsDue(t *testing.T) {
	rng, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1_800_000_000, 0)
	var agenda schedule.Agenda[int]
	slots, due := make([]schedule.Slot[int], 20), map[int]time.Time{}
	earliest := func() time.Time { return slices.MinFunc(slices.Collect(maps.Values(due)), time.Time.Compare) }
	for range 5000 {
		i := rng.IntN(len(slots))
		switch s := &slots[i]; rng.IntN(4) {
		case 0:
			s.Value, due[i] = i, now.Add(time.Duration(rng.Int64N(1e6))) // hardly ever two alike
			require.Equal(t, earliest().Equal(due[i]), agenda.Set(s, due[i]), "whether a sleeper must wake up earlier")
		case 1:
			agenda.Remove(s)
			delete(due, i)
		default:
			if now = now.Add(time.Duration(rng.Int64N(1e4))); len(due) > 0 && rng.IntN(4) == 0 {
				now = earliest() // is due at that very moment
			}
			popped, ok := agenda.Pop(now)
			require.Equal(t, len(due) > 0 && !earliest().After(now), ok)
			if ok {
				require.Equal(t, earliest(), due[popped])
				delete(due, popped)
			}
		}
		next, ok := agenda.Next()
		require.Equal(t, len(due) > 0, ok)
		require.True(t, !ok || next.Equal(earliest()))
		_, isSet := due[i]
		require.Equal(t, isSet, slots[i].IsSet())
		require.Equal(t, len(due), agenda.Len())
	}
}

// No step of the wall clock makes anything due early or late.
func TestAgenda_goesByTheMonotonicClock(t *testing.T) {
	var agenda schedule.Agenda[int]
	var slot schedule.Slot[int]
	agenda.Set(&slot, time.Now())
	next, _ := agenda.Next()
	for _, due := range []time.Time{slot.Due(), next} {
		assert.Contains(t, due.String(), " m=")
	}
}

func TestAgenda_popsAnyOfTheBestThatAreDue(t *testing.T) {
	var agenda schedule.Agenda[int]
	now, slots, popped := time.Unix(1_800_000_000, 0), make([]schedule.Slot[int], 20), map[int]bool{}
	for i := range slots {
		slots[i].Value = i
		agenda.Set(&slots[i], now.Add(time.Duration(i-10)*time.Second))
	}
	isSmall := func(a, b int) bool { return a < 5 && b >= 5 }
	for range 1000 {
		i, ok := agenda.PopBest(now, isSmall)
		require.True(t, ok && i < 5 && !slots[i].IsSet())
		popped[i] = true
		agenda.Set(&slots[i], now)
	}
	assert.Len(t, popped, 5)
	for left := 11; left > 0; left-- {
		i, ok := agenda.PopBest(now, isSmall)
		require.True(t, ok && i <= 10 && (i < 5) == (left > 6), i)
	}
	_, ok := agenda.PopBest(now, isSmall)
	assert.False(t, ok)
	assert.Equal(t, 9, agenda.Len())
}

func TestBackoff_staysWithinItsBounds(t *testing.T) {
	for failures := range 100 {
		for _, b := range []schedule.Backoff{{Min: time.Second, Max: time.Minute}, {Min: 48 * time.Hour, Max: 72 * time.Hour},
			{Min: time.Minute, Max: time.Second}} {
			pause := b.After(failures)
			assert.GreaterOrEqual(t, pause, min(b.Min, b.Max), "%v after %d", b, failures)
			assert.LessOrEqual(t, pause, b.Max+b.Max/5, "%v after %d", b, failures)
		}
	}
}

func TestWake_endsOneWaitForAllSignalsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := schedule.NewWake(), time.Now()
		w.Signal()
		w.Signal()
		w.Await(t.Context(), time.Second)
		assert.Zero(t, time.Since(began))
		w.Await(t.Context(), time.Second)
		assert.Equal(t, time.Second, time.Since(began), "the time is over")
		w.Await(t.Context(), -time.Second)
		time.AfterFunc(time.Second, w.Signal)
		w.Await(t.Context(), time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.Await(ctx, time.Hour)
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}

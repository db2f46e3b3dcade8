package document_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const ttl = 6 * time.Second

var errAway = errors.New("storage unavailable")

// inBubble runs a subtest in a bubble.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// process is one process's view of a store, from which it may be cut off.
type process struct {
	document.Store
	away    atomic.Bool                   // calls fail at once
	deaf    atomic.Bool                   // changes happen, but their responses are lost
	stopped atomic.Pointer[chan struct{}] // calls hang until the channel is closed, ignoring their context
	slow    atomic.Int64                  // nanoseconds until a response
}

func (p *process) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	if stopped := p.stopped.Load(); stopped != nil {
		<-*stopped
	}
	if p.away.Load() {
		return 0, errAway
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	version, err := p.Store.Write(ctx, productID, changes...)
	time.Sleep(time.Duration(p.slow.Load()))
	if p.deaf.Load() {
		return 0, errAway
	}
	return version, err
}

// stop makes calls hang until the function returned is called.
func (p *process) stop() (resume func()) {
	stopped := make(chan struct{})
	p.stopped.Store(&stopped)
	return func() {
		p.stopped.Store(nil)
		close(stopped)
	}
}

// turn is one period in which a worker holds the lease.
type turn struct {
	ctx   context.Context
	lease *document.Lease
	began time.Time
	end   chan<- error // the result of work
}

// work runs WithLease until the test ends. Each turn lasts until the test sends its result, whatever its context says.
func work(t *testing.T, s document.Store) (turns <-chan turn, result <-chan error, cancel func()) {
	ctx, cancel := context.WithCancel(t.Context())
	begun, returned := make(chan turn, 100), make(chan error, 1)
	go func() {
		returned <- document.WithLease(ctx, s, product, "work", ttl, func(ctx context.Context, l *document.Lease) error {
			end := make(chan error, 1)
			begun <- turn{ctx, l, time.Now(), end}
			select {
			case err := <-end:
				return err
			case <-t.Context().Done(): // the test has failed
				return nil
			}
		})
	}()
	return begun, returned, cancel
}

// finish ends a turn and WithLease.
func finish(t *testing.T, last turn, result <-chan error, cancel func()) {
	t.Helper()
	cancel()
	last.end <- nil
	require.NoError(t, <-result)
}

// Only the holder's renewals and conditional writes succeed, until it releases the lease or the lease expires.
func TestLease_isHeldByOneAtATime(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, l *document.Lease){
		"released": func(t *testing.T, l *document.Lease) { require.NoError(t, l.Release(t.Context())) },
		"expired":  func(*testing.T, *document.Lease) { time.Sleep(ttl) },
	} {
		inBubble(t, name, func(t *testing.T) {
			m := musttest.New(document.NewMemory(nil))
			l := musttest.New(document.Acquire(t.Context(), m, product, "work", ttl))
			_, err := document.Acquire(t.Context(), m, product, "work", ttl)
			require.ErrorIs(t, err, document.ErrHeld)
			musttest.New(document.Acquire(t.Context(), m, product, "other work", ttl))
			musttest.New(document.Acquire(t.Context(), m, "other", "work", ttl))
			write(t, m, l.Check())
			end(t, l)
			requireLost := func() {
				t.Helper()
				_, err := m.Write(t.Context(), product, l.Check())
				require.True(t, document.IsConflict(err))
				require.ErrorIs(t, l.Renew(t.Context()), document.ErrLost)
				require.NoError(t, l.Release(t.Context()), "too late")
			}
			requireLost() // even while it is free
			next := musttest.New(document.Acquire(t.Context(), m, product, "work", ttl))
			require.Greater(t, next.Token(), l.Token())
			requireLost()
			require.NoError(t, next.Renew(t.Context()))
			write(t, m, next.Check())
		})
	}
}

func TestWithLease_keepsTheLeaseWhileWorkRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := musttest.New(document.NewMemory(nil))
		turns, result, cancel := work(t, m)
		only := <-turns
		for range 100 {
			time.Sleep(ttl / 7)
			require.NoError(t, only.ctx.Err())
			require.GreaterOrEqual(t, time.Until(only.lease.Until()), ttl-ttl/3, "as it was renewed")
			_, err := document.Acquire(t.Context(), m, product, "work", ttl)
			require.ErrorIs(t, err, document.ErrHeld)
		}
		finish(t, only, result, cancel)
	})
}

// The context ends before another process can acquire the lease: when the lease expires by the holder's own clock.
func TestWithLease_endsTheWorkWhenItCannotRenewInTime(t *testing.T) {
	for name, cut := range map[string]func(p *process) (back func()){
		"storage is unavailable": func(p *process) func() {
			p.away.Store(true)
			return func() { p.away.Store(false) }
		},
		"storage hangs, ignoring its context": func(p *process) func() { return p.stop() },
	} {
		inBubble(t, name, func(t *testing.T) {
			m := musttest.New(document.NewMemory(nil))
			p := &process{Store: m}
			turns, result, cancel := work(t, p)
			first := <-turns
			time.Sleep(ttl - 1)
			require.NoError(t, first.ctx.Err())
			back := cut(p)
			lastRenewal := ttl / 3 * 2 // before it was cut off
			<-first.ctx.Done()
			require.ErrorIs(t, context.Cause(first.ctx), document.ErrLost)
			require.Equal(t, lastRenewal+ttl, time.Since(first.began))
			_, err := document.Acquire(t.Context(), m, product, "work", ttl)
			require.NoError(t, err, "and not long before")

			back()
			first.end <- first.ctx.Err()
			second := <-turns
			require.Greater(t, second.lease.Token(), first.lease.Token())
			require.NoError(t, second.ctx.Err())
			finish(t, second, result, cancel)
		})
	}
}

func TestWithLease_survivesATemporaryStorageOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{Store: musttest.New(document.NewMemory(nil))}
		p.away.Store(true)
		turns, result, cancel := work(t, p)
		time.Sleep(10*ttl + ttl/10)
		require.Empty(t, turns)
		p.away.Store(false)
		only := <-turns
		require.LessOrEqual(t, time.Since(only.began), ttl/3)
		time.Sleep(ttl / 10)
		for range 10 {
			time.Sleep(ttl)
			p.away.Store(true)
			time.Sleep(ttl / 4)
			p.away.Store(false)
			time.Sleep(ttl / 2)
			require.NoError(t, only.ctx.Err())
		}
		finish(t, only, result, cancel)
	})
}

// A lease acquired by a call whose response was lost expires.
func TestWithLease_survivesLostResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{Store: musttest.New(document.NewMemory(nil))}
		p.deaf.Store(true)
		start := time.Now()
		turns, result, cancel := work(t, p)
		time.Sleep(time.Second)
		p.deaf.Store(false)
		first := <-turns
		require.LessOrEqual(t, first.began.Sub(start), ttl+ttl/3)
		p.deaf.Store(true)
		<-first.ctx.Done()
		require.ErrorIs(t, context.Cause(first.ctx), document.ErrLost)
		p.deaf.Store(false)
		first.end <- nil
		finish(t, <-turns, result, cancel)
	})
}

// A response that arrives after the lease has expired grants no lease.
func TestWithLease_cancelsWorkWhenTheLeaseComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{Store: musttest.New(document.NewMemory(nil))}
		p.slow.Store(int64(2 * ttl))
		turns, result, cancel := work(t, p)
		late := <-turns
		synctest.Wait()
		require.ErrorIs(t, context.Cause(late.ctx), document.ErrLost)
		p.slow.Store(0)
		late.end <- nil
		next := <-turns
		require.NoError(t, next.ctx.Err())
		finish(t, next, result, cancel)
	})
}

func TestWithLease_succeedsADeadHolderInTime(t *testing.T) {
	for _, waits := range []time.Duration{0, time.Second, ttl / 3, ttl / 2, ttl - 1, ttl} {
		inBubble(t, fmt.Sprintf("waiting for %s", waits), func(t *testing.T) {
			m := musttest.New(document.NewMemory(nil))
			dead := musttest.New(document.Acquire(t.Context(), m, product, "work", ttl))
			turns, result, cancel := work(t, m)
			time.Sleep(waits)
			renewed := time.Now()
			if waits < ttl {
				require.NoError(t, dead.Renew(t.Context()))
			} else {
				renewed = renewed.Add(-ttl)
			}
			next := <-turns
			require.GreaterOrEqual(t, next.began.Sub(renewed), ttl)
			require.LessOrEqual(t, next.began.Sub(renewed), ttl+ttl/3)
			require.Greater(t, next.lease.Token(), dead.Token())
			finish(t, next, result, cancel)
		})
	}
}

// A process that was paused while its lease passed on cannot make its conditional writes, and waits for its next turn.
func TestWithLease_pausedHolderDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := musttest.New(document.NewMemory(nil))
		paused := &process{Store: m}
		turns, result, cancel := work(t, paused)
		old := <-turns
		resume := paused.stop()

		others, othersResult, othersCancel := work(t, m)
		current := <-others
		write(t, m, current.lease.Check(), document.Put(document.Document{Name: "cursor"}, []byte("from the new holder"), 0))

		resume()
		_, err := m.Write(t.Context(), product, old.lease.Check(),
			document.Put(one(t, m, "cursor"), []byte("from the old holder"), 0))
		require.Error(t, err)
		old.end <- fmt.Errorf("work: %w", err)
		time.Sleep(10 * ttl)
		require.Empty(t, turns)
		require.Empty(t, result, "losing the lease is not an error")
		require.NoError(t, current.ctx.Err())
		require.Equal(t, "from the new holder", string(one(t, m, "cursor").Value))

		finish(t, current, othersResult, othersCancel)
		next := <-turns
		require.Greater(t, next.lease.Token(), current.lease.Token())
		finish(t, next, result, cancel)
	})
}

// Work may notice first that the lease is lost.
func TestWithLease_distinguishesALostLeaseFromAnError(t *testing.T) {
	errWork := errors.New("the work failed")
	for _, c := range []struct {
		name string
		end  func(turn) error
		ends bool
	}{
		{"conflict over the lease", func(turn turn) error {
			return fmt.Errorf("work: %w", &document.ConflictError{Name: turn.lease.Check().Name})
		}, false},
		{"renewal that failed", func(turn turn) error {
			if err := turn.lease.Release(turn.ctx); err != nil {
				return err
			}
			return turn.lease.Renew(turn.ctx)
		}, false},
		{"nothing", func(turn) error { return nil }, false},
		{"conflict over something else", func(turn) error { return &document.ConflictError{Name: "cursor"} }, true},
		{"any error", func(turn) error { return errWork }, true},
		{"another context", func(turn) error { return context.Canceled }, true},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			turns, result, cancel := work(t, musttest.New(document.NewMemory(nil)))
			first := <-turns
			err := c.end(first)
			first.end <- err
			if c.ends {
				require.ErrorIs(t, <-result, err)
				return
			}
			finish(t, <-turns, result, cancel)
		})
	}
}

func TestWithLease_endsWithItsContext(t *testing.T) {
	errWork := errors.New("the work failed")
	for name, c := range map[string]struct{ returned, want error }{
		"work that returns nothing":           {nil, nil},
		"work that returns the context's end": {fmt.Errorf("work: %w", context.Canceled), nil},
		"work that fails":                     {errWork, errWork},
	} {
		inBubble(t, name, func(t *testing.T) {
			m := musttest.New(document.NewMemory(nil))
			turns, result, cancel := work(t, &process{Store: m})
			only := <-turns
			cancel()
			<-only.ctx.Done()
			only.end <- c.returned
			require.ErrorIs(t, <-result, c.want)
			_, err := document.Acquire(t.Context(), m, product, "work", ttl)
			require.NoError(t, err, "the lease was given up")
		})
	}
	t.Run("that ended earlier", func(t *testing.T) {
		m := musttest.New(document.NewMemory(nil))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := document.WithLease(ctx, m, product, "work", ttl, func(context.Context, *document.Lease) error {
			return errWork
		})
		require.NoError(t, err)
		require.Empty(t, kept(t, m))
	})
	inBubble(t, "while storage is unavailable", func(t *testing.T) {
		p := &process{Store: musttest.New(document.NewMemory(nil))}
		turns, result, cancel := work(t, p)
		only := <-turns
		p.away.Store(true)
		finish(t, only, result, cancel)
	})
}

// Work that ignores the end of its context does not keep other holders out.
func TestWithLease_stopsRenewingWhenWorkMustEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := musttest.New(document.NewMemory(nil))
		turns, result, cancel := work(t, m)
		stubborn := <-turns
		cancel()
		time.Sleep(ttl)
		_, err := document.Acquire(t.Context(), m, product, "work", ttl)
		require.NoError(t, err)
		require.Empty(t, result)
		finish(t, stubborn, result, cancel)
	})
}

func TestWithLease_rejectsAnInvalidName(t *testing.T) {
	err := document.WithLease(t.Context(), musttest.New(document.NewMemory(nil)), product,
		strings.Repeat("n", document.MaxName), ttl, nil)
	require.ErrorIs(t, err, document.ErrInvalid)
}

func TestLease_passesStorageErrorsThrough(t *testing.T) {
	p := &process{Store: musttest.New(document.NewMemory(nil))}
	l := musttest.New(document.Acquire(t.Context(), p, product, "work", ttl))
	p.away.Store(true)
	_, err := document.Acquire(t.Context(), p, product, "other work", ttl)
	require.ErrorIs(t, err, errAway)
	until := l.Until()
	err = l.Renew(t.Context())
	require.ErrorIs(t, err, errAway)
	require.NotErrorIs(t, err, document.ErrLost)
	require.Equal(t, until, l.Until(), "the lease is unchanged")
	require.ErrorIs(t, l.Release(t.Context()), errAway)
	p.away.Store(false)
	require.NoError(t, l.Renew(t.Context()))
	require.NoError(t, l.Release(t.Context()))
}

// The store may have counted from any moment during a call, so the holder counts from the call's start.
func TestLease_expiresFirstForItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{Store: musttest.New(document.NewMemory(nil))}
		p.slow.Store(int64(time.Second))
		start := time.Now()
		l := musttest.New(document.Acquire(t.Context(), p, product, "work", ttl))
		require.Equal(t, start.Add(ttl), l.Until())
		start = time.Now()
		require.NoError(t, l.Renew(t.Context()))
		require.Equal(t, start.Add(ttl), l.Until())
	})
}

func TestAcquire_hasADefaultTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for given, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 0: document.DefaultLeaseTTL,
			-1: document.DefaultLeaseTTL} {
			l, err := document.Acquire(t.Context(), musttest.New(document.NewMemory(nil)), product, "work", given)
			require.NoError(t, err)
			require.Equal(t, time.Now().Add(want), l.Until())
		}
	})
	require.Less(t, document.DefaultLeaseTTL*4/3, 10*time.Second, "until a dead holder is succeeded")
}

// Work that is done once waits for any of several leases, and holds no other.
func TestWithOne_takesAFreeLeaseAndWaitsForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &process{Store: musttest.New(document.NewMemory(nil))}
		names := []string{"a", "b"}
		var running, most, done atomic.Int64
		waittest.Together(6, func(int) {
			err := document.WithOne(t.Context(), store, "acme", names, func(context.Context) error {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(2 * document.DefaultLeaseTTL) // longer than a lease that is not renewed
				running.Add(-1)
				return errAway
			})
			assert.ErrorIs(t, err, errAway, "the work's own error")
			done.Add(1)
		})
		assert.EqualValues(t, 2, most.Load())
		assert.EqualValues(t, 6, done.Load())
	})
}

func TestWithOne_endsWithItsContextAndItsStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &process{Store: musttest.New(document.NewMemory(nil))}
		never := func(context.Context) error { t.Error("the lease is not free"); return nil }
		held := musttest.New(document.Acquire(t.Context(), store, "acme", "a", time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, document.WithOne(ctx, store, "acme", []string{"a"}, never), context.DeadlineExceeded)
		store.away.Store(true)
		require.ErrorIs(t, document.WithOne(t.Context(), store, "acme", []string{"a"}, never), errAway)
		store.away.Store(false)
		require.NoError(t, held.Release(t.Context()))
		err := document.WithOne(t.Context(), store, "acme", []string{"a"}, func(ctx context.Context) error {
			store.away.Store(true) // it cannot be renewed
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, document.ErrLost)
	})
}

package documenttest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// acquire takes a lease that is free.
func (f fixture) acquire(name string, ttl time.Duration) *document.Lease {
	f.Helper()
	l, err := document.Acquire(f.Context(), f.store, f.product, name, ttl)
	require.NoError(f, err)
	return l
}

// requireHeld fails the test unless the lease is held.
func (f fixture) requireHeld(name string) {
	f.Helper()
	_, err := document.Acquire(f.Context(), f.store, f.product, name, time.Hour)
	require.ErrorIs(f, err, document.ErrHeld)
}

// succeed waits until the lease can be taken, and takes it.
func (f fixture) succeed(name string, ttl time.Duration) (l *document.Lease) {
	f.Helper()
	waittest.Until(f, "the lease of "+name+" is free", func() (ok bool) {
		var err error
		l, err = document.Acquire(f.Context(), f.store, f.product, name, ttl)
		return err == nil
	})
	return l
}

// leaseTests are about the store; how leases work on one is tested in package document.
var leaseTests = []test{
	{name: "is held by one in a product until it is released", run: func(f fixture) {
		l := f.acquire("work", time.Hour)
		f.requireHeld("work")
		f.acquire("other work", time.Hour)
		f.in("other").acquire("work", time.Hour)
		for range 2 {
			require.NoError(f, l.Release(f.Context()))
		}
		next := f.acquire("work", time.Hour)
		require.Greater(f, next.Token(), l.Token())
		require.NoError(f, l.Release(f.Context()), "too late")
		f.requireHeld("work")
		require.NoError(f, next.Renew(f.Context()))
	}},
	{name: "passes on when it expires, and only its holder writes", run: func(f fixture) {
		l := f.acquire("work", brief)
		next := f.succeed("work", time.Hour)
		require.False(f, time.Now().Before(l.Until().Add(-time.Millisecond)), "not before, to the millisecond")
		require.Greater(f, next.Token(), l.Token())
		require.ErrorIs(f, l.Renew(f.Context()), document.ErrLost)
		mine, his := document.Put(named("mine"), nil, 0), document.Put(named("his"), nil, 0)
		f.conflict(l.Check(), mine)
		require.NoError(f, l.Release(f.Context()))
		f.write(next.Check(), his)
		require.NoError(f, next.Renew(f.Context()))
		f.write(next.Check())
		f.requireHeld("work")
		require.NoError(f, next.Release(f.Context()))
		f.conflict(next.Check(), mine)
		require.Equal(f, []string{"his"}, names(f.all()))
	}},
	{name: "is held for as long as it is renewed, with the same token", run: testRenewed},
	{name: "that has expired rejects the holder's writes, even while it is free", run: func(f fixture) {
		l := f.acquire("work", brief)
		f.outlive(brief)
		f.conflict(l.Check(), document.Put(named("a"), nil, 0))
		require.ErrorIs(f, l.Renew(f.Context()), document.ErrLost)
		require.Empty(f, f.all())
	}},
	{name: "lets WithLease run work in one holder at a time", run: testOneAtATime},
}

func testRenewed(f fixture) {
	f.inTime(func(ttl time.Duration) bool {
		l, err := document.Acquire(f.Context(), f.store, f.product, fmt.Sprint("work for ", ttl), ttl)
		require.NoError(f, err)
		token := l.Token()
		for range 2 {
			witness := f.put(fmt.Sprint("witness for ", ttl), "", ttl) // no other, which might expire just now
			for f.one(witness.Name).Exists() {
				if err := l.Renew(f.Context()); err != nil {
					require.ErrorIs(f, err, document.ErrLost)
					return false
				}
				time.Sleep(ttl / 10)
			}
		}
		if _, err = document.Acquire(f.Context(), f.store, f.product, fmt.Sprint("work for ", ttl), ttl); err == nil {
			return false
		}
		require.ErrorIs(f, err, document.ErrHeld)
		require.Equal(f, token, l.Token())
		return true
	})
}

// testOneAtATime runs many workers in turn. Each makes a note when it begins. When it is done no
// other worker may have made one, unless it lost the lease.
func testOneAtATime(f fixture) {
	const contenders, turns = 5, 6
	var done atomic.Int64
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	work := func(_ context.Context, l *document.Lease) error {
		docs, err := f.store.Get(f.Context(), f.product, "note")
		if !assert.NoError(f, err) {
			return nil
		}
		note := document.Put(docs[0], nil, 0)
		for range 2 { // when it begins and when it is done
			version, err := f.store.Write(f.Context(), f.product, l.Check(), note)
			if document.IsConflict(err) {
				_, err = f.store.Write(f.Context(), f.product, l.Check())
				assert.True(f, document.IsConflict(err), "another worker ran while the lease was held")
				return nil
			}
			assert.NoError(f, err)
			note.Prev = version
			time.Sleep(brief / 10)
		}
		if done.Add(1) == turns {
			cancel()
		}
		return nil
	}
	f.within("work in turn", func() {
		waittest.Together(contenders, func(int) {
			assert.NoError(f, document.WithLease(ctx, f.store, f.product, "work", brief, work))
		})
	})
	require.GreaterOrEqual(f, done.Load(), int64(turns))
}

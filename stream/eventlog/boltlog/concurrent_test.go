package boltlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// Everything at once, until the log is closed: what was acknowledged is there
// when it is opened again, and nothing else.
func TestLog_isSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	dir, opts := t.TempDir(), &boltlog.Options{TailBytes: 8 << 10}
	log := open(t, dir, opts)
	start := eventlogtest.Bounds(t, log, product)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const writers, calls = 6, 300
	var acknowledged [writers][]item
	var total atomic.Int64
	var writing, rest sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := 0; ; n++ {
				entries, err := appendCounted(ctx, log, fmt.Sprint(w), n)
				if errors.Is(err, eventlog.ErrClosed) {
					return
				}
				if !assert.NoError(t, err) {
					return
				}
				acknowledged[w] = append(acknowledged[w], items(entries)...)
				if total.Add(1) == calls {
					assert.NoError(t, log.Close())
				}
			}
		})
	}
	for i, use := range []func(*rand.Rand) error{
		func(r *rand.Rand) error { return readSomewhere(ctx, log, start.TrimmedTo, r) },
		func(*rand.Rand) error { return ignore(log.Documents().List(ctx, product, "", "", 5)) },
		func(*rand.Rand) error { return ignore(log.Documents().Get(ctx, product, "1", "2", "none")) },
		func(r *rand.Rand) error { return churnDocuments(ctx, log, r) },
		func(*rand.Rand) error { return log.Expire(ctx) },
		func(*rand.Rand) error { log.Stats(); return log.Ping(ctx) },
		func(*rand.Rand) error { log.Changed(product); return ignore(log.Bounds(ctx, "another")) },
	} {
		rest.Go(func() {
			for random := rand.New(rand.NewPCG(uint64(i), 0)); ctx.Err() == nil; {
				if err := use(random); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, eventlog.ErrClosed) {
					assert.NoError(t, err)
					return
				}
			}
		})
	}
	writing.Wait()
	cancel()
	rest.Wait()
	stats := log.Stats()[product]
	log = reopen(t, log, dir, opts)
	require.Equal(t, stats, log.Stats()[product])
	byWriter := map[string][]item{}
	for _, e := range items(eventlogtest.ReadAll(t, log, product, start.TrimmedTo, 100)) {
		byWriter[e.SessionID] = append(byWriter[e.SessionID], e)
	}
	for w, want := range acknowledged {
		require.Equal(t, want, byWriter[fmt.Sprint(w)])
		require.Equal(t, fmt.Sprint(len(want)/2), string(get(t, log, product, fmt.Sprint(w))[0].Value))
	}
}

// appendCounted appends two entries, and counts the calls in a document.
func appendCounted(ctx context.Context, log *boltlog.Log, name string, n int) ([]eventlog.Entry, error) {
	docs, err := log.Documents().Get(ctx, product, name)
	if err != nil {
		return nil, err
	}
	entries := []eventlog.Entry{eventlogtest.Entry(name, 2*n), eventlogtest.Sized(eventlogtest.Entry(name, 2*n+1), 500)}
	return entries, log.Append(ctx, product, entries, document.Put(docs[0], fmt.Append(nil, n+1), 0))
}

// readSomewhere reads somewhere in the log.
func readSomewhere(ctx context.Context, log *boltlog.Log, trimmedTo eventlog.ID, random *rand.Rand) error {
	b, err := log.Bounds(ctx, product)
	if err != nil || b.Newest == trimmedTo {
		return err
	}
	after := eventlog.ID{Milli: trimmedTo.Milli + random.Uint64N(b.Newest.Milli-trimmedTo.Milli+1)}
	if after.Compare(trimmedTo) < 0 {
		after = trimmedTo
	}
	dst := make([]eventlog.Entry, 1+random.IntN(50))
	n, err := log.Read(ctx, product, after, dst)
	if err == nil && n == 0 && after.Compare(b.Newest) < 0 {
		return fmt.Errorf("nothing after %s, though the newest is %s", after, b.Newest)
	}
	for _, e := range dst[:n] {
		if e.ID.Compare(after) <= 0 {
			return fmt.Errorf("entry %s after %s", e.ID, after)
		}
		after = e.ID
	}
	return err
}

// churnDocuments makes a document that soon expires, or is deleted.
func churnDocuments(ctx context.Context, log *boltlog.Log, random *rand.Rand) error {
	docs, err := log.Documents().Get(ctx, product, fmt.Sprint("brief ", random.IntN(20)))
	if err != nil {
		return err
	}
	change := document.Put(docs[0], make([]byte, random.IntN(500)), time.Duration(random.IntN(5))*time.Millisecond)
	if docs[0].Exists() && random.IntN(2) == 0 {
		change = document.Delete(docs[0])
	}
	_, err = log.Documents().Write(ctx, product, change)
	var conflict *document.ConflictError
	if errors.As(err, &conflict) { // it has expired
		return nil
	}
	return err
}

func ignore[T any](_ T, err error) error { return err }

package eventlog_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// pages returns all entries of the pages, and the number of pages.
func pages(t *testing.T, log eventlog.Log) (all []eventlog.Entry, n int, err error) {
	for page, err := range eventlog.Pages(t.Context(), log, product) {
		if err != nil {
			return all, n, err
		}
		all, n = append(all, page...), n+1
	}
	return all, n, nil
}

func TestPages_haveAllThatIsRetained(t *testing.T) {
	log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{MaxBytes: 64 << 10}}))
	all, _, err := pages(t, log)
	require.NoError(t, err)
	assert.Empty(t, all)
	for i := range 20 { // the first are trimmed
		require.NoError(t, log.Append(t.Context(), product, eventlogtest.Entries(fmt.Sprint("x", i, "-"), 100)))
	}
	want := eventlogtest.Retained(t, log, product)
	require.Less(t, len(want), 2000)
	all, n, err := pages(t, log)
	require.NoError(t, err)
	assert.Equal(t, want, all)
	assert.Greater(t, n, 1)
	for range eventlog.Pages(t.Context(), log, product) {
		break
	}
	require.NoError(t, log.Close())
	all, _, err = pages(t, log)
	require.NoError(t, err)
	assert.Equal(t, want, all)
}

// A product is appended to faster than a log far away is read.
func TestPages_endAtTheNewestEntryOfTheirStart(t *testing.T) {
	log := musttest.New(memorylog.New(nil))
	require.NoError(t, log.Append(t.Context(), product, eventlogtest.Entries("before", 100)))
	n := 0
	for page, err := range eventlog.Pages(t.Context(), log, product) {
		require.NoError(t, err)
		n++
		require.LessOrEqual(t, n, 2, "of %d entries", len(page))
		require.NoError(t, log.Append(t.Context(), product, eventlogtest.Entries(fmt.Sprint("since", n, "-"), 1)))
	}
	assert.Equal(t, 2, n)
}

// Entries may be trimmed after the bounds were read.
func TestPages_skipWhatIsTrimmedMeanwhile(t *testing.T) {
	inner := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{MaxBytes: 64 << 10}}))
	log, n := &watchtest.Log{Log: inner}, 0
	appends := func() {
		n++
		require.NoError(t, inner.Append(t.Context(), product, eventlogtest.Entries(fmt.Sprint("x", n, "-"), 10)))
	}
	trimmedTo := func() eventlog.ID { return eventlogtest.Bounds(t, inner, product).TrimmedTo }
	for range 10 {
		appends()
	}
	before := trimmedTo()
	log.Before = func(_ context.Context, op watchtest.Op) error {
		for op.Name == "read" && trimmedTo() == before {
			appends()
		}
		return nil
	}
	all, _, err := pages(t, log)
	require.NoError(t, err)
	require.NotEqual(t, before, trimmedTo())
	require.NotEmpty(t, all)
	assert.Equal(t, eventlogtest.Retained(t, inner, product)[0].ID, all[0].ID)
}

func TestPages_endWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &watchtest.Log{Log: musttest.New(memorylog.New(nil))}
		log.Before = func(ctx context.Context, _ watchtest.Op) error {
			<-ctx.Done()
			return errFull
		}
		began := time.Now()
		all, _, err := pages(t, log)
		require.ErrorIs(t, err, errFull)
		assert.Empty(t, all)
		assert.Equal(t, 4*time.Second, time.Since(began), "storage hangs")
	})
}

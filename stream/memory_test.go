package stream_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

func TestMemoryLog_keepsTheContract(t *testing.T) {
	streamtest.TestLog(t, func(_ *testing.T, r stream.Retention) stream.Log { return stream.NewMemoryLog(r) })
}

const product = "acme"

func appendTo(t testing.TB, log stream.Log, entries ...stream.Entry) []stream.Entry {
	t.Helper()
	require.NoError(t, log.Append(t.Context(), product, entries))
	return entries
}

func boundsOf(t testing.TB, log stream.Log) stream.Bounds {
	t.Helper()
	b, err := log.Bounds(t.Context(), product)
	require.NoError(t, err)
	return b
}

func TestMemoryLog_staysWithinItsSize(t *testing.T) {
	const limit = 100 << 10
	log := stream.NewMemoryLog(stream.Retention{MaxBytes: limit})
	for n := range 1000 {
		appendTo(t, log, streamtest.Sized(streamtest.Entry("a", n), 1000))
		stats := log.Stats()[product]
		require.LessOrEqual(t, stats.Bytes, int64(limit))
		require.GreaterOrEqual(t, stats.Bytes, int64(stats.Entries*1000), "what the entries hold is counted")
		require.EqualValues(t, n+1, int64(stats.Entries)+stats.Dropped, "an entry is held or counted as dropped")
	}
	require.Greater(t, log.Stats()[product].Entries, limit/1000/2, "the room is used")
}

func TestMemoryLog_boundsEachProductByItself(t *testing.T) {
	log := stream.NewMemoryLog(stream.Retention{MaxBytes: 20 << 10})
	appendTo(t, log, streamtest.Entry("quiet", 0))
	for n := range 100 {
		entry := streamtest.Sized(streamtest.Entry("busy", n), 1000)
		require.NoError(t, log.Append(t.Context(), "busy", []stream.Entry{entry}))
	}
	stats := log.Stats()
	require.Equal(t, 1, stats[product].Entries)
	require.Zero(t, stats[product].Dropped)
	require.NotZero(t, stats["busy"].Dropped)
}

func TestMemoryLog_keepsAnEntryLargerThanItsLimit(t *testing.T) {
	log := stream.NewMemoryLog(stream.Retention{MaxBytes: 1000})
	appendTo(t, log, streamtest.Entry("a", 0))
	large := appendTo(t, log, streamtest.Sized(streamtest.Entry("a", 1), 5000))[0]
	require.Equal(t, large.ID, boundsOf(t, log).Oldest)
	require.Equal(t, 1, log.Stats()[product].Entries)
}

func TestMemoryLog_countsWhatAgesOutNotAsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stream.NewMemoryLog(stream.Retention{TTL: time.Hour})
		appendTo(t, log, streamtest.Entries("a", 3)...)
		time.Sleep(59 * time.Minute)
		appendTo(t, log, streamtest.Entry("a", 3))
		require.Equal(t, 4, log.Stats()[product].Entries, "kept for the hour")
		time.Sleep(2 * time.Minute)
		log.Expire()
		require.Equal(t, 1, log.Stats()[product].Entries)
		time.Sleep(time.Hour)
		log.Expire()
		require.Equal(t, stream.Stats{}, log.Stats()[product])
	})
}

func TestMemoryLog_zeroRetentionIsTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stream.NewMemoryLog(stream.Retention{})
		appendTo(t, log, streamtest.Entry("a", 0))
		time.Sleep(stream.DefaultTTL - time.Second)
		require.NotZero(t, boundsOf(t, log).Oldest)
		time.Sleep(2 * time.Second)
		require.Zero(t, boundsOf(t, log).Oldest)
	})
}

// After a restart the log is empty, and a cursor from before it is a gap.
func TestMemoryLog_isGapAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := appendTo(t, stream.NewMemoryLog(stream.Retention{}), streamtest.Entry("a", 0))[0]
		time.Sleep(time.Second)
		restarted := stream.NewMemoryLog(stream.Retention{})
		_, err := restarted.Read(t.Context(), product, before.ID, make([]stream.Entry, 1))
		var gap *stream.GapError
		require.ErrorAs(t, err, &gap)
		after := appendTo(t, restarted, streamtest.Entry("a", 1))[0]
		require.Positive(t, after.ID.Compare(before.ID))
	})
}

func TestMemoryLog_findsEveryCursor(t *testing.T) {
	log := stream.NewMemoryLog(stream.Retention{MaxBytes: 10 << 10})
	for _, size := range []int{1, 2, 3, 10, 31, 32, 33, 100} {
		t.Run(fmt.Sprintf("%d more entries", size), func(t *testing.T) {
			for n := range size {
				appendTo(t, log, stream.Entry{SessionID: fmt.Sprint(n), Data: []byte(`{}`)})
			}
			b, held := boundsOf(t, log), make([]stream.Entry, 1000)
			n, err := log.Read(t.Context(), product, b.Floor, held)
			require.NoError(t, err)
			for i, e := range held[:n] {
				rest := make([]stream.Entry, 1000)
				got, err := log.Read(t.Context(), product, e.ID, rest)
				require.NoError(t, err)
				require.Equal(t, held[i+1:n], rest[:got])
			}
		})
	}
}

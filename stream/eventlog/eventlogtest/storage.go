package eventlogtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// TestStorage checks the storage reports, see [eventlog.Storage], of the logs returned by open. A
// report must name the given engine. Every call of open must return a new empty log, which the
// suite closes.
func TestStorage(t *testing.T, engine string, open func(t *testing.T, r eventlog.Retention) eventlog.Log) {
	empty := eventlog.Storage{Engine: engine, LogMaxBytes: smallLog, StateMaxBytes: 2 * documentBytes}
	alone := test{name: "is the product's alone, and empty again after a drop", run: func(f fixture) {
		f.write(product, document.Put(named("a"), make([]byte, 5000), 0))
		f.append(Entries("a", 10)...)
		require.Equal(f, empty, f.storage("unknown"))
		f.drop()
		require.Equal(f, empty, f.storage(product))
	}}
	runAll(t, append(storageTests, alone), func(t *testing.T, r eventlog.Retention) eventlog.Log {
		r.MaxBytes, r.StateMaxBytes = empty.LogMaxBytes, empty.StateMaxBytes
		return open(t, r)
	})
}

func (f fixture) storage(productID string) eventlog.Storage {
	f.Helper()
	s, err := f.log.Storage(f.Context(), productID)
	require.NoError(f, err)
	return s
}

var storageTests = []test{
	{name: "grows with the log, up to its limit", run: func(f fixture) {
		f.append(Sized(Entry("a", 0), 1000))
		one := f.storage(product)
		require.GreaterOrEqual(f, one.LogBytes, int64(1000))
		require.Less(f, one.LogBytes, int64(3000))
		f.append(Sized(Entry("a", 1), 1000))
		require.Greater(f, f.storage(product).LogBytes, one.LogBytes+999)
		require.Equal(f, 2, f.log.Stats()[product].Entries)
		first := f.bounds().Oldest
		f.appendUntil(func() bool { return f.bounds().Oldest != first })
		full := f.storage(product).LogBytes
		require.LessOrEqual(f, full, int64(smallLog*5/4))
		require.Greater(f, full, int64(smallLog/2))
	}},
	{name: "grows and shrinks with documents", run: func(f fixture) {
		version := f.write(product, document.Put(named("a"), make([]byte, 5000), time.Hour))
		full := f.storage(product)
		require.GreaterOrEqual(f, full.StateBytes, int64(5000))
		require.Less(f, full.StateBytes, int64(10_000))
		require.Zero(f, full.LogBytes)
		f.write(product, document.Delete(document.Document{Name: "a", Version: version}))
		require.Less(f, f.storage(product).StateBytes, full.StateBytes-4000)
	}},
	{name: "counts no action that has expired on arrival", run: func(f fixture) {
		act := func(age time.Duration) int64 {
			old := activitytest.Click(time.Now().Add(-age), "Save", page)
			f.append(BatchEntry(f, activitytest.NewBatch(product, "s", "ada", old)))
			return f.storage(product).StateBytes
		}
		require.Zero(f, act(2*eventlog.DefaultTTL))
		require.Positive(f, act(0))
	}},
	{name: "can be asked of a log that is closed", run: func(f fixture) {
		f.append(Entry("a", 0))
		require.NoError(f, f.log.Close())
		require.Positive(f, f.storage(product).LogBytes)
	}},
}

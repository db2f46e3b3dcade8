package eventlogtest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// smallLog is a size limit that tests reach quickly.
const smallLog = 64 << 10

// Retentions under test. The default keeps everything.
var (
	small = eventlog.Retention{MaxBytes: smallLog}
	brief = eventlog.Retention{TTL: 50 * time.Millisecond}
)

var readTests = []test{
	{name: "starts after a cursor that is not an entry's ID", run: func(f fixture) {
		before := f.append(Entry("a", 0))[0].ID
		between := eventlog.ID{Milli: before.Milli, Seq: before.Seq + math.MaxUint32}
		require.Empty(f, f.readAll(between, 4))
		require.Empty(f, f.readAll(eventlog.ID{Milli: math.MaxInt64 / 2}, 4), "a cursor in the future")
	}},
	{name: "returns the keys of each entry as they were appended", run: func(f fixture) {
		start := f.bounds().Newest
		many := keyed()
		for i := range 300 {
			many.Keys = append(many.Keys, keysNamed(fmt.Sprint("many ", i))...)
		}
		want := f.append(keyed("b", "a", "c"), keyed(), keyed("d"), Entry("a", 0), many)
		for _, each := range []int{1, 2, 100} {
			got := f.readAll(start, each)
			require.Len(f, got, len(want))
			for i := range want {
				require.True(f, slices.Equal(want[i].Keys, got[i].Keys), "entry %d, %d at a time", i, each)
			}
		}
	}},
	{name: "stops when the entries' data have reached ReadBytes", run: func(f fixture) {
		start := f.bounds().Newest
		var want []eventlog.Entry
		for n := range 40 {
			want = append(want, f.append(Sized(Entry("a", n), 1<<10*(n%7+1)), Sized(Entry("b", n), 100))...)
		}
		want = append(want, f.append(Sized(Entry("huge", 0), 3*eventlog.ReadBytes), Entry("huge", 1))...)
		f.readsAsMuchAsItMay(start, want)
		f.append(Entry("later", 0)) // entries before it may no longer be in memory
		f.readsAsMuchAsItMay(start, append(want, f.readAll(want[len(want)-1].ID, 1)...))
	}},
	{name: "from the zero cursor returns all of an untrimmed log, and nothing of a new one", run: func(f fixture) {
		require.Empty(f, f.readAll(eventlog.ID{}, 3))
		start := f.bounds().Newest
		require.Equal(f, eventlog.Bounds{TrimmedTo: start, Newest: start}, f.bounds())
		require.Empty(f, f.readAll(start, 3))
		want := f.append(Entries("a", 10)...)
		require.Equal(f, eventlog.Bounds{TrimmedTo: start, Oldest: want[0].ID, Newest: want[9].ID}, f.bounds())
		require.Equal(f, items(want), items(f.readAll(eventlog.ID{}, 3)))
	}},
}

// readsAsMuchAsItMay fails the test unless the reads return the wanted entries, and
// each one as many as it may.
func (f fixture) readsAsMuchAsItMay(after eventlog.ID, want []eventlog.Entry) {
	f.Helper()
	for len(want) > 0 {
		got, err := f.read(after, 1000)
		require.NoError(f, err)
		n, bytes := 0, 0
		for ; n < len(want) && bytes < eventlog.ReadBytes; n++ {
			bytes += len(want[n].Data)
		}
		require.Equal(f, items(want[:n]), items(got))
		after, want = got[n-1].ID, want[n:]
	}
}

var retentionTests = []test{
	{name: "by size trims the oldest and gives readers a gap", retention: small, run: func(f fixture) {
		start := f.bounds().Newest
		first := f.append(Entry("first", 0))[0]
		f.appendUntil(func() bool { return f.bounds().TrimmedTo.Compare(first.ID) >= 0 })
		gap := f.gap(start)
		f.gap(eventlog.ID{})
		require.NotEmpty(f, gap.Error())
		require.GreaterOrEqual(f, gap.TrimmedTo.Compare(first.ID), 0)
		rest := f.readAll(gap.TrimmedTo, 10)
		require.NotEmpty(f, rest)
		require.Equal(f, gap.Oldest, rest[0].ID)
		require.Equal(f, gap.Oldest, f.bounds().Oldest)
		require.Equal(f, f.bounds().Newest, rest[len(rest)-1].ID, "the newest is kept")
	}},
	{name: "by size keeps the newest entry, however large", retention: small, run: func(f fixture) {
		f.append(Entries("before", 3)...)
		for n := range 3 {
			large := f.append(Sized(Entry("large", n), 3*smallLog))
			for range 2 { // the excess is trimmed before a call returns, or by the next calls
				f.write(product, document.Put(f.document("a"), nil, 0))
				rest := f.readAll(f.bounds().TrimmedTo, 10)
				require.Equal(f, items(large), items(rest[len(rest)-1:]))
			}
		}
		waittest.Until(f, "one entry is left", func() bool {
			f.write(product, document.Put(f.document("a"), nil, 0))
			return len(f.readAll(f.bounds().TrimmedTo, 10)) == 1
		})
	}},
	{name: "by size keeps the entries that fit, and bounds the kept ones", retention: small, run: func(f fixture) {
		const fit = smallLog / 1024 / 4
		start := f.bounds().Newest
		for n := range 16 * fit {
			f.append(Sized(Entry("a", n), 1024))
			if n == fit-1 {
				require.Len(f, f.readAll(start, 100), fit)
			}
		}
		waittest.Until(f, "the log is as small as it must be", func() bool {
			kept := 0
			for _, e := range f.readAll(f.bounds().TrimmedTo, 100) {
				kept += len(e.Data)
			}
			return kept <= smallLog*5/4
		})
	}},
	{name: "by time applies to a reader that only reads", retention: brief, run: func(f fixture) {
		start := f.bounds().Newest
		f.append(Entry("a", 0))
		waittest.Until(f, "the start is trimmed", func() bool {
			_, err := f.read(start, 1)
			return errors.As(err, new(*eventlog.GapError))
		})
	}},
	{name: "by time empties an idle log, gives readers a gap, and reuses no ID", retention: brief, run: func(f fixture) {
		start := f.bounds().Newest
		given := f.append(Entries("a", 3)...)
		last := given[2].ID
		waittest.Until(f, "nothing is left", func() bool { return f.bounds().Oldest == eventlog.ID{} })
		require.Equal(f, eventlog.Bounds{TrimmedTo: last, Newest: last}, f.bounds())
		require.Equal(f, &eventlog.GapError{TrimmedTo: last}, f.gap(start))
		require.Empty(f, f.readAll(last, 10), "a reader that has read everything misses nothing")
		requireGrowing(f, append(given, f.append(Entries("b", 3)...)...))
	}},
}

var boundsTests = []test{
	{name: "stay consistent and move forward under concurrent appends", retention: small, run: func(f fixture) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := range 4 * smallLog / 1024 {
				err := f.log.Append(f.Context(), product, []eventlog.Entry{Sized(Entry("a", n), 1024)})
				if !assert.NoError(f, err) {
					return
				}
			}
		}()
		last := f.bounds()
		for running := true; running; {
			running = !waittest.Fired(done)
			b := f.bounds()
			requireConsistent(f, b)
			require.GreaterOrEqual(f, b.TrimmedTo.Compare(last.TrimmedTo), 0, "TrimmedTo moved back")
			require.GreaterOrEqual(f, b.Newest.Compare(last.Newest), 0, "Newest moved back")
			last = b
		}
	}},
}

func requireConsistent(f fixture, b eventlog.Bounds) {
	f.Helper()
	if b.Oldest == (eventlog.ID{}) {
		require.Equal(f, b.Newest, b.TrimmedTo)
		return
	}
	require.Negative(f, b.TrimmedTo.Compare(b.Oldest), "%+v", b)
	require.LessOrEqual(f, b.Oldest.Compare(b.Newest), 0, "%+v", b)
}

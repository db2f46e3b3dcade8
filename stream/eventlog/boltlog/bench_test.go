package boltlog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// A reader's reads of a hundred entries, out of memory and out of the file.
func BenchmarkRead(b *testing.B) {
	const held, each = 5000, 100
	for _, from := range []struct {
		name string
		tail int64
	}{{"tail", 0}, {"file", 1}} {
		b.Run(from.name, func(b *testing.B) {
			log := openLog(b, b.TempDir(), &Options{TailBytes: from.tail})
			start := eventlogtest.Bounds(b, log, acme).Newest
			entries := eventlogtest.Entries("filler", held)
			for i := range entries {
				entries[i] = eventlogtest.Sized(entries[i], 600)
			}
			eventlogtest.Append(b, log, acme, entries...)
			dst := make([]eventlog.Entry, each)
			b.ReportAllocs()
			at := start
			for b.Loop() {
				n, err := log.Read(b.Context(), acme, at, dst)
				require.NoError(b, err)
				if at = start; n == each {
					at = dst[n-1].ID
				}
			}
			b.ReportMetric(float64(b.N*each)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

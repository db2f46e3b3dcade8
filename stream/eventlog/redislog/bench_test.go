package redislog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// BenchmarkRead reads entries that another server appends, as a reader who keeps up.
func BenchmarkRead(b *testing.B) {
	url := redistest.Start(b).URL()
	from, to := open(b, url, &Options{Prefix: "la"}), open(b, url, &Options{Prefix: "la"})
	r := follow(b, to, newest(b, to))
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		entries := make([]eventlog.Entry, min(20, b.N-sent))
		for i := range entries {
			entries[i] = entry("session", "user")
			entries[i].Batch = nil
		}
		require.NoError(b, from.Append(b.Context(), acme, entries))
		sent += len(entries)
	}
	waittest.Until(b, "all is read", func() bool { return len(r.read()) == b.N })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

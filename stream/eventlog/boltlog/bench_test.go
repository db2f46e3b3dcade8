package boltlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// benchEntries returns the entries of a call: some 600 bytes each.
func benchEntries(writer string, n, size int) []eventlog.Entry {
	entries := make([]eventlog.Entry, size)
	for i := range entries {
		entries[i] = eventlogtest.Sized(eventlogtest.Entry(writer, n*size+i), 600)
	}
	return entries
}

// filled returns a log of n entries and the cursor before the first.
func filled(b *testing.B, dir string, opts *Options, n int) (*Log, eventlog.ID) {
	b.Helper()
	log := openLog(b, dir, opts)
	start := eventlogtest.Bounds(b, log, acme).Newest
	const step = 1000
	for i := range n / step {
		require.NoError(b, log.Append(b.Context(), acme, benchEntries("filler", i, step)))
	}
	return log, start
}

// A reader's reads of a hundred entries, out of memory and out of the file.
func BenchmarkRead(b *testing.B) {
	const held, each = 5000, 100
	for _, from := range []struct {
		name string
		tail int64
	}{{"tail", 0}, {"file", 1}} {
		b.Run(from.name, func(b *testing.B) {
			log, start := filled(b, b.TempDir(), &Options{TailBytes: from.tail}, held)
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

func BenchmarkDocuments_Get(b *testing.B) {
	const held = 10_000
	log := openLog(b, b.TempDir(), nil)
	var changes []document.Change
	for i := range held {
		changes = append(changes, document.Put(document.Document{Name: fmt.Sprint("session/", i)},
			make([]byte, 200), time.Hour))
	}
	_, err := log.Documents().Write(b.Context(), acme, changes...)
	require.NoError(b, err)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		docs, err := log.Documents().Get(b.Context(), acme, fmt.Sprint("session/", n%held))
		if err != nil || !docs[0].Exists() {
			b.Fatal(docs, err)
		}
	}
}

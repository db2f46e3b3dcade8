package document_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// BenchmarkMemory reads and writes back session-sized documents, from as few
// per call as one session's request needs to as many as a request of many
// sessions.
func BenchmarkMemory(b *testing.B) {
	value := make([]byte, 200)
	for _, held := range []int{1000, 100_000} {
		m := musttest.New(document.NewMemory(nil))
		names := make([]string, held)
		for i := range names {
			names[i] = fmt.Sprintf("session/0192-%08d-4ee6", i*7919%held)
			put(b, m, names[i], time.Hour)
		}
		for _, each := range []int{1, 3, 300} {
			b.Run(fmt.Sprintf("held=%d/documents=%d", held, each), func(b *testing.B) {
				b.ReportAllocs()
				changes := make([]document.Change, each)
				for i := 0; b.Loop(); i++ {
					at := i * each % (held - each)
					docs, err := m.Get(b.Context(), product, names[at:at+each]...)
					if err != nil {
						b.Fatal(err)
					}
					for j, d := range docs {
						changes[j] = document.Put(d, value, time.Hour)
					}
					if _, err := m.Write(b.Context(), product, changes...); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*each), "ns/document")
			})
		}
	}
}

package eventlog_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// BenchmarkFanout delivers entries to readers over loopback connections. The readers are behind by a
// bounded number of deliveries.
func BenchmarkFanout(b *testing.B) {
	const inFlight, lines = 50_000, 3 // an entry is three lines
	for _, readers := range []int{100, 1000} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			log := newMemoryLog()
			s := serve(b, takenOver, log, &eventlog.HandlerOptions{Heartbeat: time.Hour})
			var received atomic.Int64
			for range readers {
				events := greeted(b, s.rawSubscribe(b)).events
				go func() {
					for buf := make([]byte, 32<<10); ; {
						n, err := events.Read(buf)
						received.Add(int64(bytes.Count(buf[:n], []byte("\n"))))
						if err != nil {
							return
						}
					}
				}()
			}
			sent := 0
			wait := func(most int) {
				for int64(sent*readers)-received.Load()/lines > int64(most) {
					time.Sleep(100 * time.Microsecond)
				}
			}
			for b.Loop() {
				eventlogtest.Append(b, log, product, eventlogtest.Sized(eventlogtest.Entry("a", sent), 580))
				sent++
				wait(inFlight)
			}
			wait(0)
			b.ReportMetric(float64(sent*readers)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}

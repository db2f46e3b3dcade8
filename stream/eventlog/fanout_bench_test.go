package eventlog_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// bareHub does the least that a fan-out can do: it has one buffer that only grows. Every 10 ms it
// writes to each reader the bytes that the reader lacks. It has no retention, resuming, deadlines
// or metrics.
type bareHub struct {
	mu  sync.Mutex
	buf []byte
}

func (h *bareHub) publish(e eventlog.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = fmt.Appendf(h.buf, "id: 1767225600000-%d\ndata: %s\n\n", len(h.buf), e.Data)
}

func (h *bareHub) from(at int) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf[at:]
}

func (h *bareHub) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 1000\n")
	ticker := time.NewTicker(eventlog.DefaultCoalesce)
	defer ticker.Stop()
	for at := 0; err == nil; <-ticker.C {
		next := h.from(at)
		_, err = conn.Write(next)
		at += len(next)
	}
}

// fanOut publishes entries to readers that are behind by a bounded number of deliveries,
// and returns the time until all have everything.
func fanOut(b *testing.B, s *service, readers, entries int, publish func(eventlog.Entry)) time.Duration {
	const inFlight, lines = 50_000, 3 // an entry is three lines
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
	begun := time.Now()
	for n := range entries {
		publish(eventlogtest.Sized(eventlogtest.Entry("a", n), 580))
		for int64((n+1)*readers)-received.Load()/lines > inFlight {
			time.Sleep(100 * time.Microsecond)
		}
	}
	for received.Load() < int64(lines*entries*readers) {
		time.Sleep(100 * time.Microsecond)
	}
	return time.Since(begun)
}

// BenchmarkFanout delivers entries to readers over loopback connections, and compares that
// with a server that does the least possible.
func BenchmarkFanout(b *testing.B) {
	for _, readers := range []int{100, 1000} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			entries := 200_000 / readers
			var ours, bare time.Duration
			for b.Loop() {
				log := newMemoryLog()
				s := serve(b, takenOver, log, &eventlog.HandlerOptions{Heartbeat: time.Hour})
				ours += fanOut(b, s, readers, entries, func(e eventlog.Entry) {
					require.NoError(b, log.Append(b.Context(), product, []eventlog.Entry{e}))
				})
				hub := &bareHub{}
				server := httptest.NewServer(hub)
				dial := func() (net.Conn, error) { return net.Dial("tcp", server.Listener.Addr().String()) }
				bare += fanOut(b, &service{dial: dial}, readers, entries, hub.publish)
				server.Close()
			}
			deliveries := float64(b.N) * float64(readers*entries)
			b.ReportMetric(deliveries/ours.Seconds(), "deliveries/s")
			b.ReportMetric(deliveries/bare.Seconds(), "bare-deliveries/s")
			b.ReportMetric(ours.Seconds()/bare.Seconds(), "x-bare")
		})
	}
}

//go:build linux

package eventlog_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// fanoutServerEnv makes a run of the test binary a server instead. Its value
// is a fanoutServerConfig in JSON.
const fanoutServerEnv = "LIVEACTIVITY_FANOUT_SERVER"

// fanoutServerConfig of a server process; zero fields mean the defaults of the
// package under test.
type fanoutServerConfig struct {
	Bare         bool // the baseline instead of the package under test
	MaxBytes     int64
	WriteTimeout time.Duration
	Profile      string // file for a CPU profile of the process, empty for none
}

// The server process leaves before the testing package sees its arguments.
func init() {
	value := os.Getenv(fanoutServerEnv)
	if value == "" {
		return
	}
	if err := runFanoutServer(value); err != nil {
		fmt.Fprintln(os.Stderr, "fan-out server:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runFanoutServer prints its address on a line of its own and serves until its
// standard input ends, as it does when the parent dies.
func runFanoutServer(value string) error {
	var config fanoutServerConfig
	if err := json.Unmarshal([]byte(value), &config); err != nil {
		return err
	}
	stopProfile, err := startFanoutProfile(config.Profile)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: fanoutRoutes(newFanoutHub(config)), ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	fmt.Println(ln.Addr())
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	return errors.Join(<-failed, stopProfile())
}

func startFanoutProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// fanoutHub is what takes entries in and streams them out.
type fanoutHub interface {
	http.Handler
	publish(data []byte) error // data is the caller's again afterwards
}

func newFanoutHub(config fanoutServerConfig) fanoutHub {
	if config.Bare {
		return &bareHub{buf: make([]byte, bareBytes)}
	}
	log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{MaxBytes: config.MaxBytes}}))
	return logHub{log: log, Handler: musttest.New(eventlog.NewHandler(log, &eventlog.HandlerOptions{WriteTimeout: config.WriteTimeout}))}
}

func fanoutRoutes(hub fanoutHub) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /stream/{product_id}", hub)
	mux.HandleFunc("POST /publish", func(w http.ResponseWriter, r *http.Request) {
		if err := publishBody(hub, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /settle", func(w http.ResponseWriter, _ *http.Request) {
		debug.FreeOSMemory()
		debug.FreeOSMemory() // also what pools kept the first time
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

var publishBodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// publishBody publishes every line of body as an entry of its own, stamped
// with the time it was accepted at.
func publishBody(hub fanoutHub, body io.Reader) error {
	buf := publishBodies.Get().(*bytes.Buffer)
	defer publishBodies.Put(buf)
	buf.Reset()
	if _, err := buf.ReadFrom(io.LimitReader(body, 1<<20)); err != nil {
		return err
	}
	for line := range bytes.Lines(buf.Bytes()) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) != fanoutEntryBytes {
			return fmt.Errorf("a line of %d bytes", len(line))
		}
		putDigits(line[fanoutAcceptedAt:][:fanoutAcceptedWidth], time.Now().UnixNano())
		if err := hub.publish(line); err != nil {
			return err
		}
	}
	return nil
}

// logHub is the package under test.
type logHub struct {
	http.Handler
	log *memorylog.Log
}

func (h logHub) publish(data []byte) error {
	return h.log.Append(context.Background(), "demo", []eventlog.Entry{{SessionID: "session", Data: data}})
}

// bareHub is the least a fan-out can do: one buffer that only grows, which
// every reader is written to from where it was, all that is pending at a time,
// every 10 ms. It has neither retention, resuming, deadlines nor metrics.
type bareHub struct {
	mu    sync.Mutex
	buf   []byte // up to end it never changes
	end   atomic.Int64
	count uint64
}

const (
	bareBytes = 1 << 30 // only what is used of it becomes resident
	bareTick  = eventlog.DefaultCoalesce
)

func (h *bareHub) publish(data []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.end.Load()
	if end+int64(len(data))+64 > bareBytes {
		return errors.New("buffer is full")
	}
	h.count++
	frame := append(h.buf[end:end], "id: 1-"...)
	frame = strconv.AppendUint(frame, h.count, 10)
	frame = append(frame, "\ndata: "...)
	frame = append(frame, data...)
	frame = append(frame, "\n\n"...)
	h.end.Store(end + int64(len(frame)))
	return nil
}

func (h *bareHub) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	at := h.end.Load()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	go h.feed(conn, rw.Writer, at)
}

func (h *bareHub) feed(conn net.Conn, head *bufio.Writer, at int64) {
	defer conn.Close()
	_, _ = head.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 1000\n")
	if head.Flush() != nil {
		return
	}
	ticker := time.NewTicker(bareTick)
	defer ticker.Stop()
	for range ticker.C {
		end := h.end.Load()
		if end == at {
			continue
		}
		if _, err := conn.Write(h.buf[at:end]); err != nil {
			return
		}
		at = end
	}
}

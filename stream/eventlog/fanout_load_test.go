//go:build linux

package eventlog_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

// An entry of the load is JSON of a fixed layout, so that finding its end and
// its fields costs the reading side next to nothing:
//
//	{"type":"summary","publisher":"00","seq":"0000000000","accepted":"0000000000000000000","text":"…"}
const (
	fanoutEntryBytes     = 580 // about 610 with the rest of the event
	fanoutPublisherAt    = len(`{"type":"summary","publisher":"`)
	fanoutPublisherWidth = 2
	fanoutSeqAt          = fanoutPublisherAt + fanoutPublisherWidth + len(`","seq":"`)
	fanoutSeqWidth       = 10
	fanoutAcceptedAt     = fanoutSeqAt + fanoutSeqWidth + len(`","accepted":"`)
	fanoutAcceptedWidth  = 19 // nanoseconds since the epoch
)

func fanoutEntry(publisher int) []byte {
	entry := fmt.Appendf(nil, `{"type":"summary","publisher":"%0*d","seq":"%0*d","accepted":"%0*d","text":"`,
		fanoutPublisherWidth, publisher, fanoutSeqWidth, 0, fanoutAcceptedWidth, 0)
	entry = append(entry, bytes.Repeat([]byte("x"), fanoutEntryBytes-len(entry)-len(`"}`))...)
	return append(entry, `"}`...)
}

// putDigits fills dst with n, zeros first.
func putDigits(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

func digits(src []byte) (n int64) {
	for _, c := range src {
		n = n*10 + int64(c-'0')
	}
	return n
}

// fanoutWindow is the flow control of a load: publishers wait while the
// slowest reader is too far behind.
type fanoutWindow struct {
	mu      sync.Mutex
	moved   sync.Cond
	size    int64 // in entries; zero for no limit
	sent    int64
	slowest int64
	closed  bool
}

func newFanoutWindow(size int64) *fanoutWindow {
	w := &fanoutWindow{size: size}
	w.moved.L = &w.mu
	return w
}

// take waits until n more entries may be sent; false means never again.
func (w *fanoutWindow) take(n int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && w.size > 0 && w.sent+n-w.slowest > w.size {
		w.moved.Wait()
	}
	w.sent += n
	return !w.closed
}

func (w *fanoutWindow) advance(slowest int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slowest > w.slowest {
		w.slowest = slowest
		w.moved.Broadcast()
	}
}

func (w *fanoutWindow) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.moved.Broadcast()
}

// fanoutReaders read streams, all in one goroutine and past the network
// poller: on a machine shared with the server the load must be cheap.
type fanoutReaders struct {
	epoll     int
	readers   []fanoutReader
	received  []int64 // entries, by reader
	window    *fanoutWindow
	greeted   atomic.Int64 // readers that are being served
	delivered atomic.Int64 // entries, over all readers
	timed     atomic.Bool  // whether latencies are taken down
	halt      atomic.Bool
	halted    chan struct{}

	// Only to be read after close.
	latencies [fanoutLatencies]int64
	lost      int64 // entries that did not come where they should have
	doubled   int64 // entries that came again, or too late
	gaps      int64 // gap events
	broken    int64 // streams that ended, made no sense or went backwards

	buf [1 << 20]byte
}

// Latencies are counted in steps of fanoutLatencyStep; the last counts the rest.
const (
	fanoutLatencies   = 100_000
	fanoutLatencyStep = 100 * time.Microsecond
)

type fanoutReader struct {
	fd      int
	greeted bool
	tail    []byte                // the start of an event that was not read to its end
	id      [2]int64              // of the entry before
	next    [fanoutMaxFeeds]int64 // sequence number to come, by publisher
}

// fanoutMaxFeeds is how many publishers a load may have.
const fanoutMaxFeeds = 16

// startFanoutReaders reads from the streams until the test ends or close is
// called. It returns when all streams are being served.
func startFanoutReaders(tb testing.TB, streams []int, window *fanoutWindow) *fanoutReaders {
	tb.Helper()
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	require.NoError(tb, err)
	rs := &fanoutReaders{epoll: epoll, window: window, halted: make(chan struct{}),
		readers: make([]fanoutReader, len(streams)), received: make([]int64, len(streams))}
	for i, fd := range streams {
		rs.readers[i].fd = fd
		require.NoError(tb, syscall.SetNonblock(fd, true))
		require.NoError(tb, syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, fd,
			&syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}))
	}
	go rs.run()
	tb.Cleanup(rs.close)
	waittest.Until(tb, "all streams are open", func() bool { return rs.greeted.Load() == int64(len(streams)) })
	return rs
}

// close ends the reading and closes the streams.
func (rs *fanoutReaders) close() {
	if rs.halt.Swap(true) {
		return
	}
	<-rs.halted
	for i := range rs.readers {
		_ = syscall.Close(rs.readers[i].fd)
	}
	_ = syscall.Close(rs.epoll)
}

func (rs *fanoutReaders) run() {
	defer close(rs.halted)
	events := make([]syscall.EpollEvent, 512)
	for !rs.halt.Load() {
		n, err := syscall.EpollWait(rs.epoll, events, 50)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			panic(err) // a mistake in this file
		}
		for _, event := range events[:max(n, 0)] {
			rs.read(int(event.Fd))
		}
		rs.window.advance(rs.slowest())
	}
}

func (rs *fanoutReaders) slowest() int64 {
	slowest := rs.received[0]
	for _, n := range rs.received {
		slowest = min(slowest, n)
	}
	return slowest
}

// read takes in what has come for a reader.
func (rs *fanoutReaders) read(i int) {
	r := &rs.readers[i]
	kept := copy(rs.buf[:], r.tail)
	n, err := syscall.Read(r.fd, rs.buf[kept:])
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return
	}
	if err != nil || n == 0 {
		rs.drop(r)
		return
	}
	before := rs.received[i]
	rest, ok := rs.parse(i, rs.buf[:kept+n], time.Now().UnixNano())
	if !ok {
		rs.drop(r)
	}
	r.tail = append(r.tail[:0], rest...)
	rs.delivered.Add(rs.received[i] - before)
}

// drop gives a stream up, and with it the load.
func (rs *fanoutReaders) drop(r *fanoutReader) {
	rs.broken++
	_ = syscall.EpollCtl(rs.epoll, syscall.EPOLL_CTL_DEL, r.fd, nil)
	rs.window.close()
}

// parse takes in the whole events of p and returns what is left.
func (rs *fanoutReaders) parse(i int, p []byte, now int64) (rest []byte, ok bool) {
	r := &rs.readers[i]
	if !r.greeted {
		head, body, whole := bytes.Cut(p, []byte("\r\n\r\n"))
		if !whole {
			return p, len(p) < len(rs.buf)/2
		}
		if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 OK\r\n")) {
			return nil, false
		}
		r.greeted, p = true, body
		rs.greeted.Add(1)
	}
	timed := rs.timed.Load()
	for len(p) > 0 {
		n, data, ok := nextEvent(p)
		if n == 0 || !ok {
			return p, ok
		}
		if data == nil {
			rs.gaps += int64(bytes.Count(p[:n], []byte("event: gap\n")))
		} else if !r.follows(p[:n]) {
			return nil, false
		} else {
			rs.take(i, data, now, timed)
		}
		p = p[n:]
	}
	return nil, true
}

// nextEvent returns the length of the event that p starts with, zero while it
// is not whole, and its data if it is an entry; false means that it is not as
// it was sent.
func nextEvent(p []byte) (n int, data []byte, ok bool) {
	if p[0] == 'r' { // the line that the first event begins with
		return bytes.IndexByte(p, '\n') + 1, nil, true
	}
	if p[0] != 'i' { // a heartbeat, a gap
		event, _, whole := bytes.Cut(p, []byte("\n\n"))
		if !whole {
			return 0, nil, true
		}
		return len(event) + 2, nil, true
	}
	const field = "\ndata: "
	line := bytes.IndexByte(p, '\n')
	start := line + len(field)
	n = start + fanoutEntryBytes + 2
	if line < 0 || len(p) < n {
		return 0, nil, true
	}
	data = p[start : n-2]
	return n, data, data[0] == '{' && string(p[n-3:n]) == "}\n\n"
}

// follows says whether the id of an entry comes after the one before.
func (r *fanoutReader) follows(event []byte) bool {
	id, _, _ := bytes.Cut(event[len("id: "):], []byte("\n"))
	milli, seq, ok := bytes.Cut(id, []byte("-"))
	was := r.id
	r.id = [2]int64{digits(milli), digits(seq)}
	return ok && (r.id[0] > was[0] || r.id[0] == was[0] && r.id[1] > was[1])
}

// take counts an entry. What a publisher sent must come in its order.
func (rs *fanoutReaders) take(i int, data []byte, now int64, timed bool) {
	next := &rs.readers[i].next[digits(data[fanoutPublisherAt:][:fanoutPublisherWidth])]
	seq := digits(data[fanoutSeqAt:][:fanoutSeqWidth])
	if seq < *next {
		rs.doubled++
		return
	}
	rs.lost += seq - *next
	*next = seq + 1
	rs.received[i]++
	if timed {
		latency := now - digits(data[fanoutAcceptedAt:][:fanoutAcceptedWidth])
		rs.latencies[min(max(latency, 0)/int64(fanoutLatencyStep), fanoutLatencies-1)]++
	}
}

// quantile returns the latency that a share of the deliveries stayed within.
func (rs *fanoutReaders) quantile(share float64) time.Duration {
	total := int64(0)
	for _, n := range rs.latencies {
		total += n
	}
	rank := int64(share * float64(total))
	for i, n := range rs.latencies {
		if rank -= n; rank < 0 {
			return time.Duration(i+1) * fanoutLatencyStep
		}
	}
	return fanoutLatencies * fanoutLatencyStep
}

// fanoutPublisher posts entries over one connection, a request at a time.
type fanoutPublisher struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte
	entries [][]byte // within request
	seq     int64    // of the next entry: how many were accepted
}

func newFanoutPublisher(s *fanoutServer, number, lines int) *fanoutPublisher {
	conn, err := net.Dial("tcp4", s.addr.String())
	require.NoError(s.tb, err)
	body := bytes.Repeat(append(fanoutEntry(number), '\n'), lines)
	head := fmt.Appendf(nil, "POST /publish HTTP/1.1\r\nHost: fanout\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	p := &fanoutPublisher{conn: conn, answers: bufio.NewReader(conn), request: append(head, body...)}
	for entry := range bytes.Lines(p.request[len(head):]) {
		p.entries = append(p.entries, entry[:fanoutEntryBytes])
	}
	return p
}

// post returns when the entries of a request are accepted.
func (p *fanoutPublisher) post() error {
	for i, entry := range p.entries {
		putDigits(entry[fanoutSeqAt:][:fanoutSeqWidth], p.seq+int64(i))
	}
	if _, err := p.conn.Write(p.request); err != nil {
		return err
	}
	status, err := p.answers.ReadString('\n')
	if err != nil {
		return err
	}
	if status != "HTTP/1.1 204 No Content\r\n" {
		return fmt.Errorf("publish was answered %q", status)
	}
	p.seq += int64(len(p.entries))
	for line := []byte("…"); len(line) > len("\r\n"); {
		if line, err = p.answers.ReadSlice('\n'); err != nil {
			return err
		}
	}
	return nil
}

// fanoutLoad says who reads and who publishes.
type fanoutLoad struct {
	readers    int
	publishers int
	lines      int // entries to a request

	// inFlight is how far the slowest reader may be behind, in entries,
	// before publishers wait; zero for no limit.
	inFlight int64

	// rate is how many requests a second a publisher sends; zero for the
	// next one as soon as the last is answered.
	rate int
}

// fanoutRun is a load on a server.
type fanoutRun struct {
	*fanoutReaders
	load       fanoutLoad
	server     *fanoutServer
	publishers []*fanoutPublisher
}

func startFanoutRun(s *fanoutServer, load fanoutLoad) *fanoutRun {
	s.tb.Helper()
	require.LessOrEqual(s.tb, load.publishers, fanoutMaxFeeds)
	streams := make([]int, load.readers)
	for i := range streams {
		streams[i] = s.subscribe()
	}
	run := &fanoutRun{load: load, server: s, fanoutReaders: startFanoutReaders(s.tb, streams, newFanoutWindow(load.inFlight))}
	for i := range load.publishers {
		p := newFanoutPublisher(s, i, load.lines)
		run.publishers = append(run.publishers, p)
		s.tb.Cleanup(func() { _ = p.conn.Close() })
	}
	return run
}

// fanoutPatience is how long a load may take at most.
const fanoutPatience = 30 * time.Second

// start has every publisher publish until more says no. The function returned
// waits for that, and until the readers have everything or nothing more comes.
func (run *fanoutRun) start(more func(p *fanoutPublisher) bool) (wait func()) {
	expired := time.AfterFunc(fanoutPatience, run.window.close)
	errs := make(chan error, len(run.publishers))
	for _, p := range run.publishers {
		go func() { errs <- run.feed(p, more) }()
	}
	return func() {
		run.server.tb.Helper()
		defer expired.Stop()
		for range run.publishers {
			require.NoError(run.server.tb, <-errs)
		}
		run.drain()
	}
}

// startFor is start with an end after a time.
func (run *fanoutRun) startFor(d time.Duration) (wait func()) {
	end := time.Now().Add(d)
	return run.start(func(*fanoutPublisher) bool { return time.Now().Before(end) })
}

// startUntil is start with an end after a number of entries by each publisher.
func (run *fanoutRun) startUntil(entries int64) (wait func()) {
	return run.start(func(p *fanoutPublisher) bool { return p.seq < entries })
}

func (run *fanoutRun) feed(p *fanoutPublisher, more func(p *fanoutPublisher) bool) error {
	if err := p.conn.SetDeadline(time.Now().Add(fanoutPatience)); err != nil {
		return err
	}
	next := time.Now()
	for more(p) {
		if run.load.rate > 0 {
			next = next.Add(time.Second / time.Duration(run.load.rate))
			time.Sleep(time.Until(next))
		}
		if !run.window.take(int64(run.load.lines)) {
			return errors.New("a stream broke, or the load took too long")
		}
		if err := p.post(); err != nil {
			return err
		}
	}
	return nil
}

// fanoutSilence is how long nothing must come for a reader to have got all it gets.
const fanoutSilence = 5 * time.Second

func (run *fanoutRun) drain() {
	accepted := int64(0)
	for _, p := range run.publishers {
		accepted += p.seq
	}
	got, since := run.delivered.Load(), time.Now()
	for got < accepted*int64(run.load.readers) && time.Since(since) < fanoutSilence {
		time.Sleep(time.Millisecond)
		if now := run.delivered.Load(); now > got {
			got, since = now, time.Now()
		}
	}
}

// missing ends the reading and returns how many deliveries did not happen.
func (run *fanoutRun) missing() int64 {
	run.close()
	return run.lost + missingAtEnd(run.fanoutReaders, run.publishers)
}

// missingAtEnd returns what the readers were not sent of the publishers' last.
func missingAtEnd(rs *fanoutReaders, publishers []*fanoutPublisher) (n int64) {
	for i := range rs.readers {
		for j, p := range publishers {
			n += p.seq - rs.readers[i].next[j]
		}
	}
	return n
}

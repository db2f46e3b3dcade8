package stream

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// reader sends a log to one client. It is a cursor: what it has not sent stays
// in the log, and nothing waits for it.
type reader struct {
	h         *Handler
	out       wire
	productID string
	sessionID string // entries of other sessions are left out; empty for none
	cursor    ID
	greeting  []byte
	check     func() error // whether the reader may still read; nil for yes
	wrote     time.Time    // when something was written last
}

// wire is a client's end of the connection.
type wire interface {
	// write sends p at once. It fails when that takes until the deadline.
	write(p []byte, deadline time.Time) error
}

var heartbeat = []byte("event: heartbeat\ndata: {}\n\n")

// maxRequested is how much of a client's id a gap event repeats.
const maxRequested = 128

func gapEvent(requested string, oldest ID) []byte {
	var gap struct {
		Requested string `json:"requested"`
		Oldest    string `json:"oldest"` // empty while nothing is retained
	}
	gap.Requested = requested[:min(len(requested), maxRequested)]
	if oldest != (ID{}) {
		gap.Oldest = oldest.String()
	}
	data, err := json.Marshal(gap)
	if err != nil { // two strings always encode
		panic(err)
	}
	return append(append([]byte("event: gap\ndata: "), data...), "\n\n"...)
}

// Sizes of a reader's scratch space. It has one only while it writes.
const (
	scratchBytes   = 64 << 10
	scratchEntries = 96 // of usual size fill the bytes
)

type scratch struct {
	entries [scratchEntries]Entry
	buf     []byte
}

var scratches = sync.Pool{New: func() any { return &scratch{buf: make([]byte, 0, scratchBytes)} }}

// storageRetry is how long a reader waits before it asks a log again that
// could not be read.
const storageRetry = time.Second

// run sends entries until the log ends, the client is gone or ctx is done.
//
// When nothing is going on an entry is sent at once. After a write the reader
// lets entries gather for a moment and sends them with the next write: under
// load that makes one write of many.
func (r *reader) run(ctx context.Context) error {
	if err := r.write(r.greeting); err != nil {
		return err
	}
	r.greeting = nil
	timer := time.NewTimer(r.h.opts.Heartbeat)
	defer timer.Stop()
	for {
		began := time.Now()
		if began.Sub(r.wrote) >= r.h.opts.Heartbeat {
			if err := r.write(heartbeat); err != nil {
				return err
			}
		}
		changed := r.h.log.Changed(r.productID)
		wait := r.h.opts.Heartbeat - began.Sub(r.wrote)
		n, err := r.step(ctx)
		switch {
		case errors.Is(err, errStorage):
			changed, wait = nil, min(wait, storageRetry)
		case err != nil:
			return err
		case n == scratchEntries: // catching up
			continue
		case n > 0:
			changed, wait = nil, r.h.opts.Coalesce-time.Since(began)
		}
		timer.Reset(wait)
		select {
		case <-changed: // never when nil
		case <-timer.C:
		case <-ctx.Done():
			return errGone
		}
	}
}

// errStorage says that the log could not be read just now.
var errStorage = errors.New("stream: log cannot be read")

// step reads once, writes what there was and returns how many entries it read.
func (r *reader) step(ctx context.Context) (int, error) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	n, err := r.h.log.Read(ctx, r.productID, r.cursor, s.entries[:])
	defer clear(s.entries[:n]) // the pool must not keep dropped entries alive
	var gap *GapError
	switch {
	case errors.As(err, &gap):
		r.h.metrics.gaps.WithLabelValues(r.productID).Inc()
		event := gapEvent(r.cursor.String(), gap.Oldest)
		r.cursor = gap.Floor
		return scratchEntries, r.write(event) // read on at once
	case errors.Is(err, ErrClosed):
		return 0, err
	case err != nil:
		r.h.opts.Logger.Warn("stream cannot read its log", "product_id", r.productID, "err", err)
		return 0, errStorage
	case n == 0:
		return 0, nil
	}
	return n, r.send(s, s.entries[:n])
}

// send writes the entries in as few writes as the scratch space allows.
func (r *reader) send(s *scratch, entries []Entry) error {
	s.buf = s.buf[:0]
	sent := 0
	var oldest ID
	for _, e := range entries {
		if r.sessionID != "" && e.SessionID != r.sessionID {
			continue
		}
		if len(s.buf) > 0 && len(s.buf)+len(e.frame) > scratchBytes {
			if err := r.write(s.buf); err != nil {
				return err
			}
			s.buf = s.buf[:0]
		}
		s.buf = append(s.buf, e.frame...)
		if sent++; sent == 1 {
			oldest = e.ID
		}
	}
	if sent > 0 {
		if err := r.write(s.buf); err != nil {
			return err
		}
		r.h.metrics.sent.Add(float64(sent))
		r.h.metrics.lag.Observe(time.Since(oldest.Time()).Seconds())
	}
	r.cursor = entries[len(entries)-1].ID
	if cap(s.buf) > scratchBytes { // grown by a single huge entry
		s.buf = make([]byte, 0, scratchBytes)
	}
	return nil
}

func (r *reader) write(p []byte) error {
	if r.check != nil {
		if err := r.check(); err != nil {
			return err
		}
	}
	r.wrote = time.Now()
	return r.out.write(p, r.wrote.Add(r.h.opts.WriteTimeout))
}

// finish runs the reader and accounts for it.
func (r *reader) finish(ctx context.Context) {
	subscribers := r.h.metrics.subscribers.WithLabelValues(r.productID)
	subscribers.Inc()
	defer subscribers.Dec()
	err := r.run(ctx)
	r.h.opts.Logger.Debug("stream ended", "product_id", r.productID, "err", err)
}

// takeOver takes the connection over from the HTTP server and runs the reader
// in a goroutine of its own, so that it costs neither the server's buffers nor
// its stack. It reports false where the connection cannot be had, as with
// HTTP/2; the reader is then run by serveHere.
func (h *Handler) takeOver(w http.ResponseWriter, rd *reader) (bool, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if errors.Is(err, http.ErrNotSupported) {
		return false, nil
	}
	if err != nil {
		return false, httpx.Unavailable(err)
	}
	limitSendBuffer(conn, h.opts.SendBuffer)
	rd.greeting = append(responseHead(w.Header()), rd.greeting...)
	rd.out = connWire{conn}
	go h.runOver(conn, rd)
	return true, nil
}

// limitSendBuffer bounds what the kernel holds for a client that does not read.
func limitSendBuffer(conn net.Conn, size int) {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = secured.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(size) // a refusal costs memory, not correctness
	}
}

// runOver runs a reader on a connection of its own.
func (h *Handler) runOver(conn net.Conn, rd *reader) {
	defer h.readerWent()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		awaitFarewell(conn)
	}()
	rd.finish(ctx)
	_ = conn.Close() // also ends the goroutine above
}

// maxTalk is how many bytes a client may send after its request.
const maxTalk = 1024

// awaitFarewell returns when the client hangs up, or talks more than a client
// of a stream has any reason to.
func awaitFarewell(conn net.Conn) {
	var talk [64]byte
	for heard := 0; heard < maxTalk; {
		n, err := conn.Read(talk[:])
		if err != nil {
			return
		}
		heard += n
	}
}

// responseHead returns the head of the answer. The body ends with the
// connection, so events need no further framing.
func responseHead(header http.Header) []byte {
	header.Set("Connection", "close")
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var b headBuffer
	b = append(b, "HTTP/1.1 200 OK\r\n"...)
	_ = header.Write(&b) // memory does not fail
	return append(b, "\r\n"...)
}

type headBuffer []byte

func (b *headBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// connWire is a connection taken over.
type connWire struct{ conn net.Conn }

func (w connWire) write(p []byte, deadline time.Time) error {
	if err := w.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := w.conn.Write(p)
	return err
}

// serveHere runs the reader inside the HTTP server's own goroutine.
func (h *Handler) serveHere(w http.ResponseWriter, r *http.Request, rd *reader) error {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return httpx.Unavailable(err)
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // what follows would meet this stream's deadlines
	}
	rd.out = responseWire{w, control}
	rd.finish(r.Context())
	// The end of the body must not wait for ever for a reader either.
	_ = control.SetWriteDeadline(time.Now().Add(h.opts.WriteTimeout)) // it could be set before
	return nil
}

// responseWire is the server's own answer.
type responseWire struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (w responseWire) write(p []byte, deadline time.Time) error {
	if err := w.control.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.w.Write(p); err != nil {
		return err
	}
	if err := w.control.Flush(); err != nil {
		return err
	}
	// HTTP/2 ends a stream whose deadline passes while nothing is written.
	_ = w.control.SetWriteDeadline(time.Time{}) // it could be set above
	return nil
}

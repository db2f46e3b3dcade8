package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// reader sends a log to one client. It is a cursor: unsent entries stay in the log, and nothing
// waits for a reader.
//
// One goroutine runs it and owns its fields. Others may call check and cancel, which are set
// before the reader is shared.
type reader struct {
	h         *Handler
	out       wire
	productID string
	sessionID string // the only session sent; empty for all
	cursor    ID
	begun     int // bytes already sent of the frame after the cursor
	whole     int // size of that frame in bytes, which an erasure changes
	// lenient means that trimmed entries are not a gap: the reader asked for the
	// retained entries, and has read none yet.
	lenient bool
	opening []byte           // sent before anything is read, with the gap that the stream may begin with
	form    Form             // nil for the stream's own
	check   func() error     // whether the reader may still read; nil if nothing to check
	cancel  func()           // ends the stream
	wrote   time.Time        // time of the last write
	counted prometheus.Gauge // of the open streams; held, because a removed product loses its series
}

// wire sends p to a client immediately. It fails if the deadline passes before all of p is
// sent; part of p may have been sent by then, so the stream must end. It does not keep p.
type wire func(p []byte, deadline time.Time) error

// heartbeat is the event of a silent stream. It has no id, so it moves no client's cursor.
var heartbeat = []byte("event: heartbeat\ndata: {}\n\n")

// Form encodes a stream in another form than [Handler] does. Its methods return the bytes to
// send, as server-sent events, and are called by one goroutine at a time.
type Form interface {
	Opening() []byte       // sent immediately
	Heartbeat() []byte     // sent to keep a silent stream alive
	Frame(e *Entry) []byte // of an entry; nil if it is not sent
	Gap(oldest ID) []byte  // sent when unread entries are no longer retained
}

// maxRequested is how much of a client's id a gap event echoes, in bytes.
const maxRequested = 128

// gapEvent returns the event that reports that entries are no longer retained.
func gapEvent(requested string, oldest ID) []byte {
	data, _ := json.Marshal(newGap(requested, oldest)) // two strings always encode
	return fmt.Appendf(nil, "event: gap\ndata: %s\n\n", data)
}

// gap is the data of a gap event.
type gap struct {
	Requested string `json:"requested"`
	Oldest    string `json:"oldest"` // empty if nothing is retained
}

// newGap returns the data of a gap after a client's id, which may be any text.
func newGap(requested string, oldest ID) gap {
	g := gap{Requested: requested[:min(len(requested), maxRequested)]}
	if oldest != (ID{}) {
		g.Oldest = oldest.String()
	}
	return g
}

// Buffers of a reader. It holds entries only while it reads, and frames only while
// it writes: a client that does not read costs one buffer of frames. A frame larger
// than the buffer is sent in parts, and read again for each part.
const (
	readEntries = 96
	framesBytes = 48 << 10 // for entries of the usual size
)

var (
	entriesPool = sync.Pool{New: func() any { return new([readEntries]Entry) }}
	framesPool  = sync.Pool{New: func() any { return new([framesBytes]byte) }}
)

// begin opens the stream: it counts the reader and sends the opening. Exactly one call of end must
// follow. In between, the reader's step is a follower of the log.
func (r *reader) begin() error {
	r.counted = r.h.metrics.subscribers.WithLabelValues(r.productID)
	r.counted.Inc()
	err := r.write(r.opening)
	r.opening = nil
	return err
}

// end ends the stream, because of err.
func (r *reader) end(err error) {
	r.cancel()
	r.counted.Dec()
	r.h.opts.Logger.Debug("stream ended", "product_id", r.productID, "err", err)
}

// step sends the available entries and returns when to look again. A log that cannot be read
// does not end the stream: heartbeats continue. On an idle stream an entry is sent immediately. After
// a write the reader lets entries gather for a moment and sends them together in the next write:
// under load many writes become one.
//
//	nothing found        when the log changes, or a heartbeat is due
//	entries to the end   after Coalesce, so that others gather
//	more entries         immediately
//	a failed read        after storageRetry, or earlier for a heartbeat
func (r *reader) step(ctx context.Context) (pace, error) {
	began, from := time.Now(), r.cursor
	more, err := r.send(ctx)
	if err != nil && !errors.Is(err, errStorage) && !errors.Is(err, ErrClosed) {
		return pace{}, err
	}
	if err := r.beat(); err != nil {
		return pace{}, err
	}
	beat := r.h.opts.Heartbeat - time.Since(r.wrote)
	switch {
	case errors.Is(err, ErrClosed):
		return pace{}, err
	case err != nil:
		if beat <= 0 || beat > storageRetry { // no heartbeat is due within a frame
			beat = storageRetry
		}
		return pace{wait: beat}, nil
	case more:
		return pace{}, nil
	case r.cursor != from:
		return pace{wait: r.h.opts.Coalesce - time.Since(began)}, nil
	}
	return pace{wait: beat, orChange: true}, nil
}

// beat sends a heartbeat if the stream has been silent long enough, but never in the middle
// of a frame.
func (r *reader) beat() error {
	if r.begun > 0 || time.Since(r.wrote) < r.h.opts.Heartbeat {
		return nil
	}
	if r.form != nil {
		return r.write(r.form.Heartbeat())
	}
	return r.write(heartbeat)
}

// errTorn ends a reader whose entry was trimmed or erased before all of it was sent. The
// client resumes from the previous id.
var errTorn = errors.New("eventlog: entry was trimmed or erased while it was being sent")

// errStorage reports that the log could not be read.
var errStorage = errors.New("eventlog: log cannot be read")

// send reads once and writes the entries, and reports whether there are more. The cursor moves when
// they are written.
func (r *reader) send(ctx context.Context) (more bool, err error) {
	buf := framesPool.Get().(*[framesBytes]byte)
	defer framesPool.Put(buf)
	b, err := r.read(ctx, buf[:0])
	var gap *GapError
	switch {
	case errors.As(err, &gap):
		return true, r.skip(gap)
	case errors.Is(err, ErrClosed), errors.Is(err, errTorn):
		return false, err
	case err != nil:
		r.h.opts.Logger.Log(ctx, r.h.complaints.Level(err), "stream failed to read the log",
			"product_id", r.productID, "err", err)
		return false, errStorage
	}
	r.lenient = false
	if len(b.frames) > 0 {
		if err := r.write(b.frames); err != nil {
			return false, err
		}
	}
	if b.sent > 0 {
		r.h.metrics.sent.Add(float64(b.sent))
		r.h.metrics.lag.Observe(max(0, r.h.log.Now().Sub(b.oldest.Time()).Seconds())) // IDs may be ahead of the clock
	}
	r.cursor, r.begun, r.whole = b.cursor, b.begun, b.whole
	return b.more, nil
}

// skip moves the cursor past a gap, and sends the client a gap event, unless it asked for the
// entries retained and has read none yet.
func (r *reader) skip(gap *GapError) error {
	if r.begun > 0 {
		return errTorn
	}
	requested := r.cursor
	r.cursor = gap.TrimmedTo
	if r.lenient {
		return nil
	}
	r.h.metrics.gaps.WithLabelValues(r.productID).Inc()
	if r.form != nil {
		return r.write(r.form.Gap(gap.Oldest))
	}
	return r.write(gapEvent(requested.String(), gap.Oldest))
}

// burst is the content of one write.
type burst struct {
	frames []byte
	sent   int  // number of entries
	oldest ID   // of them
	cursor ID   // after the entries sent or left out
	begun  int  // bytes sent of the frame after the cursor, including this write
	whole  int  // bytes of that frame
	more   bool // there are further entries
}

// read copies as many frames to the buffer as fit, and releases the entries. The frames share
// buf; the reader's cursor does not move.
func (r *reader) read(ctx context.Context, buf []byte) (burst, error) {
	into := entriesPool.Get().(*[readEntries]Entry)
	defer entriesPool.Put(into)
	b := burst{frames: buf, cursor: r.cursor, begun: r.begun}
	n, err := r.h.log.Read(ctx, r.productID, r.cursor, into[:])
	if err != nil || n == 0 {
		return b, err
	}
	entries := into[:n]
	defer clear(entries) // the pool must not keep trimmed entries alive
	b.more = filled(entries, len(into))
	for i := range entries {
		frame := r.frame(&entries[i])
		if i == 0 && r.begun > 0 && len(frame) != r.whole {
			return b, errTorn
		}
		if frame == nil {
			b.cursor = entries[i].ID
		} else if !b.add(entries[i].ID, frame) {
			b.more = true
			break
		}
	}
	return b, nil
}

// filled reports whether Read, having returned the entries for a slice of the
// given length, may have stopped before the end of the log.
func filled(entries []Entry, length int) bool {
	bytes := 0
	for i := range entries {
		bytes += len(entries[i].Data)
	}
	return len(entries) == length || bytes >= ReadBytes
}

// frame returns an entry's bytes, or nil if the client does not get the entry.
func (r *reader) frame(e *Entry) []byte {
	switch {
	case r.form != nil:
		return r.form.Frame(e)
	case e.concerns(r.sessionID) && r.h.opts.Sends(e):
		return e.frame
	}
	return nil
}

// add adds the frame of an entry, or the rest of one, and reports false if not all of it fits.
// Only a frame that is larger than the whole buffer is split; any other frame waits for the
// next burst.
func (b *burst) add(id ID, frame []byte) bool {
	rest := frame[b.begun:]
	switch room := cap(b.frames) - len(b.frames); {
	case len(rest) <= room:
		b.frames, b.begun = append(b.frames, rest...), 0
	case len(b.frames) == 0:
		b.frames = append(b.frames, rest[:room]...)
		b.begun, b.whole = b.begun+room, len(frame)
		return false
	default:
		return false
	}
	if b.sent++; b.sent == 1 {
		b.oldest = id
	}
	b.cursor = id
	return true
}

// write sends p, unless check reports that the reader may no longer read.
func (r *reader) write(p []byte) error {
	if r.check != nil {
		if err := r.check(); err != nil {
			return err
		}
	}
	r.wrote = time.Now()
	return r.out(p, r.wrote.Add(r.h.opts.WriteTimeout))
}

// takeOver hijacks the connection from the HTTP server and runs the reader in its own
// goroutine, so that it uses neither the server's buffers nor its stack. It reports false if
// the connection cannot be hijacked, as with HTTP/2; serveHere then runs the reader.
// Otherwise the goroutine owns the connection and the reader, and calls readerWent.
func (h *Handler) takeOver(ctx context.Context, w http.ResponseWriter, rd *reader) (bool, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if errors.Is(err, http.ErrNotSupported) {
		return false, nil
	}
	if err != nil {
		return false, httpx.Unavailable(err)
	}
	limitSendBuffer(conn, h.opts.SendBuffer)
	rd.opening = append(responseHead(w.Header()), rd.opening...)
	rd.out = connWire(conn)
	go h.runOver(ctx, conn, rd)
	return true, nil
}

// limitSendBuffer bounds the kernel's buffer for a client that does not read, in bytes.
func limitSendBuffer(conn net.Conn, size int) {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = secured.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(size) // a refusal costs memory, not correctness
	}
}

// runOver runs a reader on a hijacked connection, then closes the connection. It also
// ends when the client disconnects while nothing is being written.
//
// Every step runs in a goroutine of its own. A goroutine keeps the largest stack that it has
// needed, so a reader that only waits, and calls nothing deep, takes half as much memory.
func (h *Handler) runOver(ctx context.Context, conn net.Conn, rd *reader) {
	go func() {
		defer rd.cancel()
		awaitFarewell(conn)
	}()
	var next pace
	var err error
	var working sync.WaitGroup
	aside := func(do func()) {
		working.Go(do)
		working.Wait()
	}
	if aside(func() { err = rd.begin() }); err == nil {
		err = follow(ctx, h.log, rd.productID, func(ctx context.Context) (pace, error) {
			aside(func() { next, err = rd.step(ctx) })
			return next, err
		})
	}
	rd.end(err)
	_ = conn.Close() // also ends the goroutine above
	h.readerWent(rd)
}

// maxTalk bounds the bytes that a client may send after its request.
const maxTalk = 1024

// awaitFarewell returns when the client disconnects or sends more than
// maxTalk.
func awaitFarewell(conn net.Conn) {
	var talk [1]byte
	for range maxTalk {
		if _, err := conn.Read(talk[:]); err != nil {
			return
		}
	}
}

// responseHead returns the head of the response. The body ends with the
// connection, so events need no further framing.
func responseHead(header http.Header) []byte {
	header.Set("Connection", "close")
	b := bytes.NewBufferString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(b) // cannot fail
	b.WriteString("\r\n")
	return b.Bytes()
}

// connWire writes to a hijacked connection. Each write has its own deadline.
func connWire(conn net.Conn) wire {
	return func(p []byte, deadline time.Time) error {
		if err := conn.SetWriteDeadline(deadline); err != nil {
			return err
		}
		_, err := conn.Write(p)
		return err
	}
}

// serveHere runs the reader in the HTTP server's goroutine. The reader also ends when the
// request's context does.
func (h *Handler) serveHere(ctx context.Context, w http.ResponseWriter, r *http.Request, rd *reader) error {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return httpx.Unavailable(err)
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // a later request would inherit this stream's deadlines
	}
	if !canFlush(w) {
		rd.cancel()
		return &httpx.Error{Status: http.StatusInternalServerError, Detail: "The server cannot stream.",
			Cause: errors.New("eventlog: a middleware's ResponseWriter needs a method Unwrap or Flush")}
	}
	rd.out = responseWire(w, control)
	defer context.AfterFunc(r.Context(), rd.cancel)()
	err := rd.begin()
	defer func() { rd.end(err) }() // even if a step panics
	if err == nil {
		err = follow(ctx, h.log, rd.productID, rd.step)
	}
	// The end of the body must not wait forever for a reader either.
	_ = control.SetWriteDeadline(time.Now().Add(h.opts.WriteTimeout)) // setting it worked before
	return nil
}

// canFlush reports whether an [http.ResponseController] of w can flush.
func canFlush(w http.ResponseWriter) bool {
	switch w := w.(type) {
	case interface{ FlushError() error }, http.Flusher:
		return true
	case interface{ Unwrap() http.ResponseWriter }:
		return canFlush(w.Unwrap())
	}
	return false
}

// responseWire writes to the server's response.
func responseWire(w http.ResponseWriter, control *http.ResponseController) wire {
	return func(p []byte, deadline time.Time) error {
		if err := control.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		if err := control.Flush(); err != nil {
			return err
		}
		// HTTP/2 ends a stream whose deadline passes while nothing is written.
		_ = control.SetWriteDeadline(time.Time{}) // setting it worked above
		return nil
	}
}

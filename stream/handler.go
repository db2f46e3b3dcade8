package stream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Defaults of [HandlerOptions].
const (
	DefaultHeartbeat    = 15 * time.Second
	DefaultWriteTimeout = 10 * time.Second
	DefaultCoalesce     = 10 * time.Millisecond
	DefaultSendBuffer   = 64 << 10
)

// HandlerOptions of a [Handler]; a zero field means its default.
type HandlerOptions struct {
	// Heartbeat is how long a stream may be silent before a heartbeat event.
	Heartbeat time.Duration
	// WriteTimeout is how long a reader may take to accept what is written
	// to it. One that takes longer is cut off; it resumes by its last id.
	WriteTimeout time.Duration
	// Coalesce is how far apart writes to one reader are under load.
	Coalesce time.Duration
	// SendBuffer is the size of a connection's send buffer in the kernel, in
	// bytes: it bounds what a stalled reader costs.
	SendBuffer int
	// Logger is told when a reader comes and goes, at debug level; nil for silence.
	Logger *slog.Logger
	// Metrics is where the handler's metrics are registered; nil for nowhere.
	Metrics prometheus.Registerer
}

// Handler serves a [Log] as server-sent events. It must be mounted under
//
//	GET /stream/{product_id}
//
// behind whatever authenticates. The frames are
//
//	id: <opaque>
//	data: <one JSON object>
//
// A reader resumes after the Last-Event-ID header or, without one, after the
// query parameter last_event_id, or from the time since, in epoch seconds;
// without any it gets what comes from now on. When something after the id it
// names is no longer retained it is first sent
//
//	event: gap
//	data: {"requested":"…","oldest":"…"}
//
// and then all that is. The query parameter session_id leaves out the entries
// of other sessions. A silent stream is kept alive by "event: heartbeat".
//
// A stream that was opened through [access.Keyring.Require] ends when its key
// is taken away: it is sent nothing more, and closed by the next heartbeat.
//
// A reader costs its connection: the handler takes HTTP/1.1 connections over
// from the server, so they are not counted by [http.Server.Shutdown]. To stop,
// close the log; every reader is sent what it has not read and then the end of
// the stream. Wait returns when the last is gone.
type Handler struct {
	log     Log
	opts    HandlerOptions
	metrics metrics

	mu      sync.Mutex
	readers int
	idle    chan struct{} // closed when the last reader goes; nil while nobody waits
}

// NewHandler returns a handler over log; opts may be nil.
func NewHandler(log Log, opts *HandlerOptions) *Handler {
	h := &Handler{log: log}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.Heartbeat = cmp.Or(h.opts.Heartbeat, DefaultHeartbeat)
	h.opts.WriteTimeout = cmp.Or(h.opts.WriteTimeout, DefaultWriteTimeout)
	h.opts.Coalesce = cmp.Or(h.opts.Coalesce, DefaultCoalesce)
	h.opts.SendBuffer = cmp.Or(h.opts.SendBuffer, DefaultSendBuffer)
	if h.opts.Logger == nil {
		h.opts.Logger = slog.New(slog.DiscardHandler)
	}
	h.metrics = newMetrics(h.opts.Metrics)
	return h
}

// Wait returns when no reader is left, or when ctx ends.
func (h *Handler) Wait(ctx context.Context) error {
	h.mu.Lock()
	if h.readers == 0 {
		h.mu.Unlock()
		return nil
	}
	if h.idle == nil {
		h.idle = make(chan struct{})
	}
	idle := h.idle
	h.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Handler) readerCame() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers++
}

func (h *Handler) readerWent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers--; h.readers == 0 && h.idle != nil {
		close(h.idle)
		h.idle = nil
	}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(h.serve).ServeHTTP(w, r)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	productID := strings.Clone(r.PathValue("product_id")) // the stream outlives the request
	start, err := parseStart(r)
	if err != nil {
		return err
	}
	bounds, err := h.log.Bounds(r.Context(), productID)
	if err != nil {
		return httpx.Unavailable(err)
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	if r.Method == http.MethodHead {
		return nil
	}
	cursor, gap := start.cursor(bounds)
	rd := &reader{h: h, productID: productID, sessionID: strings.Clone(r.URL.Query().Get("session_id")),
		cursor: cursor, check: access.Checker(r.Context()), greeting: append([]byte(greeting), gap...)}
	if gap != nil {
		h.metrics.gaps.WithLabelValues(productID).Inc()
	}
	h.readerCame()
	taken, err := h.takeOver(w, rd)
	if taken {
		return nil
	}
	defer h.readerWent()
	if err != nil {
		return err
	}
	return h.serveHere(w, r, rd)
}

// greeting is what every stream begins with.
const greeting = "retry: 1000\n\n"

// start is where a reader wants to begin.
type start struct {
	id    string    // after the entry of this id
	since time.Time // or at this time
}

func parseStart(r *http.Request) (start, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return start{}, httpx.BadRequest("The query string is malformed.")
	}
	if id := cmp.Or(r.Header.Get("Last-Event-ID"), query.Get("last_event_id")); id != "" {
		return start{id: id}, nil
	}
	value := query.Get("since")
	if value == "" {
		return start{}, nil
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(seconds) || math.Abs(seconds) > 1e12 {
		return start{}, httpx.BadRequest("The query parameter since must be a time in epoch seconds.")
	}
	return start{since: time.UnixMicro(int64(max(seconds, 0) * 1e6))}, nil
}

// cursor returns where to read on from, and the gap event to send first if the
// log cannot tell what came after the id. An id that the log never gave, from
// before a restart say, is such an id.
func (s start) cursor(b Bounds) (ID, []byte) {
	switch {
	case s.id != "":
		id, err := ParseID(s.id)
		if err != nil || id.Compare(b.Floor) < 0 || id.Compare(b.Newest) > 0 {
			return b.Floor, gapEvent(s.id, b.Oldest)
		}
		return id, nil
	case !s.since.IsZero():
		id := IDAt(s.since)
		if id.Compare(b.Floor) < 0 {
			return b.Floor, nil
		}
		if id.Compare(b.Newest) > 0 {
			return b.Newest, nil
		}
		return id, nil
	}
	return b.Newest, nil
}

// errGone ends a reader whose client went away.
var errGone = errors.New("stream: reader is gone")

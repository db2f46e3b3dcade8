package eventlog

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/outage"
)

// Defaults of [HandlerOptions].
const (
	DefaultHeartbeat    = 15 * time.Second
	DefaultWriteTimeout = 10 * time.Second
	DefaultCoalesce     = 10 * time.Millisecond
	DefaultSendBuffer   = 64 << 10
)

// HandlerOptions configures a [Handler]; a zero field means its default.
type HandlerOptions struct {
	// Keys authorizes readers: each one needs a key of the product with the scope
	// [access.Stream]. If nil, the stream is open to every request.
	Keys *access.Keyring
	// Heartbeat is how long a stream may be silent before a heartbeat event.
	Heartbeat time.Duration
	// WriteTimeout is how long a write to a reader may take. A slower reader
	// is disconnected; it resumes from its last id.
	WriteTimeout time.Duration
	// Coalesce is the interval between writes to one reader under load.
	Coalesce time.Duration
	// SendBuffer is the size of a connection's kernel send buffer in bytes,
	// which bounds the cost of a stalled reader.
	SendBuffer int
	// Sends reports whether to send an entry to readers; nil sends the types that clients
	// know: "actions", "summary" and "erase". An entry that is not sent still moves the
	// readers' cursors. Sends is called concurrently.
	Sends func(e *Entry) bool
	// Logger receives a debug message when a reader comes or goes; nil for
	// slog.Default().
	Logger *slog.Logger
	// Metrics is where the handler's metrics are registered; nil disables
	// them.
	Metrics prometheus.Registerer
}

// Handler serves a [Log] as server-sent events. It must be mounted under
//
//	GET /stream/{product_id}
//
// and behind authentication, unless it has Keys. The frames are
//
//	id: <opaque>
//	data: <one JSON object>
//
// The first event of a stream has one more line, sent immediately: the reconnection
// delay for EventSource.
//
// A reader resumes after the Last-Event-ID header or, without one, after the
// query parameter last_event_id, or from the time since, in epoch seconds;
// without any of them it starts at the end of the log. If entries after its
// id, or after the last entry it was sent, have been trimmed, it is first sent
//
//	event: gap
//	data: {"requested":"…","oldest":"…"}
//
// and then everything still retained. The query parameter session_id selects
// the entries of one session. Entries of a type that clients do not know are not
// sent. A silent stream is kept alive by "event:
// heartbeat".
//
// If [HandlerOptions] has Keys, a stream ends when its key is removed: no entry is
// sent after that, and [Handler.EndRevoked] or the next heartbeat closes the
// stream.
//
// A reader costs little more than its connection: the handler hijacks HTTP/1.1
// connections, so [http.Server.Shutdown] does not wait for them. To stop, close the
// log: every reader gets its unread entries, then its stream ends. Wait returns
// when the last reader is gone.
type Handler struct {
	log     Log
	opts    HandlerOptions
	metrics handlerMetrics

	complaints outage.Pace // of all readers

	mu      sync.Mutex
	readers map[*reader]struct{}
	open    map[string]int // the number of readers by product
	idle    chan struct{}  // closed when the last reader goes; nil unless Wait was called
}

// NewHandler returns a handler over log; opts may be nil. It reports all
// invalid arguments at once.
func NewHandler(log Log, opts *HandlerOptions) (*Handler, error) {
	wrong := options.Mistakes{Package: "eventlog"}
	wrong.Require(log != nil, "log", "must not be nil")
	h := &Handler{log: log, readers: map[*reader]struct{}{}, open: map[string]int{}}
	h.opts = *cmp.Or(opts, &HandlerOptions{})
	h.opts.Heartbeat = options.Default(&wrong, "Heartbeat", h.opts.Heartbeat, DefaultHeartbeat)
	h.opts.WriteTimeout = options.Default(&wrong, "WriteTimeout", h.opts.WriteTimeout, DefaultWriteTimeout)
	h.opts.Coalesce = options.Default(&wrong, "Coalesce", h.opts.Coalesce, DefaultCoalesce)
	h.opts.SendBuffer = options.Default(&wrong, "SendBuffer", h.opts.SendBuffer, DefaultSendBuffer)
	if h.opts.Sends == nil {
		h.opts.Sends = func(e *Entry) bool { return feed.IsPublic(e.Data) }
	}
	h.opts.Logger = cmp.Or(h.opts.Logger, slog.Default())
	h.metrics = newHandlerMetrics(&wrong, h.opts.Metrics)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return h, nil
}

// Wait returns nil when no reader is left, or the error of ctx if that ends first. It does
// not end readers.
func (h *Handler) Wait(ctx context.Context) error {
	h.mu.Lock()
	if len(h.readers) == 0 {
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

// Readers returns how many streams of a product are open.
func (h *Handler) Readers(productID string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open[productID]
}

// EndRevoked ends the streams whose keys were removed, without waiting for
// their next heartbeat. Call it when keys are removed. It checks many streams at once,
// because a key that is gone is looked for in storage.
func (h *Handler) EndRevoked() {
	var checks errgroup.Group
	checks.SetLimit(256) // of possibly tens of thousands
	h.mu.Lock()
	readers := slices.Collect(maps.Keys(h.readers))
	h.mu.Unlock()
	for _, rd := range readers {
		if rd.check != nil {
			checks.Go(func() error {
				if rd.check() != nil {
					rd.cancel()
				}
				return nil
			})
		}
	}
	_ = checks.Wait()
}

// readerCame registers a reader. Exactly one call of readerWent must follow.
func (h *Handler) readerCame(rd *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers[rd] = struct{}{}
	h.open[rd.productID]++
}

// readerWent removes a reader. When it removes the last one, Wait returns.
func (h *Handler) readerWent(rd *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[rd.productID]--; h.open[rd.productID] == 0 {
		delete(h.open, rd.productID)
	}
	if delete(h.readers, rd); len(h.readers) == 0 && h.idle != nil {
		close(h.idle)
		h.idle = nil
	}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(h.serve).ServeHTTP(w, r)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	productID, err := httpx.PathValue(r, "product_id")
	if err != nil {
		return err
	}
	productID = strings.Clone(productID) // outlives the request
	var check func() error
	if h.opts.Keys != nil {
		if check, err = h.opts.Keys.Admit(r, access.Stream); err != nil {
			return err
		}
	}
	start, err := parseStart(r)
	if err != nil {
		return err
	}
	bounds, err := h.log.Bounds(r.Context(), productID)
	if err != nil {
		return httpx.Unavailable(err)
	}
	h.setHeader(w.Header())
	if r.Method == http.MethodHead {
		return nil
	}
	cursor, isGap := start.cursor(bounds)
	rd := &reader{h: h, productID: productID, sessionID: strings.Clone(r.URL.Query().Get("session_id")),
		cursor: cursor, lenient: start.id == "" && !start.since.IsZero(),
		check: check, opening: []byte(opening)}
	if isGap {
		rd.opening = append(rd.opening, gapEvent(start.id, bounds.Oldest)...)
		h.metrics.gaps.WithLabelValues(productID).Inc()
	}
	return h.start(w, r, rd)
}

// setHeader sets the response headers of an event stream. The Date is taken from the log's
// clock, as IDs are, so that a client can pass it as since.
func (h *Handler) setHeader(header http.Header) {
	header.Set("Date", h.log.Now().UTC().Format(http.TimeFormat))
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store, no-transform") // compression would delay events
	header.Set("X-Accel-Buffering", "no")                 // so would buffering in nginx
}

// ServeForm answers a request with a stream in another form, from the end of the
// product's log on. The stream calls check before each write and ends when it fails.
// In every other way it is like the handler's own streams.
func (h *Handler) ServeForm(w http.ResponseWriter, r *http.Request, productID string, check func() error,
	form Form) error {
	bounds, err := h.log.Bounds(r.Context(), productID)
	if err != nil {
		return httpx.Unavailable(err)
	}
	h.setHeader(w.Header())
	return h.start(w, r, &reader{h: h, productID: strings.Clone(productID), cursor: bounds.Newest, form: form,
		check: check, opening: form.Opening()})
}

// start runs a reader, on the hijacked connection if possible.
func (h *Handler) start(w http.ResponseWriter, r *http.Request, rd *reader) error {
	ctx, cancel := context.WithCancel(context.Background()) // a hijacked stream outlives the request
	rd.cancel = cancel
	h.readerCame(rd)
	taken, err := h.takeOver(ctx, w, rd)
	if taken {
		return nil
	}
	defer h.readerWent(rd)
	if err != nil {
		cancel()
		return err
	}
	return h.serveHere(ctx, w, r, rd)
}

// opening is the first line of the first event of every stream. It is sent
// immediately, so that proxies which wait for the body pass on the response. It is
// not an event of its own, because some clients would dispatch that.
const opening = "retry: 1000\n"

// start is where a reader starts.
type start struct {
	id    string    // after the entry of this id
	since time.Time // or at this time
}

// parseStart reads where a request wants to start. An id may be any text; if it is not an
// ID, the stream starts with a gap.
func parseStart(r *http.Request) (start, error) {
	query, err := httpx.Query(r)
	if err != nil {
		return start{}, err
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

// cursor returns where to start reading, and whether there is a gap: the log no
// longer has all entries after the id, or never assigned it, as after a restart of
// a log in memory. An id comes from a client, so it is not evidence of lost
// entries.
func (s start) cursor(b Bounds) (at ID, gap bool) {
	switch {
	case s.id != "":
		id, err := ParseID(s.id)
		if err != nil || id.Compare(b.TrimmedTo) < 0 || id.Compare(b.Newest) > 0 {
			return b.TrimmedTo, true
		}
		return id, false
	case !s.since.IsZero():
		return Earlier(Later(IDAt(s.since), b.TrimmedTo), b.Newest), false
	}
	return b.Newest, false
}

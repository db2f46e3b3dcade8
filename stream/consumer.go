package stream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/summary"
)

// Handlers are the functions that a [Consumer] calls with the entries of a
// stream; at least one of Actions, Summary, Erase, Raw and Deliver is required.
//
// A handler acknowledges an entry by returning nil. After any other error it
// is called again with the same entry, after a back-off, for as long as the
// consumer runs, unless the error is marked by [Permanent]: then the entry is
// skipped. Calls for one session do not overlap and follow the order of the
// stream; calls for different sessions are concurrent. Entries without a
// session are treated as one session.
//
// A call's context ends when the consumer's does.
type Handlers struct {
	// Actions handles batches of actions; they are never empty, and every
	// action belongs to the batch's session. Consumers of a log in this process
	// share the slice of actions, which must not be modified.
	Actions func(ctx context.Context, b activity.Batch) error
	// Summary handles summaries.
	Summary func(ctx context.Context, s Summary) error
	// Erase handles the erasure of a person: delete everything recorded about the person so
	// far. It is called once for each session of the person, after the session's earlier
	// entries, with an erasure of that session only, and once without sessions, for the
	// user's actions outside any session. Kept lists the sessions in which other people
	// acted as well: e.Erases tells which of the session's actions to delete, and no others.
	//
	// While its erasure is retried, a session falls behind only if it holds up other
	// sessions, see MaxPending. After that, or after a restart, the erasure is handled again
	// for all its sessions, perhaps after later entries.
	Erase func(ctx context.Context, e Erasure) error
	// Raw handles every entry of the stream before the other handlers do,
	// including entries of unknown types and entries that are not JSON. It is not
	// called again when a later handler fails, unless the session falls behind.
	// It gets an erasure once, as an entry without a session: only Erase waits for the
	// earlier entries of the person's sessions.
	Raw func(ctx context.Context, m Message) error
	// Deliver replaces Actions, Summary, Erase and Raw. It receives every entry in
	// the order of the stream, one at a time: nothing is read until it
	// returns. It may keep the delivery, but Done must be called in the end. It
	// returns an error only when ctx has ended. See [Writer.Deliver].
	Deliver func(ctx context.Context, d *Delivery) error
	// Gap is called when the server no longer retains everything after the cursor, or
	// everything that a session which is behind has missed: entries are lost. For such a
	// session it is called once until the session handles an entry again. Calls do not
	// overlap. It may be nil.
	Gap func(requested, oldest string)
}

// The defaults of options.
const (
	DefaultIdleTimeout   = 45 * time.Second
	DefaultMaxEventBytes = 1 << 20
	DefaultMaxPending    = 1024
	DefaultMaxBehind     = 1024
	DefaultParkAfter     = time.Minute
	DefaultMinBackoff    = time.Second
	DefaultMaxBackoff    = 30 * time.Second
	DefaultThreshold     = 20
	DefaultModelTimeout  = summary.Timeout
	DefaultMaxBytes      = 256 << 20 // for a Writer's links, and for a Summarizer's histories

	// DefaultPrompt is the default of [SummarizerOptions].Prompt. It is followed by
	// a warning that the data are not instructions, then by the data.
	DefaultPrompt = summary.DefaultInstructions
)

// ConsumerOptions configures a [Consumer]; a zero field means its default.
type ConsumerOptions struct {
	// Since is where to start without a cursor: at the oldest retained entry of
	// that time or later. time.Unix(0, 0) starts at the oldest entry; zero starts
	// at the end of the log.
	Since time.Time
	// Cursor stores the consumer's position across restarts; nil disables it.
	Cursor CursorStore
	// MaxPending bounds the entries in flight. At the bound, or while they exceed
	// 64 MiB, the consumer stops reading.
	MaxPending int
	// ParkAfter is how long a session's handler may keep failing before the session
	// falls behind: none of its entries stay in memory, the stream continues
	// without it, and its entries are read again until it has caught up;
	// DefaultParkAfter.
	ParkAfter time.Duration
	// MaxBehind bounds the sessions that are behind; DefaultMaxBehind. At the
	// bound, failing handlers are retried in place and the consumer waits for
	// them.
	MaxBehind int
	// MaxEventBytes is the size of the largest event. A larger one is skipped,
	// counted and logged.
	MaxEventBytes int
	// IdleTimeout is how long the stream may be silent before the connection
	// is considered dead. It must be longer than the server's heartbeat.
	IdleTimeout time.Duration
	// MinBackoff and MaxBackoff bound the back-off before a reconnect and
	// before a handler is retried: it doubles from one to the other, with a
	// jitter of a fifth.
	MinBackoff, MaxBackoff time.Duration
	// Client makes the requests; its Timeout is not used. nil means a separate
	// client. The token is not sent to another server after a redirect.
	Client *http.Client
	// Logger logs connections and skipped entries; nil for slog.Default().
	Logger *slog.Logger
}

// CursorStore stores a consumer's cursor, an opaque text, durably. The text is short
// while no session is in flight, behind or held. Each such session adds its ID and some
// 20 bytes: 120 KiB in all with UUIDs and the default bounds. A cursor belongs to one
// consumer: two that share it overwrite each other's position. Calls of the methods do
// not overlap.
type CursorStore interface {
	// Load returns the cursor saved last, or "" if there is none.
	Load(ctx context.Context) (string, error)
	// Save atomically replaces the saved cursor. It is called for every
	// acknowledged entry before the session's next one is handled; entries of
	// several sessions share a call. An error is logged, and the cursor is
	// saved with the next entry. Deliveries kept by a [Writer] are
	// acknowledged when they are written, possibly after Run has returned;
	// they are saved then unless Run was called again.
	//
	// Its ctx does not end with Run's, so that the last position is saved: a call that
	// hangs keeps Run from returning.
	Save(ctx context.Context, cursor string) error
}

// RefusedError reports that the server permanently refuses the stream: a retry
// with the same token is pointless.
type RefusedError struct {
	Status int    // 401, 403 or 404
	Detail string // the server's explanation, if any
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("stream: the server refuses the stream: %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Consumer reads the stream of one product and calls handlers with its
// entries. It reconnects for as long as it runs, with exponential back-off and
// jitter, and resumes after the last entry it received, so that every entry is
// acknowledged once while the process lives. Unacknowledged entries are
// bounded; when handlers are slow the consumer stops reading, and unread
// entries stay in the server's log.
//
// With a [CursorStore] it also resumes after a restart, even after a kill:
// only unacknowledged entries are handled again.
type Consumer struct {
	source   Source
	handlers Handlers
	opts     ConsumerOptions
	stats    counts[ConsumerStats]

	caughtUp atomic.Bool
	running  atomic.Pointer[run] // nil unless Run is running

	cursors sync.Mutex // held while the cursor store is called
	latest  *run       // the only run that saves; guarded by cursors
}

// NewConsumer returns a consumer of the stream at the URL, such as
// https://live.example.com/stream/acme, that authenticates with the token. It
// reports all invalid arguments at once.
func NewConsumer(streamURL, token string, handlers Handlers, opts *ConsumerOptions) (*Consumer, error) {
	r := &remote{token: token}
	wrong := options.Mistakes{Package: "stream"}
	r.url = checkStreamURL(&wrong, streamURL)
	wrong.Require(token != "", "token", "must not be empty")
	wrong.Require(options.IsPrintable(token), "token", "must be printable ASCII without spaces")
	c := newConsumer(&wrong, r, handlers, opts)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	r.opts, r.stats, r.client = c.opts, &c.stats, c.opts.Client
	if r.client == nil {
		r.client = newClient()
	}
	return c, nil
}

// NewSourceConsumer returns a consumer of any source, such as a log in this
// process. It reports all invalid arguments at once. The options
// MaxEventBytes, IdleTimeout and Client apply to remote streams only.
func NewSourceConsumer(source Source, handlers Handlers, opts *ConsumerOptions) (*Consumer, error) {
	wrong := options.Mistakes{Package: "stream"}
	wrong.Require(source != nil, "source", "must not be nil")
	c := newConsumer(&wrong, source, handlers, opts)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// newConsumer returns a consumer of a source, and adds its mistakes to wrong.
func newConsumer(wrong *options.Mistakes, source Source, handlers Handlers, opts *ConsumerOptions) *Consumer {
	c := &Consumer{source: source, handlers: handlers}
	c.opts = *cmp.Or(opts, &ConsumerOptions{})
	others := handlers.Actions != nil || handlers.Summary != nil || handlers.Erase != nil || handlers.Raw != nil
	wrong.Require(others || handlers.Deliver != nil, "handlers", "must have Actions, Summary, Erase, Raw or Deliver")
	wrong.Require(!others || handlers.Deliver == nil, "handlers",
		"must not have Deliver beside another handler of entries")
	c.opts.setDefaults(wrong)
	return c
}

const likeThis = "must be like https://live.example.com/stream/acme"

// checkStreamURL parses a stream's URL, which may have a query of its own.
func checkStreamURL(wrong *options.Mistakes, text string) url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		wrong.Require(false, "URL", likeThis)
		return url.URL{}
	}
	query := u.Query()
	wrong.Require(!query.Has("since") && !query.Has("last_event_id"),
		"URL", "must not name a position: leave out since and last_event_id")
	return *u
}

// setDefaults sets the zero fields, and adds the mistakes to wrong.
func (o *ConsumerOptions) setDefaults(wrong *options.Mistakes) {
	o.MaxPending = options.Default(wrong, "MaxPending", o.MaxPending, DefaultMaxPending)
	o.ParkAfter = options.Default(wrong, "ParkAfter", o.ParkAfter, DefaultParkAfter)
	o.MaxBehind = options.Default(wrong, "MaxBehind", o.MaxBehind, DefaultMaxBehind)
	o.MaxEventBytes = options.Default(wrong, "MaxEventBytes", o.MaxEventBytes, DefaultMaxEventBytes)
	o.IdleTimeout = options.Default(wrong, "IdleTimeout", o.IdleTimeout, DefaultIdleTimeout)
	o.MinBackoff, o.MaxBackoff = checkBackoff(wrong, o.MinBackoff, o.MaxBackoff)
	o.Logger = cmp.Or(o.Logger, slog.Default())
}

// checkBackoff returns the bounds of a back-off. If only one bound is set, the
// default of the other is adjusted to it.
func checkBackoff(wrong *options.Mistakes, least, most time.Duration) (time.Duration, time.Duration) {
	wrong.Require(least <= most || most <= 0, "MinBackoff", "must not be above MaxBackoff")
	most = options.Default(wrong, "MaxBackoff", most, max(DefaultMaxBackoff, least))
	least = options.Default(wrong, "MinBackoff", least, DefaultMinBackoff)
	return min(least, most), most
}

// Connected reports whether the consumer has an open stream. A log in this
// process is always open.
func (c *Consumer) Connected() bool {
	r, ok := c.source.(*remote)
	return !ok || r.connected.Load() > 0
}

// CaughtUp reports whether the consumer has acknowledged everything that the
// stream retained when it was first opened, except the entries of sessions that are
// behind. It stays true when the connection is lost.
func (c *Consumer) CaughtUp() bool { return c.caughtUp.Load() }

// Run consumes the stream. It returns only after all handlers have returned: with
// ctx's error when ctx ends, with a *[RefusedError] when the server refuses the
// stream with 401, 403 or 404, or with an error when the cursor cannot be loaded.
// Calls must not overlap; a later call starts as a new consumer would.
func (c *Consumer) Run(ctx context.Context) error {
	r, err := c.newRun(ctx)
	if err != nil {
		return err
	}
	if remote, ok := c.source.(*remote); ok && c.opts.Client == nil {
		defer remote.client.CloseIdleConnections()
	}
	err = r.do(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// newClient returns a client with separate connections, unless the process has
// replaced the default transport.
func newClient() *http.Client {
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		return &http.Client{Transport: transport.Clone()}
	}
	return &http.Client{}
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
)

// Handlers are what a [Consumer] calls with the entries of a stream; at least
// one of Actions, Summary and Raw is needed.
//
// An entry is finished when its handler has returned nil. A handler that
// returns an error is called again with the same entry, after a back-off, for
// as long as the consumer runs: an entry that is to be passed over is one to
// return nil for. Calls for one session do not overlap and come in the order of
// the stream; those for different sessions come at the same time. Entries that
// belong to no session are one session.
//
// The context of a call ends when the consumer's does.
type Handlers struct {
	// Actions takes batches of actions; they are never empty, and every
	// action is of the batch's session.
	Actions func(ctx context.Context, b activity.Batch) error
	// Summary takes summaries.
	Summary func(ctx context.Context, s Summary) error
	// Raw takes every entry before it goes to the other handlers, also those
	// of types they do not know and those that are not even JSON. It is not
	// called again when the handler after it fails.
	Raw func(ctx context.Context, m Message) error
	// Gap is told that the server no longer has everything that was asked
	// for: what was between two entries is lost. It may be nil.
	Gap func(requested, oldest string)
}

// Message is an entry as the stream carried it.
type Message struct {
	ID        string // of the entry, to resume by; opaque
	Type      string // "actions", "summary", …; empty where Data does not tell
	SessionID string // empty where Data does not tell
	Data      []byte // UTF-8, and one JSON object if the server is right; not to be changed
}

// Defaults of [ConsumerOptions].
const (
	DefaultIdleTimeout   = 3 * DefaultHeartbeat
	DefaultMaxEventBytes = 1 << 20
	DefaultMaxPending    = 1024
	DefaultMinBackoff    = time.Second
	DefaultMaxBackoff    = 30 * time.Second
)

// ConsumerOptions of a [Consumer]; a zero field means its default.
type ConsumerOptions struct {
	// Since is where to begin when there is no cursor: everything retained
	// that is not older comes first. time.Unix(0, 0) is all there is; zero is
	// from now on.
	Since time.Time
	// Cursor keeps the place of the consumer when the process ends; nil for
	// nowhere.
	Cursor CursorStore
	// MaxPending is how many entries are in hand and not finished at most,
	// and, with a Cursor, how many may be finished beyond the oldest that is
	// not. Then nothing more is read until there is room; nor while the
	// entries in hand are larger than 64 MiB together.
	MaxPending int
	// MaxEventBytes is the size of the largest event. A larger one is passed
	// over, counted and logged.
	MaxEventBytes int
	// IdleTimeout is how long the stream may be silent before the connection
	// is taken for dead. It must be longer than the server's heartbeat.
	IdleTimeout time.Duration
	// MinBackoff and MaxBackoff bound the wait before a reconnect, and before
	// a handler is called again: it doubles from one to the other, each time
	// give or take a fifth.
	MinBackoff, MaxBackoff time.Duration
	// Client makes the requests; its Timeout is not used. nil for one of the
	// consumer's own. Where it follows a redirect to another server, that one
	// is not sent the token.
	Client *http.Client
	// Logger is told of connections and of what is passed over; nil for silence.
	Logger *slog.Logger
	// Metrics is where the consumer's metrics are registered; nil for nowhere.
	Metrics prometheus.Registerer
}

// RefusedError says that the server refuses the stream for good: there is no
// point in asking again with the same token.
type RefusedError struct {
	Status int    // 401, 403 or 404
	Detail string // what the server said, if anything
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("stream: the server refuses the stream: %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Consumer reads the stream of one product and calls handlers with what it
// brings, as long as it runs: it reconnects for ever, with exponential back-off
// and jitter, and goes on after what it has received, so that every entry is
// handled once while the process lives. What handlers have not finished is
// bounded; when they are slow the consumer stops reading, and what it has not
// read waits in the server's log.
//
// With a [CursorStore] it also goes on where it was when the process is
// started again, even after a kill: only entries that handlers were at work on
// are handled again.
type Consumer struct {
	url      url.URL
	token    string
	handlers Handlers
	opts     ConsumerOptions
	metrics  consumerMetrics

	connected atomic.Bool

	cursors sync.Mutex  // held while the cursor store is called
	latest  *dispatcher // of the last Run, the only one that saves; guarded by cursors
}

// NewConsumer returns a consumer of the stream at the URL, such as
// https://live.example.com/stream/acme, that authenticates by the token. It
// reports everything that is wrong with its arguments.
func NewConsumer(streamURL, token string, handlers Handlers, opts *ConsumerOptions) (*Consumer, error) {
	c := &Consumer{token: token, handlers: handlers}
	if opts != nil {
		c.opts = *opts
	}
	u, err := parseStreamURL(streamURL)
	if err == nil {
		c.url = *u
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		err = errors.Join(err, errors.New("stream: the token must be printable ASCII without spaces"))
	}
	if handlers.Actions == nil && handlers.Summary == nil && handlers.Raw == nil {
		err = errors.Join(err, errors.New("stream: the consumer needs a handler"))
	}
	if err != nil {
		return nil, err
	}
	c.opts.setDefaults()
	c.metrics = newConsumerMetrics(c.opts.Metrics)
	return c, nil
}

func parseStreamURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("stream: the URL must be like https://live.example.com/stream/acme")
	}
	if query := u.Query(); query.Has("since") || query.Has("last_event_id") {
		return nil, errors.New("stream: the URL must not say where to begin; that is what the options Since and Cursor are for")
	}
	return u, nil
}

func (o *ConsumerOptions) setDefaults() {
	o.MaxPending = orDefault(o.MaxPending, DefaultMaxPending)
	o.MaxEventBytes = orDefault(o.MaxEventBytes, DefaultMaxEventBytes)
	o.IdleTimeout = orDefault(o.IdleTimeout, DefaultIdleTimeout)
	o.MinBackoff = orDefault(o.MinBackoff, DefaultMinBackoff)
	o.MaxBackoff = max(orDefault(o.MaxBackoff, DefaultMaxBackoff), o.MinBackoff)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Connected reports whether the consumer has a stream open.
func (c *Consumer) Connected() bool { return c.connected.Load() }

// Run consumes the stream until ctx ends, when it returns ctx's error, or until
// the server refuses the stream with 401, 403 or 404, when it returns a
// *[RefusedError], or until the cursor cannot be loaded. It returns when no
// handler is at work any more. It must not be called again before that; when it
// is called again it begins as a new consumer would.
func (c *Consumer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := c.newRun(ctx)
	if err != nil {
		return err
	}
	if r.client = c.opts.Client; r.client == nil {
		r.client = newClient()
		defer r.client.CloseIdleConnections()
	}
	defer r.dispatcher.wait()
	defer cancel()
	wait := newBackOff(c.opts.MinBackoff, c.opts.MaxBackoff)
	for {
		r.progress = false
		err := r.connect(ctx)
		var refused *RefusedError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused):
			return refused
		case r.progress:
			wait.Reset()
		}
		pause := wait.NextBackOff()
		var later *retryLaterError
		if errors.As(err, &later) {
			pause = max(pause, later.after)
		}
		c.metrics.reconnects.Inc()
		c.opts.Logger.Warn("stream is interrupted", "err", err, "again_in", pause.Round(time.Millisecond))
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// newRun returns what Run needs, at the place where the cursor is.
func (c *Consumer) newRun(ctx context.Context) (*run, error) {
	c.cursors.Lock()
	defer c.cursors.Unlock()
	cursor, err := loadCursor(ctx, c.opts.Cursor)
	if err != nil {
		return nil, err
	}
	c.latest = newDispatcher(ctx, c, cursor)
	return &run{Consumer: c, cursor: cursor, dispatcher: c.latest}, nil
}

// newClient returns a client with connections of its own, except where the
// process has a transport of its own kind for everything.
func newClient() *http.Client {
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		return &http.Client{Transport: transport.Clone()}
	}
	return &http.Client{}
}

// newBackOff returns an exponential back-off that never ends.
func newBackOff(least, most time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(least), backoff.WithMaxInterval(most), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.2), backoff.WithMaxElapsedTime(0))
}

// sleep waits, or returns the error of ctx when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

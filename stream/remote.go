package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/r3labs/sse/v2"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// remote is the [Source] that is a stream of a server. Calls of Follow do not disturb each
// other: each has connections of its own.
type remote struct {
	url    url.URL
	token  string
	opts   ConsumerOptions
	client *http.Client
	stats  *counts[ConsumerStats]

	connected atomic.Int32 // streams open
}

// Follow implements [Source]. It reconnects after a back-off, which begins anew once a
// connection was worth it, and no earlier than the server asks.
func (r *remote) Follow(ctx context.Context, after string, since time.Time, deliver func(feed.Event) error) error {
	f := &following{remote: r, after: after, since: since, deliver: deliver}
	pauses := schedule.Backoff{Min: r.opts.MinBackoff, Max: r.opts.MaxBackoff}
	for failures := 1; ; failures++ {
		f.progress, f.wait = false, 0
		err := f.connect(ctx)
		var refused *RefusedError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case f.refused() != nil:
			return f.refused()
		case errors.As(err, &refused):
			return refused
		case f.progress:
			failures = 1
		}
		pause := max(pauses.After(failures), f.wait)
		r.stats.add(func(s *ConsumerStats) { s.Interruptions++ })
		r.opts.Logger.Warn("stream is interrupted", "err", err, "again_in", pause.Round(time.Millisecond))
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// refused returns deliver's error, or nil. It waits for a call of deliver in progress.
func (f *following) refused() error {
	f.handing.Lock()
	defer f.handing.Unlock()
	return f.ended
}

// following is a call of Follow. One goroutine uses it, and a timer that delivers under
// handing. after and since are where the next connection goes on.
type following struct {
	*remote
	after    string
	since    time.Time
	deliver  func(feed.Event) error
	handing  sync.Mutex    // held during a call of deliver
	ended    error         // deliver's error
	progress bool          // this connection is worth more than the attempt
	wait     time.Duration // that the server asks for before the next one
}

// errIdle says that a connection was silent for too long.
var errIdle = errors.New("stream: nothing came for longer than a heartbeat takes")

// errEnded says that a stream ended cleanly, as when a server restarts.
var errEnded = errors.New("stream: the server ended it")

// connect reads one connection until it ends, which is always an error.
//
// An r3labs client serves one connection, with its own retries disabled: it
// stores the ID of a truncated event and delivers the half, reconnects on any
// error, and never reconnects after a proper end. So it reads through an
// [eventGuard], and this package resumes. The client parses at most one event while
// another is delivered: a slow handler holds the connection back.
func (f *following) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &connection{following: f, cancel: cancel, idle: time.AfterFunc(f.opts.IdleTimeout, func() { cancel(errIdle) })}
	defer c.idle.Stop()
	c.quiet = time.AfterFunc(time.Hour, c.silent)
	defer c.quiet.Stop()
	defer c.close()
	err := c.subscriber().SubscribeRawWithContext(ctx, func(e *sse.Event) {
		if ctx.Err() == nil {
			c.receive(e)
		}
		c.undelivered.Add(-1)
	})
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return refused // even if it was too slow to say why
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case err == nil:
		return errEnded
	}
	return err
}

// connection is one connection to the server. Two timers watch it: idle ends it when the server
// is silent for too long, quiet finds that all that was retained has come. Both run only while
// something is waited for.
type connection struct {
	*following
	cancel context.CancelCauseFunc
	idle   *time.Timer
	quiet  *time.Timer // calls silent, until the stream was calm once
	calm   atomic.Bool
	closed bool // nothing more is delivered; guarded by handing
	home   bool // the last request went to the server itself
	opened time.Time

	undelivered atomic.Int64 // events that the client was given and that were not dealt with
}

// subscriber returns an r3labs client that makes this connection, by the user's transport,
// cookie jar and redirect policy, without a time-out for the whole of it.
func (c *connection) subscriber() *sse.Client {
	room := 2*c.maxEvent() + readBuffer // no event that a guard gives is larger
	client := sse.NewClient(c.url.String(), sse.ClientMaxBufferSize(room))
	transport := c.client.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	client.Connection = &http.Client{Jar: c.client.Jar, CheckRedirect: c.client.CheckRedirect,
		Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			return c.roundTrip(client, transport, req)
		})}
	client.ReconnectStrategy = &backoff.StopBackOff{}
	client.ResponseValidator = func(_ *sse.Client, res *http.Response) error { return c.validate(res) }
	client.Headers["Accept-Encoding"] = "identity" // compression would hold events back
	if c.after != "" {
		client.LastEventID.Store([]byte(c.after))
	}
	return client
}

// begin adds the start to the query, unless the Last-Event-ID header is set.
func (c *connection) begin(u *url.URL) {
	if c.after == "" && !c.since.IsZero() {
		query := u.Query()
		query.Set("since", strconv.FormatFloat(max(float64(c.since.UnixMicro())/1e6, 0), 'f', -1, 64))
		u.RawQuery = query.Encode()
	}
}

// roundTripper is a function as an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// roundTrip makes one request, of which a connection has several if it is redirected. Only a
// request to the server itself has the token and the query. The body of a stream is read
// through the guard.
func (c *connection) roundTrip(client *sse.Client, next http.RoundTripper, req *http.Request) (*http.Response, error) {
	if c.home = c.isServer(req.URL); c.home {
		req = req.Clone(req.Context())
		c.begin(req.URL) // here, as a redirect may have lost it
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
	}
	res, err := next.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusOK {
		c.idle.Stop() // only while something is waited for does it run
		given := func(noID bool) {
			c.undelivered.Add(1)
			if noID {
				client.LastEventID.Store([]byte(nil)) // an empty id does not make the client forget
			}
		}
		res.Body = guarded{res.Body, newEventGuard(watched{res.Body, c}, c.maxEvent(), c.after, given)}
	}
	return res, err
}

// maxEvent returns the size of the largest event, in bytes.
func (r *remote) maxEvent() int { return min(r.opts.MaxEventBytes, math.MaxInt/endlessFactor/2) }

// guarded is a body that is read through a guard.
type guarded struct {
	io.Closer
	io.Reader
}

// watched is the body of a connection. A read of it waits no longer than the
// idle time-out, and when it waits for a while the stream is quiet.
type watched struct {
	io.Reader
	conn *connection
}

func (w watched) Read(p []byte) (int, error) {
	w.conn.idle.Reset(w.conn.opts.IdleTimeout)
	if !w.conn.calm.Load() {
		w.conn.quiet.Reset(quietTime)
	}
	n, err := w.Reader.Read(p)
	w.conn.idle.Stop()
	w.conn.quiet.Stop()
	return n, err
}

// isServer reports whether the URL, where a redirect may have led, is of the
// server that the token is for. It may differ in being safe.
func (c *connection) isServer(u *url.URL) bool {
	if !strings.EqualFold(u.Hostname(), c.url.Hostname()) {
		return false
	}
	return u.Scheme == c.url.Scheme && portOf(u) == portOf(&c.url) || u.Scheme == "https" && c.url.Scheme == "http"
}

// portOf returns the port of an http or https URL, the scheme's own for none.
func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// maxRefusal is how much of a refusal's body is read, in bytes.
const maxRefusal = 4 << 10

// validate returns nil for a stream, else why it is none; then it closes the body. A refusal by
// another server, where a redirect may have led, is not final.
func (c *connection) validate(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && kind == "text/event-stream" {
		c.open(res)
		return nil
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		if c.home {
			return &RefusedError{Status: res.StatusCode, Detail: detailOf(res)}
		}
	case http.StatusOK:
		return fmt.Errorf("stream: the server answers with %q, not with an event stream", kind)
	}
	c.wait = retryAfter(res.Header, time.Now())
	return fmt.Errorf("stream: the server answers %d %s", res.StatusCode, http.StatusText(res.StatusCode))
}

// open notes that the stream is open.
func (c *connection) open(res *http.Response) {
	c.opened = time.Now()
	c.connected.Add(1)
	c.stats.add(func(s *ConsumerStats) { s.Connects++ })
	c.opts.Logger.Info("stream is open", "after", c.after)
	begun, err := http.ParseTime(res.Header.Get("Date")) // by the server's clock
	if err != nil {
		begun = c.opened
	}
	begun = begun.Add(-startMargin).Truncate(time.Second)
	if c.after == "" && c.since.IsZero() {
		// From now on: should the connection be cut before anything came, the
		// next one must not begin later.
		c.since = begun
	}
	c.hand(feed.Event{Kind: feed.Open, Opened: begun})
}

// close notes that the stream is not open any more. Nothing is delivered once it has returned.
func (c *connection) close() {
	if !c.opened.IsZero() {
		c.connected.Add(-1)
	}
	c.handing.Lock()
	defer c.handing.Unlock()
	c.closed = true
}

// hand delivers an event and reports whether deliver took it. An error of deliver ends the
// connection and Follow. Calls of deliver do not overlap.
func (c *connection) hand(e feed.Event) bool {
	c.handing.Lock()
	defer c.handing.Unlock()
	if c.ended != nil || c.closed {
		return false
	}
	if c.ended = c.deliver(e); c.ended != nil {
		c.cancel(c.ended)
	}
	return c.ended == nil
}

// quietTime is how long a stream must be silent for all that was retained to
// have come. A server sends that without a pause.
const quietTime = 250 * time.Millisecond

// silent notes that nothing comes, unless something that came still waits.
func (c *connection) silent() {
	if c.undelivered.Load() > 0 {
		c.quiet.Reset(quietTime)
		return
	}
	c.calm.Store(true)
	c.hand(feed.Event{Kind: feed.CaughtUp})
}

// startMargin is how much earlier than its answer a stream may have begun: the
// server looks where its log ends before it takes the time.
const startMargin = time.Second

// detailOf returns the detail of a refusal, or "".
func detailOf(res *http.Response) string {
	var body struct {
		Detail string `json:"detail"`
	}
	err := json.NewDecoder(io.LimitReader(res.Body, maxRefusal)).Decode(&body)
	if err != nil || strings.ContainsFunc(body.Detail, func(r rune) bool { return r < ' ' }) {
		return ""
	}
	return body.Detail
}

// maxRetryAfter is the longest wait that a server can ask for.
const maxRetryAfter = 5 * time.Minute

// retryAfter returns the wait in the header Retry-After, given in seconds or as a
// date, and zero without one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// receive delivers an event, and goes on after it once that is done. An event
// of no use moves the place to go on from, too.
func (c *connection) receive(e *sse.Event) {
	id := string(e.ID)
	delivered := true
	switch name := string(e.Event); {
	case name == "heartbeat": // there was nothing to send
		c.calm.Store(true)
		c.hand(feed.Event{Kind: feed.CaughtUp})
		c.progress = c.progress || time.Since(c.opened) > c.opts.MaxBackoff
		return
	case name == "gap":
		var gap struct{ Requested, Oldest string }
		_ = json.Unmarshal(e.Data, &gap) // a missing field is empty
		delivered = c.hand(feed.Event{Kind: feed.Gap, Requested: gap.Requested, Oldest: gap.Oldest})
		c.progress = true
	case name == tooLargeEvent:
		delivered = c.hand(feed.Event{Kind: feed.TooLarge, Message: Message{ID: id}})
		c.progress = true
	case name == feed.Erase:
		delivered = c.hand(feed.Event{Message: feed.NewErase(id, e.Data)})
		c.progress = true
	case isEntry(e):
		delivered = c.hand(feed.Event{Message: feed.NewMessage(id, e.Data)})
		c.progress = true
	}
	if delivered {
		c.after = id
	}
}

// isEntry reports whether an event is an entry of the log.
func isEntry(e *sse.Event) bool {
	return e.Data != nil && (len(e.Event) == 0 || string(e.Event) == "message")
}

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

// remote is the [Source] that reads a server's stream. Calls of Follow are independent:
// each one makes its own connections.
type remote struct {
	url    url.URL
	token  string
	opts   ConsumerOptions
	client *http.Client
	stats  *counts[ConsumerStats]

	connected atomic.Int32 // streams open
}

// Follow implements [Source]. It reconnects after a back-off, but no earlier than the
// server asks. A connection that made progress resets the back-off.
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
		if err := schedule.Sleep(ctx, pause); err != nil {
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

// following is one call of Follow. It is used by one goroutine, and by a timer that
// delivers while it holds handing. The next connection resumes at after or since.
type following struct {
	remote   *remote
	after    string
	since    time.Time
	deliver  func(feed.Event) error
	handing  sync.Mutex    // held during a call of deliver
	ended    error         // deliver's error
	progress bool          // the connection brought an event, if only a heartbeat
	wait     time.Duration // that the server requests before the next connection
}

// errIdle reports that a connection was silent for too long.
var errIdle = errors.New("stream: nothing came for longer than a heartbeat takes")

// errEnded reports that a stream ended cleanly, as it does when a server restarts.
var errEnded = errors.New("stream: the server ended it")

// connect reads from one connection until it ends. It always returns an error.
//
// An r3labs client serves one connection, with its own retries disabled. Left
// alone, it would store the ID of a truncated event and deliver the half, reconnect
// after any error, and never reconnect after a clean end. So it reads through an
// [eventGuard], and this package resumes the stream. The client parses at most one
// event while another is being delivered: a slow handler slows the connection down.
func (f *following) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &connection{remote: f.remote, call: f, cancel: cancel}
	c.idle = time.AfterFunc(f.remote.opts.IdleTimeout, func() { cancel(errIdle) })
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
		return refused // even if its detail came too slowly
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case err == nil:
		return errEnded
	}
	return err
}

// connection is one connection to the server. Two timers watch it: idle ends it when the server
// is silent for too long, and quiet detects that all retained entries have arrived. Both run
// only while a read is waiting.
type connection struct {
	remote *remote
	call   *following
	cancel context.CancelCauseFunc
	idle   *time.Timer
	quiet  *time.Timer // calls silent
	closed bool        // nothing more is delivered; guarded by handing
	home   bool        // the last request went to the server itself
	opened time.Time

	undelivered atomic.Int64 // events passed to the client that are not handled yet
}

// subscriber returns an r3labs client that makes this connection. It uses the transport,
// cookie jar and redirect policy of the user's client, and has no overall time-out.
func (c *connection) subscriber() *sse.Client {
	room := 2*c.remote.maxEvent() + readBuffer // no event from a guard is larger
	client := sse.NewClient(c.remote.url.String(), sse.ClientMaxBufferSize(room))
	transport := c.remote.client.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	client.Connection = &http.Client{Jar: c.remote.client.Jar, CheckRedirect: c.remote.client.CheckRedirect,
		Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			return c.roundTrip(client, transport, req)
		})}
	client.ReconnectStrategy = &backoff.StopBackOff{}
	client.ResponseValidator = func(_ *sse.Client, res *http.Response) error { return c.validate(res) }
	client.Headers["Accept-Encoding"] = "identity" // compression would hold events back
	if c.call.after != "" {
		client.LastEventID.Store([]byte(c.call.after))
	}
	return client
}

// begin adds the start time to the query, unless the Last-Event-ID header is set.
func (c *connection) begin(u *url.URL) {
	if c.call.after == "" && !c.call.since.IsZero() {
		query := u.Query()
		query.Set("since", strconv.FormatFloat(max(float64(c.call.since.UnixMicro())/1e6, 0), 'f', -1, 64))
		u.RawQuery = query.Encode()
	}
}

// roundTripper turns a function into an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// roundTrip makes one request; a connection that is redirected makes several. Only a request
// to the server itself carries the token and the start time. The body of a stream is read
// through the guard.
func (c *connection) roundTrip(client *sse.Client, next http.RoundTripper, req *http.Request) (*http.Response, error) {
	if c.home = c.isServer(req.URL); c.home {
		req = req.Clone(req.Context())
		c.begin(req.URL) // here, because a redirect may have dropped it
		if c.remote.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.remote.token)
		}
	}
	res, err := next.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusOK {
		c.idle.Stop() // it runs only while a read is waiting
		given := func(noID bool) {
			c.undelivered.Add(1)
			if noID {
				client.LastEventID.Store([]byte(nil)) // the client does not clear it for an empty id
			}
		}
		guard := newEventGuard(watched{res.Body, c}, c.remote.maxEvent(), c.call.after, given)
		res.Body = struct {
			io.Reader
			io.Closer
		}{guard, res.Body}
	}
	return res, err
}

// maxEvent returns the size of the largest event, in bytes.
func (r *remote) maxEvent() int { return min(r.opts.MaxEventBytes, math.MaxInt/endlessFactor/2) }

// watched is a connection's body with timers on each read. A read that waits for
// the idle time-out ends the connection; one that waits for quietTime calls silent.
type watched struct {
	io.Reader
	conn *connection
}

func (w watched) Read(p []byte) (int, error) {
	w.conn.idle.Reset(w.conn.remote.opts.IdleTimeout)
	w.conn.quiet.Reset(quietTime)
	n, err := w.Reader.Read(p)
	w.conn.idle.Stop()
	w.conn.quiet.Stop()
	return n, err
}

// isServer reports whether the URL, possibly the target of a redirect, belongs to
// the server that the token is for. A change from http to https on the same host is
// allowed.
func (c *connection) isServer(u *url.URL) bool {
	server := &c.remote.url
	if !strings.EqualFold(u.Hostname(), server.Hostname()) {
		return false
	}
	return u.Scheme == server.Scheme && portOf(u) == portOf(server) || u.Scheme == "https" && server.Scheme == "http"
}

// portOf returns the port of an http or https URL, or the scheme's default.
func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// maxRefusal is how much of a refusal's body is read, in bytes.
const maxRefusal = 4 << 10

// validate returns nil for an event stream. Otherwise it closes the body and returns an error
// that explains why it is not a stream. A refusal by the target of a redirect to another server
// is not final.
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
		return fmt.Errorf("stream: the server answers with %q, not with an event stream; its URL %s", kind, likeThis)
	}
	c.call.wait = schedule.AskedWait(res.Header, time.Now(), maxRetryAfter)
	return fmt.Errorf("stream: the server answers %d %s", res.StatusCode, http.StatusText(res.StatusCode))
}

// open records that the stream is open, and when it began.
func (c *connection) open(res *http.Response) {
	c.opened = time.Now()
	c.remote.connected.Add(1)
	c.remote.stats.add(func(s *ConsumerStats) { s.Connects++ })
	c.remote.opts.Logger.Info("stream is open", "after", c.call.after)
	begun := schedule.AnsweredAt(res.Header, c.opened).Add(-startMargin).Truncate(time.Second)
	if c.call.after == "" && c.call.since.IsZero() {
		// Start from now: if the connection is cut before anything arrives, the
		// next one must not begin later.
		c.call.since = begun
	}
	c.hand(feed.Event{Kind: feed.Open, Opened: begun})
}

// close records that the stream is no longer open. Nothing is delivered after it returns.
func (c *connection) close() {
	if !c.opened.IsZero() {
		c.remote.connected.Add(-1)
	}
	c.call.handing.Lock()
	defer c.call.handing.Unlock()
	c.closed = true
}

// hand delivers an event and reports whether deliver accepted it. An error of deliver ends
// the connection and Follow. Calls of deliver do not overlap.
func (c *connection) hand(e feed.Event) bool {
	c.call.handing.Lock()
	defer c.call.handing.Unlock()
	if c.call.ended != nil || c.closed {
		return false
	}
	if c.call.ended = c.call.deliver(e); c.call.ended != nil {
		c.cancel(c.call.ended)
	}
	return c.call.ended == nil
}

// quietTime is the silence after which all retained entries are taken to have
// arrived: a server sends them without a pause.
const quietTime = 250 * time.Millisecond

// silent reports that the stream has caught up, unless an event is still being
// handled.
func (c *connection) silent() {
	if c.undelivered.Load() > 0 {
		c.quiet.Reset(quietTime)
		return
	}
	c.hand(feed.Event{Kind: feed.CaughtUp})
}

// startMargin is how much earlier than its response a stream may have begun: the
// server looks up the end of its log before it reads the clock.
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

// receive delivers an event and, once it is accepted, moves the position from which
// the next connection resumes. An unknown event moves the position as well; a
// heartbeat does not.
func (c *connection) receive(e *sse.Event) {
	id, event := string(e.ID), feed.Event{}
	switch name := string(e.Event); {
	case name == "heartbeat": // there was nothing to send
		event.Kind = feed.CaughtUp
	case name == "gap":
		var gap struct{ Requested, Oldest string }
		_ = json.Unmarshal(e.Data, &gap) // a missing field is empty
		event = feed.Event{Kind: feed.Gap, Requested: gap.Requested, Oldest: gap.Oldest}
	case name == tooLargeEvent:
		event = feed.Event{Kind: feed.TooLarge, Message: Message{ID: id}}
	case name == feed.Erase:
		event.Message = feed.NewErase(id, e.Data)
	case e.Data != nil && (name == "" || name == "message"): // an entry of the log
		event.Message = feed.NewMessage(id, e.Data)
	default:
		c.call.after = id
		return
	}
	c.call.progress = true
	if c.hand(event) && event.Kind != feed.CaughtUp {
		c.call.after = id
	}
}

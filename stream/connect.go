package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/r3labs/sse/v2"
)

// run is what a consumer knows while it runs.
type run struct {
	*Consumer
	cursor     cursor // of what was received; that of what is finished is the dispatcher's
	dispatcher *dispatcher
	client     *http.Client
	progress   bool // this connection is worth more than the attempt
}

// errIdle says that a connection was silent for too long.
var errIdle = errors.New("stream: nothing came for longer than a heartbeat takes")

// errEnded says that a stream ended in good order, as when a server restarts.
var errEnded = errors.New("stream: the server ended it")

// retryLaterError says how long to wait at least.
type retryLaterError struct {
	err   error
	after time.Duration
}

func (e *retryLaterError) Error() string { return e.err.Error() }
func (e *retryLaterError) Unwrap() error { return e.err }

// connect reads one connection until it ends, which it always does with an
// error.
//
// The r3labs client is used once for each connection, with nothing of its own
// retrying: it would store the id of an event that was cut in two and deliver
// the half, reconnect on any error, and never after a proper end. So its body
// is a [whole], which lets only whole events through, and resuming is done here.
func (r *run) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer r.connected.Store(false)
	c := &connection{run: r, idle: time.AfterFunc(r.opts.IdleTimeout, func() { cancel(errIdle) })}
	defer c.idle.Stop()
	err := c.subscriber().SubscribeRawWithContext(ctx, func(*sse.Event) { c.deliver(ctx) })
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

// connection is one connection to the server.
type connection struct {
	*run
	idle   *time.Timer
	home   bool // the last request went to the server itself
	body   *whole
	opened time.Time
}

// subscriber returns an r3labs client that makes this connection.
func (c *connection) subscriber() *sse.Client {
	client := sse.NewClient(c.url.String())
	transport := c.client.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	client.Connection = &http.Client{Jar: c.client.Jar, CheckRedirect: c.client.CheckRedirect,
		Transport: roundTripper(func(req *http.Request) (*http.Response, error) { return c.roundTrip(transport, req) })}
	client.ReconnectStrategy = &backoff.StopBackOff{}
	client.ResponseValidator = func(_ *sse.Client, res *http.Response) error { return c.validate(res) }
	client.Headers["Accept-Encoding"] = "identity" // compression would hold events back
	if c.cursor.ID != "" {
		client.LastEventID.Store([]byte(c.cursor.ID))
	}
	return client
}

// begin makes the URL say where to begin, unless the header Last-Event-ID does.
func (c *connection) begin(u *url.URL) {
	if since, ok := c.cursor.start(c.opts.Since); ok {
		query := u.Query()
		query.Set("since", strconv.FormatFloat(since, 'f', -1, 64))
		u.RawQuery = query.Encode()
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (c *connection) roundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
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
		c.body = &whole{ReadCloser: res.Body, conn: c, parser: eventParser{max: c.opts.MaxEventBytes, event: message{id: c.cursor.ID}}}
		res.Body = c.body
	}
	return res, err
}

// isServer reports whether the URL, where a redirect may have led, is of the
// server that the token is for. It may differ in being safe.
func (c *connection) isServer(u *url.URL) bool {
	if !strings.EqualFold(u.Hostname(), c.url.Hostname()) {
		return false
	}
	return u.Scheme == c.url.Scheme && portOf(u) == portOf(&c.url) || u.Scheme == "https" && c.url.Scheme == "http"
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// maxRefusal is how much of a refusal's body is read, in bytes.
const maxRefusal = 4 << 10

// validate returns nil for a stream, else why it is none; then it closes the body.
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
	err := fmt.Errorf("stream: the server answers %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	if after := retryAfter(res.Header, time.Now()); after > 0 {
		return &retryLaterError{err, after}
	}
	return err
}

// open notes that the stream is open.
func (c *connection) open(res *http.Response) {
	c.opened = time.Now()
	c.connected.Store(true)
	c.metrics.connects.Inc()
	c.opts.Logger.Info("stream is open", "after", c.cursor.ID)
	if _, ok := c.cursor.start(c.opts.Since); ok || c.cursor.ID != "" {
		return
	}
	// From now on, by the server's clock: should the connection be cut before
	// anything came, the next one must not begin later.
	begun, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		begun = time.Now()
	}
	c.cursor.Since = begun.Add(-startMargin).Unix()
	c.dispatcher.begin(c.cursor)
}

// startMargin is how much earlier than its answer a stream may have begun: the
// server looks where its log ends before it takes the time.
const startMargin = time.Second

// detailOf returns what a refusal says.
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

// retryAfter returns what the header Retry-After asks for, as seconds or as a
// date, and zero where there is none.
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

// deliver hands on what one read of the body brought.
func (c *connection) deliver(ctx context.Context) {
	messages := c.body.take()
	for len(messages) > 0 && ctx.Err() == nil {
		n := 0
		for n < len(messages) && messages[n].isEntry() {
			n++
		}
		if n > 0 {
			n = c.dispatcher.push(ctx, messages[:n])
			c.progress = c.progress || n > 0
		} else {
			c.receive(messages[0])
			n = 1
		}
		if n > 0 {
			c.cursor.ID = messages[n-1].id
		}
		messages = messages[n:]
	}
}

// receive takes note of a message that is no entry.
func (c *connection) receive(m message) {
	switch {
	case m.tooLarge:
		c.progress = true
		c.metrics.skipped.WithLabelValues("too_large").Inc()
		c.opts.Logger.Error("stream has an event over the limit; it is passed over", "id", m.id, "max_bytes", c.opts.MaxEventBytes)
	case m.name == "gap":
		c.progress = true
		c.gap(m.data)
	case m.name == "heartbeat":
		c.progress = c.progress || time.Since(c.opened) > c.opts.MaxBackoff
	}
}

func (c *connection) gap(data []byte) {
	var gap struct{ Requested, Oldest string }
	_ = json.Unmarshal(data, &gap) // what it does not tell is empty
	c.metrics.gaps.Inc()
	c.opts.Logger.Warn("stream has a gap: entries are no longer retained", "requested", gap.Requested, "oldest", gap.Oldest)
	if c.handlers.Gap != nil {
		c.handlers.Gap(gap.Requested, gap.Oldest)
	}
}

// notice is what the r3labs client is given for each read that brought whole
// events. Its own parser takes ten times as long as the rest of a consumer, so
// the events go past it.
const notice = "data: events\n\n"

// whole is the body of a connection. It lets only whole events through, and a
// read of it waits no longer than the idle time-out.
type whole struct {
	io.ReadCloser
	conn   *connection
	parser eventParser
	due    string // what is still to be given of a notice
	err    error  // what ends the body, after what came before

	mu    sync.Mutex
	ready [][]message // for each notice
}

// Read returns a notice for each time that whole events came.
func (w *whole) Read(p []byte) (int, error) {
	for w.due == "" {
		if w.err != nil {
			return 0, w.err
		}
		w.fill()
	}
	n := copy(p, w.due)
	w.due = w.due[n:]
	return n, nil
}

// fill reads once.
func (w *whole) fill() {
	w.conn.idle.Reset(w.conn.opts.IdleTimeout)
	n, err := w.ReadCloser.Read(w.parser.space())
	w.conn.idle.Stop()
	messages, tooMuch := w.parser.advance(n)
	if w.err = tooMuch; w.err == nil {
		w.err = err
	}
	if len(messages) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready, w.due = append(w.ready, messages), notice
}

// take returns what the next notice stands for.
func (w *whole) take() []message {
	w.mu.Lock()
	defer w.mu.Unlock()
	messages := w.ready[0]
	w.ready = w.ready[1:]
	return messages
}

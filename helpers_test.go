package liveactivity_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/leaktest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// These are the secrets of the two products, and other texts that must never appear in an error or
// in the log.
const (
	acmeSecret   = "whs-acme-s3cr3t"
	acmeToken    = "phc_acme_s3cr3t"
	acmeKey      = "lak-acme-s3cr3t" // of both scopes
	acmeMCP      = "mcp-acme-s3cr3t"
	acmeStream   = "stream-acme-s3cr3t"
	globexSecret = "whs-globex-s3cr3t"
	globexToken  = "phc_globex_s3cr3t"
	globexKey    = "lak-globex-s3cr3t"
	adminKey     = "admin-s3cr3t"
	mail         = "ada@example.com"
)

// unspeakable are texts that neither an error nor the log may hold.
var unspeakable = []string{"s3cr3t", mail, "whs_", "lak_", "phc_"}

func productFile() liveactivity.File {
	return liveactivity.File{
		Products: []liveactivity.Product{
			{ProductID: "acme", WebhookSecret: acmeSecret, CaptureTokens: []string{acmeToken}},
			{ProductID: "globex", WebhookSecret: globexSecret, CaptureTokens: []string{globexToken}},
		},
		Keys: []liveactivity.Key{
			{Key: acmeKey, ExternalID: "acme"},
			{Key: acmeMCP, ExternalID: "acme", Scopes: []access.Scope{access.MCP}},
			{Key: acmeStream, ExternalID: "acme", Scopes: []access.Scope{access.Stream}},
			{Key: globexKey, ExternalID: "globex"},
		},
	}
}

// service is a running server and a client of it.
type service struct {
	t       *testing.T
	url     string
	service *liveactivity.Service
	log     *logtest.Buffer
	client  *http.Client
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // of serving, once done
}

// newService returns a service of the two products that does not run.
func newService(log io.Writer, change ...func(*liveactivity.Options)) *liveactivity.Service {
	return musttest.New(liveactivity.New(testOptions(log, change...)))
}

func testOptions(log io.Writer, change ...func(*liveactivity.Options)) *liveactivity.Options {
	file := productFile()
	opts := &liveactivity.Options{Products: file.Products, Keys: file.Keys, AdminKey: adminKey, MaxEvents: 50,
		Heartbeat: time.Minute,
		Retention: eventlog.Retention{TTL: time.Hour, MaxBytes: 1 << 20},
		Logger:    slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(opts)
	}
	return opts
}

// withDataDir keeps everything in a folder.
func withDataDir(dir string) func(*liveactivity.Options) {
	return func(o *liveactivity.Options) {
		o.Log = musttest.New(boltlog.Open(dir, &boltlog.Options{Retention: o.Retention, MaxEvents: o.MaxEvents,
			Logger: o.Logger}))
	}
}

// withRedis keeps everything in Redis.
func withRedis(url string) func(*liveactivity.Options) {
	return func(o *liveactivity.Options) {
		o.Log = musttest.New(redislog.Open(url, &redislog.Options{Retention: o.Retention, MaxEvents: o.MaxEvents,
			Logger: o.Logger}))
	}
}

// release releases a service's log, if it is durable.
func release(o *liveactivity.Options) error {
	if log, ok := o.Log.(interface{ Release() error }); ok {
		return log.Release()
	}
	return nil
}

// running counts the services that have not been checked.
var running atomic.Int64

// start runs a service on a port of its own and stops it at the end of the test. By then it must
// have returned nil, left no goroutine, and kept its secrets.
func start(t *testing.T, change ...func(*liveactivity.Options)) *service {
	t.Helper()
	listener := musttest.New(net.Listen("tcp", "127.0.0.1:0"))
	ctx, cancel := context.WithCancel(context.Background())
	s := &service{t: t, url: "http://" + listener.Addr().String(), log: &logtest.Buffer{}, cancel: cancel,
		done: make(chan struct{}),
		client: &http.Client{
			Transport:     &http.Transport{},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
	opts := testOptions(s.log, append(change, func(o *liveactivity.Options) {
		o.PublicURL = cmp.Or(o.PublicURL, s.url)
	})...)
	s.service = musttest.New(liveactivity.New(opts))
	go func() {
		defer close(s.done)
		s.err = errors.Join(s.service.Serve(ctx, listener), release(opts))
	}()
	running.Add(1)
	t.Cleanup(s.checkStop)
	return s
}

// in returns the service for use in a subtest.
func (s *service) in(t *testing.T) *service {
	sub := *s
	sub.t = t
	return &sub
}

func (s *service) checkStop() {
	s.stop()
	s.client.CloseIdleConnections()
	assert.NoError(s.t, s.err)
	assertSilent(s.t, s.log.String())
	if running.Add(-1) > 0 {
		return // the last one of a test looks
	}
	leaktest.NoneOf(s.t, ofServer...)
}

// stop stops the server and waits until Serve has returned.
func (s *service) stop() {
	s.t.Helper()
	s.cancel()
	waittest.Within(s.t, "Serve", func() { <-s.done })
}

// ofServer are the functions of a server. None of them goes on after the server has stopped.
var ofServer = []string{"liveactivity/liveactivity.", "liveactivity/internal/serve.", "liveactivity/stream.",
	"liveactivity/activity", "net/http.(*conn).serve", "go-sdk/mcp"}

func assertSilent(t *testing.T, text string) {
	t.Helper()
	for _, secret := range unspeakable {
		assert.NotContains(t, text, secret)
	}
}

// reply is an answer of the server.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request with headers given as "Name: value". An answer with an error must have the one
// form of errors.
func (s *service) do(method, path, body string, headers ...string) reply {
	s.t.Helper()
	req := musttest.New(http.NewRequest(method, s.url+path, strings.NewReader(body)))
	setHeaders(req, headers)
	return s.send(req)
}

// send sends a request, with the checks of do.
func (s *service) send(req *http.Request) reply {
	s.t.Helper()
	resp, err := s.client.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	r := reply{resp.StatusCode, resp.Header, string(body)}
	assert.NotEmpty(s.t, resp.Header.Get("X-Request-Id"))
	if r.status >= 400 && req.Method != http.MethodHead {
		r.detail(s.t)
	}
	return r
}

// status sends a request and returns the status of the answer.
func (s *service) status(method, path, body string, headers ...string) int {
	s.t.Helper()
	return s.do(method, path, body, headers...).status
}

// isReady reports whether the server says that it is ready.
func (s *service) isReady() bool { return s.status(http.MethodGet, "/readyz", "") == http.StatusOK }

// ok sends a request that must succeed. As clients do, it repeats one that a busy machine answers
// with 503.
func (s *service) ok(method, path, body string, headers ...string) (r reply) {
	s.t.Helper()
	waittest.Until(s.t, path+" is answered", func() bool {
		r = s.do(method, path, body, headers...)
		return r.status != http.StatusServiceUnavailable
	})
	require.Equal(s.t, http.StatusOK, r.status, r.body)
	return r
}

func setHeaders(req *http.Request, headers []string) {
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Add(name, value)
	}
}

// goWords are words of Go's own errors.
var goWords = []string{"invalid character", "unexpected end", "json:", "strconv", "EOF", "gzip:", "http:", "Unmarshal",
	"goroutine", "0x", "nil"}

// detail checks the form of an error and returns its sentence.
func (r reply) detail(t *testing.T) string {
	t.Helper()
	assert.Equal(t, "application/json", r.header.Get("Content-Type"), "%d %s", r.status, r.body)
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &fields), "%d %s", r.status, r.body)
	detail, ok := fields["detail"].(string)
	require.True(t, ok, "no detail in %s", r.body)
	assert.NotEmpty(t, detail)
	assert.NotContains(t, detail, "\n")
	assertSilent(t, r.body)
	for _, words := range goWords {
		assert.NotContains(t, detail, words, "an error of Go")
	}
	return detail
}

func (r reply) json(t *testing.T) (fields map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.body), &fields), "%d %s", r.status, r.body)
	return fields
}

func bearer(key string) string { return "Authorization: Bearer " + key }

// pageview returns an event of a page view by ada.
func pageview(uuid, session, url string) string {
	return fmt.Sprintf(`{"event":"$pageview","uuid":%q,"distinct_id":"ada","properties":{"$session_id":%q,`+
		`"$current_url":%q},"$set":{"email":%q}}`, uuid, session, url, mail)
}

// webhook posts events to acme's webhook, which must take them.
func (s *service) webhook(body string) {
	s.t.Helper()
	s.ok(http.MethodPost, "/webhook/acme", body, "X-PostHog-Secret: "+acmeSecret)
}

// post posts an event to the webhook of a product that was registered.
func (s *service) post(registered map[string]string, event string) reply {
	s.t.Helper()
	return s.do(http.MethodPost, "/webhook/"+registered["product_id"], event,
		"X-PostHog-Secret: "+registered["webhook_secret"])
}

// lookup returns the live activity of a user of acme.
func (s *service) lookup(user string) map[string]any {
	s.t.Helper()
	return s.ok(http.MethodGet, "/users/acme/"+user+"/live-activity", "", bearer(acmeKey)).json(s.t)
}

// streamReader reads a stream in the background.
type streamReader struct {
	t      *testing.T
	frames chan ssetest.Frame // closed at the end of the stream
	err    error              // why the stream ended, once frames is closed; nil for EOF
}

// stream opens a stream and returns when the server serves it.
func (s *service) stream(path string, headers ...string) *streamReader {
	s.t.Helper()
	req := musttest.New(http.NewRequest(http.MethodGet, s.url+path, nil))
	setHeaders(req, headers)
	resp, err := s.client.Do(req)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { resp.Body.Close() })
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
	require.Equal(s.t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.NotEmpty(s.t, resp.Header.Get("X-Request-Id"))
	r := &streamReader{t: s.t, frames: make(chan ssetest.Frame, 10_000)}
	go r.read(resp.Body)
	return r
}

func (r *streamReader) read(body io.Reader) {
	defer close(r.frames)
	for reader := ssetest.NewReader(body); ; {
		f, err := reader.Next()
		if err != nil {
			if err != io.EOF {
				r.err = err
			}
			return
		}
		r.frames <- f
	}
}

// next returns the next event.
func (r *streamReader) next() (f ssetest.Frame) {
	r.t.Helper()
	ok := false
	waittest.Within(r.t, "the next event", func() { f, ok = <-r.frames })
	require.True(r.t, ok, "the stream has ended: %v", r.err)
	return f
}

// batch is the part of an "actions" event that these tests read.
type batch struct {
	Type      string           `json:"type"`
	ProductID string           `json:"product_id"`
	SessionID string           `json:"session_id"`
	UserID    string           `json:"user_id"`
	Email     string           `json:"email"`
	Count     int              `json:"count"`
	Actions   []map[string]any `json:"actions"`
}

// nextBatch returns the next "actions" event. Between events are heartbeats.
func (r *streamReader) nextBatch() (b batch) {
	r.t.Helper()
	f := r.next()
	for f.Event == "heartbeat" {
		f = r.next()
	}
	require.Empty(r.t, f.Event)
	require.NotEmpty(r.t, f.ID)
	require.NoError(r.t, json.Unmarshal([]byte(f.Data), &b), f.Data)
	return b
}

// rest returns the events up to the end of the stream, which must come.
func (r *streamReader) rest() (frames []ssetest.Frame) {
	r.t.Helper()
	waittest.Within(r.t, "the stream", func() {
		for f := range r.frames {
			frames = append(frames, f)
		}
	})
	require.NoError(r.t, r.err)
	return frames
}

// ask asks a server that does not run.
func ask(s *liveactivity.Service, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	setHeaders(r, headers)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

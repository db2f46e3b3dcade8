package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const productID = "shop"

// service is the real server with one product, and a record of every call from the browser.
type service struct {
	t     *testing.T
	live  *liveactivity.Service
	url   string
	token string // of capture
	key   string

	mu      sync.Mutex
	notes   []call
	streams []net.Conn
}

// call is a request of posthog-js and the status of its answer.
type call struct {
	method, path, query string
	encoding, body      string // the body is decoded
	status              int
}

func startService(t *testing.T, change ...func(*liveactivity.Options)) *service {
	product, key := liveactivity.NewProduct(productID)
	product.Events = liveactivity.EventRules{"Added": {}, "Left": {}}
	opts := &liveactivity.Options{
		Products: []liveactivity.Product{product}, Keys: []liveactivity.Key{key},
		Heartbeat: time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	for _, change := range change {
		change(opts)
	}
	s := &service{t: t, token: opts.Products[0].CaptureTokens[0], key: opts.Keys[0].Key}
	var err error
	s.live, err = liveactivity.New(opts)
	require.NoError(t, err)
	web := httptest.NewUnstartedServer(s.noting(s.live.Handler()))
	web.Config.ConnState = s.keep
	web.Start()
	t.Cleanup(web.Close)
	t.Cleanup(s.explain)
	s.url = web.URL
	return s
}

// keep keeps the connections of streams, which the server takes over from net/http.
func (s *service) keep(conn net.Conn, state http.ConnState) {
	if state == http.StateHijacked {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams = append(s.streams, conn)
	}
}

// cut cuts all streams.
func (s *service) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.streams {
		_ = conn.Close() // some have ended by now
	}
}

// explain logs the browser's calls when the test has failed.
func (s *service) explain() {
	if !s.t.Failed() {
		return
	}
	for _, c := range s.calls() {
		s.t.Logf("%s %s?%s: %d %s %q", c.method, c.path, c.query, c.status, c.form(), c.events())
	}
}

// noting records every request without the key. These are the requests of PostHog's SDKs.
func (s *service) noting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+s.key {
			next.ServeHTTP(w, r)
			return
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return // a browser that leaves a page breaks off its requests
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		c := call{method: r.Method, path: r.URL.Path, query: r.URL.RawQuery}
		c.encoding, c.body = decode(raw)
		next.ServeHTTP(answer, r)
		c.status = answer.status
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notes = append(s.notes, c)
	})
}

// startSite starts a site and returns its origin. It has the files at their paths, and the page
// everywhere else.
func startSite(t *testing.T, files map[string]string, page http.HandlerFunc) (origin string) {
	mux := http.NewServeMux()
	for path, file := range files {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	}
	mux.Handle("/", page)
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	return site.URL
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// decode returns the text of a body and its encoding.
func decode(raw []byte) (encoding, body string) {
	if packed, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
		plain, _ := io.ReadAll(packed)
		return "gzip", string(plain)
	}
	if strings.HasPrefix(string(raw), "data=") {
		form, _ := url.ParseQuery(string(raw))
		plain, _ := base64.StdEncoding.DecodeString(form.Get("data"))
		return "form", string(plain)
	}
	return "json", string(raw)
}

// calls returns the browser's calls so far.
func (s *service) calls() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notes)
}

// checkOnce checks that no event was sent twice.
func (s *service) checkOnce(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range s.calls() {
		assert.NotContains(t, c.query, "retry_count")
		for _, id := range c.uuids() {
			assert.False(t, seen[id], "event %s came twice", id)
			seen[id] = true
		}
	}
}

// awaitEvent waits until an event of that name got its answer.
func (s *service) awaitEvent(name string) {
	s.t.Helper()
	brings := func(c call) bool { return slices.Contains(c.events(), name) }
	waittest.Until(s.t, name+" is answered", func() bool { return slices.ContainsFunc(s.calls(), brings) })
}

// form returns the form in which the call brings events, or "" if it brings none.
func (c call) form() string {
	switch {
	case len(c.events()) == 0:
		return ""
	case strings.HasPrefix(c.body, "["):
		return c.encoding + " array"
	case strings.Contains(c.body, `"batch":[`):
		return c.encoding + " batch"
	}
	return c.encoding + " event"
}

var (
	eventField = regexp.MustCompile(`"event":"([^"]+)"`)
	uuidField  = regexp.MustCompile(`"uuid":"([^"]+)"`)
)

// events returns the names of the events that the call brings.
func (c call) events() []string { return values(eventField, c.body) }

// uuids returns the events' IDs.
func (c call) uuids() []string { return values(uuidField, c.body) }

func values(field *regexp.Regexp, body string) (values []string) {
	for _, match := range field.FindAllStringSubmatch(body, -1) {
		values = append(values, match[1])
	}
	return values
}

// answer returns the answer to a request, which must have status 200.
func (s *service) answer(method, path, body, authorization string) string {
	s.t.Helper()
	response, err := s.do(s.t.Context(), method, path, body, authorization)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode, string(text))
	return string(text)
}

func (s *service) get(path string) string {
	s.t.Helper()
	return s.answer(http.MethodGet, path, "", "Bearer "+s.key)
}

func (s *service) do(ctx context.Context, method, path, body, authorization string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", authorization)
	r.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(r)
}

// lookup returns a user's live activity and its JSON.
func (s *service) lookup(userID string) (a recent.LiveActivity, raw string) {
	s.t.Helper()
	raw = s.get("/users/" + productID + "/" + url.PathEscape(userID) + "/live-activity")
	require.NoError(s.t, json.Unmarshal([]byte(raw), &a))
	return a, raw
}

// await waits until the user's live activity has that many actions.
func (s *service) await(userID string, count int) {
	s.t.Helper()
	waittest.Until(s.t, fmt.Sprintf("%s has %d actions", userID, count), func() bool {
		a, _ := s.lookup(userID)
		return a.Count >= count
	})
}

// reader reads the product's stream from its opening.
type reader struct {
	mu      sync.Mutex
	batches []activity.Batch
	text    strings.Builder
}

// startReader opens the stream, perhaps with a query, and returns when it is open.
func (s *service) startReader(query ...string) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	response, err := s.do(ctx, http.MethodGet, "/stream/"+productID+strings.Join(query, ""), "", "Bearer "+s.key)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode)
	rd, done := &reader{}, make(chan struct{})
	go func() {
		defer close(done)
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			rd.take(s.t, lines.Text())
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
	return rd
}

// take reads a line. Heartbeats are empty objects.
func (rd *reader) take(t *testing.T, line string) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.text.WriteString(line + "\n")
	data, ok := strings.CutPrefix(line, "data: ")
	if !ok || data == "{}" {
		return
	}
	var b activity.Batch
	assert.NoError(t, json.Unmarshal([]byte(data), &b), data)
	rd.batches = append(rd.batches, b)
}

// await waits until so many actions of a user have come, or of any user for "", and returns them.
func (rd *reader) await(t *testing.T, user string, count int) (actions []activity.BatchAction) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%d actions are streamed", count), func() bool {
		actions = nil
		batches, _ := rd.read()
		for _, b := range batches {
			actions = append(actions, b.Actions...)
		}
		actions = slices.DeleteFunc(actions, func(a activity.BatchAction) bool { return user != "" && a.UserID != user })
		return len(actions) >= count
	})
	return actions
}

// awaitBatches waits until so many batches have come, and returns them.
func (rd *reader) awaitBatches(t *testing.T, count int) (batches []activity.Batch) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%d batches are streamed", count), func() bool {
		batches, _ = rd.read()
		return len(batches) >= count
	})
	return batches
}

// read returns the batches so far and every line of the stream.
func (rd *reader) read() ([]activity.Batch, string) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return slices.Clone(rd.batches), rd.text.String()
}

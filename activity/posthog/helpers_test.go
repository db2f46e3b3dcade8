package posthog_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// The products of the tests. The captures carry the token of the shop.
const (
	shop       = "shop"
	shopToken  = "phc_test_token"
	shopSecret = "shop-webhook-secret"

	bank       = "bank"
	bankToken  = "phc_bank_token"
	bankSecret = "bank-webhook-secret"
	bankOrigin = "https://bank.example"

	closed = "closed" // takes no webhooks
)

// bankOrigins are the origins of the bank's pages.
var bankOrigins = []string{bankOrigin, "https://*.bank.example", "null", "capacitor://localhost"}

// product is a product that the handler knows, with its tokens.
type product struct {
	intake.Product
	tokens []string
}

type catalogue map[string]product

func (c catalogue) ProductOfID(productID string) (intake.Product, bool, error) {
	p, ok := c[productID]
	return p.Product, ok, nil
}

func (catalogue) Refresh(string) error { return nil }

func (c catalogue) ProductOfToken(token string) (string, bool, error) {
	for id, p := range c {
		if slices.Contains(p.tokens, token) {
			return id, true, nil
		}
	}
	return "", false, nil
}

// longestToken is a token of the shop of the greatest length allowed.
var longestToken = strings.Repeat("l", intake.MaxToken-1)

// The shop's identity secrets.
const shopSigns, shopSignsToo = "shop-signs", "shop-signs-too"

var products = catalogue{
	shop: {intake.Product{WebhookSecret: shopSecret, IdentitySecrets: []string{shopSigns, shopSignsToo}},
		[]string{shopToken, longestToken, "phc_shop_second_token"}},
	bank: {intake.Product{WebhookSecret: bankSecret, AllowedOrigins: bankOrigins, RespectGPC: true},
		[]string{bankToken}},
	closed: {intake.Product{}, []string{"phc_closed_token"}},
}

// sink keeps the events it receives, with their settled times, or fails with err.
type sink struct {
	mu     sync.Mutex
	docs   document.Store
	ttl    time.Duration
	events map[string][]activity.Event // by product, without their standings
	stand  []activity.Event            // all, as they came
	err    error
}

func (s *sink) Record(ctx context.Context, productID string, events []activity.Event) (activity.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return activity.Result{}, s.err
	}
	s.stand = append(s.stand, events...)
	if s.events == nil {
		s.events = map[string][]activity.Event{}
	}
	settled, err := s.settle(ctx, productID, events)
	s.events[productID] = append(s.events[productID], settled...)
	return activity.Result{Accepted: len(settled), Expired: len(events) - len(settled)}, err
}

// settle gives the events their times and returns them as they came.
func (s *sink) settle(ctx context.Context, productID string,
	events []activity.Event) (settled []activity.Event, err error) {
	book := musttest.New(directory.New(s.docs, s.ttl)).Book(productID)
	if err = book.Open(ctx, events); err != nil {
		return nil, err
	}
	for _, e := range events {
		timed, _ := book.Settle(e.SessionID, []activity.Event{e})
		for _, e := range timed {
			e.Sent, e.Received, e.ServerTime = time.Time{}, time.Time{}, false
			e.Standing, e.EmailStanding = 0, 0 // which the doors give
			settled = append(settled, e)
		}
	}
	_, err = s.docs.Write(ctx, productID, book.Changes()...)
	return settled, err
}

// take returns the product's events since the last call.
func (s *sink) take(productID string) []activity.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events[productID]
	delete(s.events, productID)
	return events
}

func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// service is a handler mounted as its documentation says.
type service struct {
	sink    *sink
	metrics *prometheus.Registry
	mux     *http.ServeMux
}

func newService(opts intake.Options) *service {
	s := &service{sink: &sink{docs: musttest.New(document.NewMemory(nil))}, metrics: prometheus.NewRegistry()}
	opts.Metrics = s.metrics
	return s.mount(musttest.New(intake.New(s.sink, products, &opts)))
}

func (s *service) mount(in *intake.Intake) *service {
	s.mux = http.NewServeMux()
	s.mux.Handle("POST /webhook/{product_id}", in.Webhook(posthog.Source))
	s.mux.HandleFunc("/", posthog.New(in).ServeSDK)
	return s
}

// door is a way in: the path that a body is posted to, and the headers it takes.
type door struct {
	name, path string
	header     http.Header
}

var (
	captureDoor = door{"capture", "/e/", nil}
	webhookDoor = door{"webhook", "/webhook/" + shop, http.Header{"X-Posthog-Secret": {shopSecret}}}
	doors       = []door{captureDoor, webhookDoor}
)

// post sends a body through a door; header pairs are added to the door's own.
func (s *service) post(d door, body []byte, header ...string) *httptest.ResponseRecorder {
	return s.send(http.MethodPost, d, bytes.NewReader(body), header...)
}

func (s *service) send(method string, d door, body io.Reader, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, d.path, body)
	for key, values := range d.header {
		r.Header[key] = values
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	return w
}

// reply is an answer of 200.
type reply struct {
	Status   any
	Accepted int
	Ignored  int
	Reasons  map[string]int
}

func requireOK(t testing.TB, w *httptest.ResponseRecorder) reply {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var a reply
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a))
	return a
}

// requireCounts asserts an answer of 200 with these counts.
func requireCounts(t testing.TB, w *httptest.ResponseRecorder, accepted, ignored int) {
	t.Helper()
	a := requireOK(t, w)
	require.Equal(t, [2]int{accepted, ignored}, [2]int{a.Accepted, a.Ignored}, "accepted, ignored")
}

// leaks are texts that no client may read: the words of Go errors, and secrets.
var leaks = []string{"json:", "gzip:", "flate:", "http:", "base64 data at", "EOF", "invalid character",
	"unmarshal", "Go ",
	"unexpected end", "goroutine", "0x", "strconv", "sink", shopSecret, bankSecret, shopToken, bankToken}

// requireError asserts an error in the form of every error, and returns its sentence.
func requireError(t testing.TB, w *httptest.ResponseRecorder, status int) string {
	t.Helper()
	detail := httpxtest.Detail(t, status, w.Result())
	require.Regexp(t, `^[A-Z].*\.$`, detail, "the detail is a sentence")
	for _, leak := range leaks {
		require.NotContains(t, detail, leak)
	}
	return detail
}

// requireOneEvent asserts that the shop got one event, and returns it.
func (s *service) requireOneEvent(t testing.TB) activity.Event {
	t.Helper()
	events := s.sink.take(shop)
	require.Len(t, events, 1)
	return events[0]
}

// eventOf posts one event through a door to a new service and returns the shop's event.
func eventOf(t testing.TB, d door, body any) activity.Event {
	t.Helper()
	s := newService(intake.Options{})
	requireCounts(t, s.post(d, marshal(t, body)), 1, 0)
	return s.requireOneEvent(t)
}

// requireIgnored posts one event and asserts that it has no effect.
func requireIgnored(t testing.TB, d door, body any) {
	t.Helper()
	s := newService(intake.Options{})
	requireCounts(t, s.post(d, marshal(t, body)), 0, 1)
	assert.Empty(t, s.sink.take(shop))
}

// counted returns liveactivity_events_total by outcome and reason.
func (s *service) counted(t testing.TB) map[string]float64 {
	t.Helper()
	return metricstest.By(t, s.metrics, "liveactivity_events_total", "outcome", "reason")
}

// refused returns how many requests of each product were refused for their origin.
func (s *service) refused(t testing.TB) map[string]float64 {
	t.Helper()
	return metricstest.By(t, s.metrics, "liveactivity_refused_origins_total", "product_id")
}

// at runs f in a bubble whose clock stands at the given time.
func at(t *testing.T, now time.Time, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		f(t)
	})
}

// atNoon runs a subtest in a bubble whose clock stands at noon.
func atNoon(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { at(t, noon, f) })
}

// noon is when most tests take place.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// object is a JSON object.
type object = map[string]any

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := jsontext.Marshal(v)
	require.NoError(t, err)
	return b
}

// click returns a click of user_42 at the present time, with these changes to the event ("uuid") or
// to its properties ("properties.$el_text"). Nil deletes.
func click(changes object) object {
	e := object{
		"uuid": "01a1f851-2c65-7a00-ad66-57cc46b02182", "event": "$autocapture",
		"properties": object{
			"distinct_id": "user_42", "token": shopToken, "$session_id": "session-1",
			"$current_url": "https://app.example.com/dashboard", "$event_type": "click", "$el_text": "Export CSV",
			"$elements_chain": `button:nth-child="1"nth-of-type="1"text="Export CSV";body:nth-child="2"nth-of-type="1"`,
		},
	}
	for path, value := range changes {
		target, key := e, path
		if name, ok := strings.CutPrefix(path, "properties."); ok {
			target, key = e["properties"].(object), name
		}
		if value == nil {
			delete(target, key)
		} else {
			target[key] = value
		}
	}
	return e
}

// compressors are used again, since each takes a megabyte.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// gzipped returns b compressed.
func gzipped(b []byte) []byte {
	var out bytes.Buffer
	zw := compressors.Get().(*gzip.Writer)
	defer compressors.Put(zw)
	zw.Reset(&out)
	_, err := zw.Write(b)
	if err = errors.Join(err, zw.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	return out.Bytes()
}

// testdata returns the content of a file.
func testdata(t testing.TB, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	require.NoError(t, err)
	return b
}

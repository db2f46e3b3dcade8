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
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// The products of the tests. The captures carry the token of the shop, and the bank has a list of origins.
const (
	shop, shopToken, shopSecret = "shop", "phc_test_token", "shop-webhook-secret"
	bank, bankToken, bankOrigin = "bank", "phc_bank_token", "https://bank.example"
)

// catalogue is products by their IDs.
type catalogue map[string]intake.Product

func (c catalogue) ProductOfID(productID string) (intake.Product, bool, error) {
	p, ok := c[productID]
	return p, ok, nil
}

func (catalogue) Refresh(string) error { return nil }

func (c catalogue) ProductOfToken(token string) (string, bool, error) {
	productID, ok := map[string]string{shopToken: shop, bankToken: bank}[token]
	return productID, ok, nil
}

// sink keeps the events it receives.
type sink struct {
	events map[string][]activity.Event // by product
}

func (s *sink) Record(_ context.Context, productID string, events []activity.Event) (activity.Result, error) {
	s.events[productID] = append(s.events[productID], events...)
	return activity.Result{Accepted: len(events)}, nil
}

// take returns the product's events since the last call.
func (s *sink) take(productID string) []activity.Event {
	events := s.events[productID]
	delete(s.events, productID)
	return events
}

// service is a handler mounted as its documentation says.
type service struct {
	sink *sink
	mux  *http.ServeMux
}

func newService() *service {
	s := &service{sink: &sink{map[string][]activity.Event{}}}
	return s.mount(s.sink, catalogue{shop: {WebhookSecret: shopSecret}, bank: {AllowedOrigins: []string{bankOrigin}}})
}

func (s *service) mount(sink activity.Sink, products catalogue) *service {
	in := musttest.New(intake.New(sink, products, &intake.Options{MaxDecoded: 2 << 20}))
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
	Status any
	intake.Counts
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

// meaningOf returns the meaning of a body's one event, which came by a door at noon.
func meaningOf(t testing.TB, d door, body any) (meaning intake.Meaning) {
	t.Helper()
	from := intake.Request{Arrived: noon, Webhook: d.name == webhookDoor.name}
	n := musttest.New(posthog.Source.Decode(marshal(body), from, func(m *intake.Meaning) { meaning = *m }))
	require.Equal(t, 1, n)
	return meaning
}

// eventOf returns the event of a body, which is not ignored.
func eventOf(t testing.TB, d door, body any) activity.Event {
	t.Helper()
	m := meaningOf(t, d, body)
	require.Empty(t, m.Reason)
	return m.Event
}

// requireIgnored asserts that the event of a body is ignored.
func requireIgnored(t testing.TB, d door, body any) {
	t.Helper()
	require.NotEmpty(t, meaningOf(t, d, body).Reason)
}

// noon is when most tests take place.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// atNoon runs f in a bubble whose clock stands at noon.
func atNoon(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(noon))
		f(t)
	})
}

// object is a JSON object.
type object = map[string]any

func marshal(v any) []byte {
	return musttest.New(jsontext.Marshal(v))
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

// gzipped returns b compressed.
func gzipped(b []byte) []byte {
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	_, err := zw.Write(b)
	if err = errors.Join(err, zw.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	return out.Bytes()
}

// testdata returns the content of a file.
func testdata(path ...string) []byte {
	return musttest.New(os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...)))
}

// requireQuick asserts that f takes less processor time than a limit. The limit leaves room for a
// slow machine, but not for an algorithm that reads its input over and over.
func requireQuick(t testing.TB, limit time.Duration, f func()) {
	t.Helper()
	start := cpuTime()
	f()
	require.Less(t, cpuTime()-start, limit)
}

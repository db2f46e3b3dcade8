package intake_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// event is an event of the tests' vendor.
type event struct {
	intake.Span
	intake.Proof
	ID      string `in:"id,scalar"`
	Name    string `in:"name"`
	User    string `in:"user,scalar"`
	Visitor string `in:"visitor,scalar"`
	Session string `in:"session,scalar"`
	Email   string `in:"email"`
	URL     string `in:"url,url"`
	Time    string `in:"time,scalar"`
	Stays   bool   `in:"stays"` // seeks no session
	Token   string `in:"token,token"`
}

var fields = intake.FieldsOf[event]()

// decoder decodes the vendor's events. It prefixes their IDs.
type decoder struct {
	*intake.Reader
	prefix string
	event
}

func (d *decoder) Next() (token string) {
	d.event = event{}
	d.Event(&d.ID, func() { fields.Read(d.Reader, &d.event) })
	return d.Token
}

func (d *decoder) Meaning(from *intake.Request, m *intake.Meaning) {
	m.Key, m.Proof, m.SeeksSession = d.ID, d.Proof, !d.Stays
	m.Event = intake.Who(d.prefix+d.ID, d.User, d.Visitor, d.Email)
	m.SessionID = cmp.Or(intake.UnsharedID(intake.Trimmed(d.Session)), m.SessionID)
	name := cmp.Or(d.Name, from.Kind)
	rule := from.Events.Find(name)
	switch {
	case name == "identify":
		m.NameVisitor()
	case name == "erase":
		m.Erases = true
		return
	case rule != nil:
		m.Action = rule.Action(name, d.Reader, d.Span, d.URL)
	default:
		m.Reason = intake.ReasonOther
	}
	m.ServerTime = from.Webhook
	m.Finish(from, d.Time, from.SentAt)
}

// sourceOf returns a source of the vendor's.
func sourceOf(form intake.Form, prefix string) *intake.Source {
	form.Batch, form.Tokens, form.SentAt = "events", [2]string{"key", "token"}, "sent"
	return intake.NewSource(form, func(r *intake.Reader) intake.Decoder { return &decoder{Reader: r, prefix: prefix} })
}

var source = sourceOf(intake.Form{}, "")

// The products of the tests, with their tokens and secrets.
const (
	shop, shopToken, shopSecret, shopSigns = "shop", "shop-token", "shop-secret", "shop-signs"
	bank, bankToken, bankSecret            = "bank", "bank-token", "bank-secret"
	closed                                 = "closed" // takes no webhooks
)

// longestToken is a token of the shop of the greatest length allowed.
var longestToken = strings.Repeat("l", intake.MaxToken-1)

// bankOrigins are the origins of the bank's pages.
var bankOrigins = []string{"https://bank.example", "https://*.bank.example", "null", "capacitor://localhost"}

// catalogue is the tests' products. It counts its calls, and may fail.
type catalogue struct {
	mu       sync.Mutex
	products map[string]intake.Product
	tokens   map[string]string // the products' IDs
	calls    map[string]int    // by method and argument
	fails    map[string]error  // by method, or by method and argument
	refresh  func()            // changes the products; may be nil
}

func newCatalogue() *catalogue {
	listed := intake.NewEvents(intake.Rules{"view": {Properties: []string{"plan"}}})
	return &catalogue{calls: map[string]int{}, fails: map[string]error{}, products: map[string]intake.Product{
		shop: {WebhookSecret: shopSecret, IdentitySecrets: []string{"older", shopSigns}, Events: listed,
			Sources: map[string]*intake.Source{"own": sourceOf(intake.Form{}, "own ")}},
		bank:   {WebhookSecret: bankSecret, AllowedOrigins: bankOrigins, RespectGPC: true, Events: listed},
		closed: {Events: listed},
	}, tokens: map[string]string{shopToken: shop, "shop-second": shop, longestToken: shop, bankToken: bank}}
}

// called counts a call and returns its error. The caller must hold the lock.
func (c *catalogue) called(method, argument string) error {
	c.calls[method+" "+argument]++
	return cmp.Or(c.fails[method+" "+argument], c.fails[method])
}

func (c *catalogue) ProductOfID(productID string) (intake.Product, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.products[productID]
	return p, ok, c.called("ProductOfID", productID)
}

func (c *catalogue) ProductOfToken(token string) (string, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	productID, ok := c.tokens[token]
	return productID, ok, c.called("ProductOfToken", token)
}

func (c *catalogue) Refresh(productID string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refresh != nil {
		c.refresh()
	}
	return c.called("Refresh", productID)
}

// sink keeps the events it receives, or fails with err.
type sink struct {
	mu     sync.Mutex
	events map[string][]activity.Event // by product
	lost   activity.Result             // of the next events, those that are not accepted
	err    error
	before activity.Result // that error
}

func (s *sink) Record(ctx context.Context, productID string, events []activity.Event) (activity.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(s.err, ctx.Err()); err != nil {
		return s.before, err
	}
	s.events[productID] = append(s.events[productID], events...)
	r := s.lost
	r.Accepted = len(events) - r.Duplicate - r.Expired - r.Repeated - r.Unmarked
	return r, nil
}

// take returns the product's events since the last call.
func (s *sink) take(productID string) []activity.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events[productID]
	delete(s.events, productID)
	return events
}

// ids returns the IDs of the product's events since the last call.
func (s *sink) ids(productID string) (ids []string) {
	for _, e := range s.take(productID) {
		ids = append(ids, e.ID)
	}
	return ids
}

// service is an intake with the vendor's paths. Its functions may be nil.
type service struct {
	sink     *sink
	products *catalogue
	metrics  *prometheus.Registry
	mux      *http.ServeMux
	outlined func(fields map[string]string)
	taken    func(*intake.Meaning)
}

func newService(opts intake.Options) *service {
	s := &service{sink: &sink{events: map[string][]activity.Event{}}, products: newCatalogue(),
		metrics: prometheus.NewRegistry(), mux: http.NewServeMux()}
	opts.Metrics = s.metrics
	in := musttest.New(intake.New(s.sink, s.products, &opts))
	special := sourceOf(intake.Form{Recognizes: func(fields map[string]string) bool {
		if s.outlined != nil {
			s.outlined(fields)
		}
		return fields["special"] != ""
	}}, "special ")
	webhook := in.Webhook(special, source)
	s.mux.Handle("POST /webhook/{product_id}", webhook)
	s.mux.Handle("POST /webhook/{product_id}/{source}", webhook)
	s.mux.Handle("POST /misplaced", webhook)
	route := func(method, path string, serve httpx.Handler) {
		s.mux.Handle(path, intake.Route{Method: method, Serve: serve})
	}
	capture := func(w http.ResponseWriter, r *http.Request, call intake.Call) error {
		call.Kind, call.Taken = r.URL.Query().Get("kind"), s.taken
		call.QuerySentAt, call.SentAt = r.URL.Query().Get("sent"), r.Header.Get("X-Sent")
		counts, err := in.Capture(w, r, source, call)
		if err == nil {
			httpx.WriteJSON(w, http.StatusOK, counts)
		}
		return err
	}
	route("POST", "/events", func(w http.ResponseWriter, r *http.Request) error {
		return capture(w, r, intake.Call{Token: r.Header.Get("X-Token")})
	})
	route("POST", "/v1", func(w http.ResponseWriter, r *http.Request) error {
		return capture(w, r, intake.Call{Token: r.Header.Get("X-Token"), Scheme: "Bearer"})
	})
	route("POST", "/discard", func(w http.ResponseWriter, r *http.Request) error {
		return in.Discard(w, r, source, in.MaxDecoded())
	})
	route("GET", "/config", func(w http.ResponseWriter, r *http.Request) error {
		return in.CheckToken(w, r, r.URL.Query().Get("token"))
	})
	s.mux.Handle("/", intake.Route{})
	return s
}

// send sends a request with pairs of headers; a repeated name adds a value.
func (s *service) send(method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	return w
}

// capture posts a body whose token is in it.
func (s *service) capture(body string, header ...string) *httptest.ResponseRecorder {
	return s.send(http.MethodPost, "/events", body, header...)
}

// webhook posts a body to the shop's webhook, with the secret unless there is an X-Webhook-Secret.
func (s *service) webhook(body string, header ...string) *httptest.ResponseRecorder {
	if !slices.Contains(header, "X-Webhook-Secret") {
		header = append(header, "X-Webhook-Secret", shopSecret)
	}
	return s.send(http.MethodPost, "/webhook/"+shop, body, header...)
}

// doors are the ways in for a body with the shop's token.
var doors = map[string]func(s *service, body string, header ...string) *httptest.ResponseRecorder{
	"capture": (*service).capture, "webhook": (*service).webhook,
}

// fieldsOf are fields of an event; nil removes one.
type fieldsOf = map[string]any

// view returns the JSON of a view by Ada in her session with the shop's token, with these changes.
func view(changes fieldsOf) string {
	e := fieldsOf{"id": "1", "name": "view", "user": "ada", "session": "s1", "url": "https://x.example/billing",
		"token": shopToken}
	maps.Copy(e, changes)
	maps.DeleteFunc(e, func(_ string, value any) bool { return value == nil })
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// batch returns the JSON of events with a token.
func batch(token string, events ...string) string {
	return fmt.Sprintf(`{"key":%q,"events":[%s]}`, token, strings.Join(events, ","))
}

// requireCounts asserts an answer of 200 with these counts, and that the reasons add up.
func requireCounts(t testing.TB, w *httptest.ResponseRecorder, accepted int, reasons intake.Ignored) {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var got, want intake.Counts
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	want = intake.Counts{Accepted: accepted, Reasons: reasons}
	for _, n := range reasons {
		want.Ignored += n
	}
	require.Equal(t, want, got)
}

// leaks are texts that no client may read: the words of Go errors, secrets, and the body.
var leaks = []string{"json:", "gzip:", "flate:", "http:", "base64 data at", "EOF", "invalid character", "unmarshal",
	"Go ", "unexpected end", "goroutine", "0x", "strconv", "sink", "dial", shopSecret, bankSecret,
	shopToken, bankToken, "ada"}

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

// eventOf returns the shop's event that a body brings, by a door of a new service.
func eventOf(t testing.TB, door, body string) activity.Event {
	t.Helper()
	s := newService(intake.Options{})
	requireCounts(t, doors[door](s, body), 1, nil)
	events := s.sink.take(shop)
	require.Len(t, events, 1)
	return events[0]
}

// counted returns liveactivity_events_total by outcome and reason.
func (s *service) counted(t testing.TB) map[string]float64 {
	t.Helper()
	return metricstest.By(t, s.metrics, "liveactivity_events_total", "outcome", "reason")
}

// decode returns the meaning of one event.
func decode(json string, from intake.Request) (meaning intake.Meaning) {
	musttest.New(source.Decode([]byte(json), from, func(m *intake.Meaning) { meaning = *m }))
	return meaning
}

func gzipped(text string) string {
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	_, _ = zw.Write([]byte(text)) // a buffer takes everything
	_ = zw.Close()
	return out.String()
}

// noon is when events without a time of their own arrive.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

package posthog

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Defaults of [Options].
const (
	DefaultMaxBody    = 1 << 20 // bytes of a request body as it arrives
	DefaultMaxDecoded = 8 << 20 // bytes of a request body unpacked
)

// Products tells the handler which products there are. Its methods are called
// for every request, concurrently. An error means that it cannot be told just
// now: the request is answered 503.
type Products interface {
	// WebhookSecret returns the secret that webhooks of the product carry,
	// empty when it takes none, and whether there is such a product.
	WebhookSecret(productID string) (secret string, ok bool, err error)
	// ProductOfToken returns the product that a project token belongs to.
	ProductOfToken(token string) (productID string, ok bool, err error)
}

// Options of a [Handler]; a zero field means its default.
type Options struct {
	TTL        time.Duration         // events older than this are ignored; activity.DefaultTTL
	MaxBody    int64                 // DefaultMaxBody
	MaxDecoded int64                 // DefaultMaxDecoded
	Metrics    prometheus.Registerer // where liveactivity_events_total is registered; nil for nowhere
}

// Handler takes events from PostHog and hands them to a sink. Its methods are
// safe for concurrent use. Every answer is JSON; 200 means that the sink has
// what the request brought.
type Handler struct {
	sink     activity.Sink
	products Products
	opts     Options
	clocks   *clocks
	events   *prometheus.CounterVec
}

// NewHandler returns a handler; opts may be nil.
func NewHandler(sink activity.Sink, products Products, opts *Options) *Handler {
	h := &Handler{sink: sink, products: products, clocks: newClocks(), events: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liveactivity_events_total",
		Help: "Events received, by what became of them and, where they were ignored, why.",
	}, []string{"product_id", "outcome", "reason"})}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.TTL <= 0 {
		h.opts.TTL = activity.DefaultTTL
	}
	if h.opts.MaxBody <= 0 {
		h.opts.MaxBody = DefaultMaxBody
	}
	if h.opts.MaxDecoded <= 0 {
		h.opts.MaxDecoded = DefaultMaxDecoded
	}
	if h.opts.Metrics != nil {
		h.opts.Metrics.MustRegister(h.events)
	}
	return h
}

// ServeWebhook takes the requests of PostHog's webhook destinations. It must be
// mounted under POST /webhook/{product_id}. The X-PostHog-Secret header must
// hold the product's secret, or "sha256=" and the hexadecimal HMAC-SHA256 of
// the body under it.
func (h *Handler) ServeWebhook(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(h.webhook).ServeHTTP(w, r)
}

func (h *Handler) webhook(w http.ResponseWriter, r *http.Request) error {
	productID := r.PathValue("product_id")
	secret, ok, err := h.products.WebhookSecret(productID)
	if err != nil {
		return httpx.Unavailable(err)
	}
	if !ok {
		return httpx.NotFound("There is no such product.")
	}
	body, err := httpx.ReadBody(w, r, h.opts.MaxBody)
	if err != nil {
		return err
	}
	if !verify(secret, r.Header.Get("X-PostHog-Secret"), body) {
		return httpx.Unauthorized("The X-PostHog-Secret header is missing or wrong.", "")
	}
	if body, err = plain(body, r.Header.Get("Content-Encoding"), h.opts.MaxDecoded); err != nil {
		return err
	}
	req, err := readRequest(body)
	if err != nil {
		return err
	}
	counts, err := h.record(r, productID, req)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, answer{Status: "ok", counts: counts})
	return nil
}

// verify checks the secret header in constant time. An empty secret fits nothing.
func verify(secret, header string, body []byte) bool {
	if secret == "" || header == "" {
		return false
	}
	if signature, ok := strings.CutPrefix(header, "sha256="); ok {
		got, err := hex.DecodeString(signature)
		if err == nil && hmac.Equal(got, Sign(secret, body)) {
			return true
		}
	}
	want, got := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(header))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// Sign returns the HMAC-SHA256 of a webhook body under the product's secret.
// In hexadecimal, after "sha256=", it goes into the X-PostHog-Secret header.
func Sign(secret string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

// answer is the body of 200. Status is "ok" for webhooks and 1 for SDKs, which
// is what posthog-js expects.
type answer struct {
	Status any `json:"status"`
	counts
}

// counts tells what became of a request's events. Duplicates are ignored too.
type counts struct {
	Accepted int `json:"accepted"`
	Ignored  int `json:"ignored"`
}

// request is a body taken apart, before anything in it is judged.
type request struct {
	env    envelope
	events []pending
}

// pending is an event whose time has yet to be corrected: that takes sent_at,
// which stands behind the events.
type pending struct {
	activity.Event
	token  string
	time   timing
	reason string // for ignoring it, or ""
}

func readRequest(body []byte) (*request, error) {
	req := &request{}
	env, err := readPayload(body, func(e *event) {
		p := pending{}
		if p.Event, p.reason = translate(e); e != nil {
			p.token = e.token()
			p.time = timing{e.Timestamp, e.SentAt, e.Offset}
		}
		req.events = append(req.events, p)
	})
	req.env = env
	return req, err
}

// token returns the project token of the request: its own, or else the first
// that an event carries.
func (req *request) token() string {
	if token := first(req.env.APIKey, req.env.Token); token != "" {
		return token
	}
	for _, p := range req.events {
		if p.token != "" {
			return p.token
		}
	}
	return ""
}

// record hands the request's good events to the sink and counts the rest.
func (h *Handler) record(r *http.Request, productID string, req *request) (counts, error) {
	now := time.Now()
	events := make([]activity.Event, 0, len(req.events))
	ignored := map[string]int{}
	for _, p := range req.events {
		if p.reason == "" {
			p.reason = h.settle(&p, productID, req.env.SentAt, now)
		}
		if p.reason != "" {
			ignored[p.reason]++
			continue
		}
		events = append(events, p.Event)
	}
	result, err := h.sink.Record(r.Context(), productID, events)
	if err != nil {
		return counts{}, httpx.Unavailable(err)
	}
	h.events.WithLabelValues(productID, "accepted", "").Add(float64(result.Accepted))
	h.events.WithLabelValues(productID, "duplicate", "").Add(float64(result.Duplicate))
	for reason, n := range ignored {
		h.events.WithLabelValues(productID, "ignored", reason).Add(float64(n))
	}
	return counts{Accepted: result.Accepted, Ignored: len(req.events) - result.Accepted}, nil
}

// settle gives the event its time, and returns the reason for ignoring it after
// all. The correction for the sender's clock is PostHog's own, see
// https://posthog.com/docs/api/capture, but steadier; see [clocks].
func (h *Handler) settle(p *pending, productID string, sentAt text, now time.Time) string {
	var correction time.Duration
	if shown, ok := p.time.shift(sentAt, now); ok {
		correction = h.clocks.correction(productID, p.SessionID, shown)
	}
	t, ok := p.time.at(correction, now)
	if !ok {
		return reasonMalformed
	}
	if p.Time = t; now.Sub(t) > h.opts.TTL {
		return reasonExpired
	}
	return ""
}

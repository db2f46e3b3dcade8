package posthog

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Defaults of [Options].
const (
	DefaultMaxBody    = 1 << 20 // bytes of a request body as it arrives
	DefaultMaxDecoded = 8 << 20 // bytes of a request body unpacked
)

// Products looks up products for the handler. Its methods are called for every
// request, concurrently. An error means that they cannot be looked up just
// now: the request is answered 503. Products that other processes may change
// implement [access.Refresher].
type Products interface {
	// WebhookSecret returns the secret that webhooks of the product carry,
	// empty if it accepts none, and whether the product exists.
	WebhookSecret(productID string) (secret string, ok bool, err error)
	// ProductOfToken returns the product that a project token belongs to.
	ProductOfToken(token string) (productID string, ok bool, err error)
	// AllowedOrigins returns the origins of the pages that may report to the
	// product, none when any page may. "https://*.example.com" stands for every
	// subdomain, "null" for pages with an opaque origin.
	AllowedOrigins(productID string) (origins []string, err error)
}

// Options of a [Handler]; a zero field means its default.
type Options struct {
	MaxBody    int64                 // DefaultMaxBody
	MaxDecoded int64                 // DefaultMaxDecoded
	Metrics    prometheus.Registerer // where liveactivity_events_total and the like are registered; nil for nowhere
	Meter      activity.Meter        // takes what is ignored before the sink sees it; nil for nothing
	Logger     *slog.Logger          // at debug level also why an event is ignored; slog.Default()
}

// Handler takes events from PostHog and hands them to a sink. Its methods are
// safe for concurrent use. Every answer is JSON; 200 means that the sink has
// what the request brought.
type Handler struct {
	sink     activity.Sink
	products Products
	opts     Options
	guard    *guard
	events   *prometheus.CounterVec
	intake   *intake
}

// NewHandler returns a handler; opts may be nil. It reports all invalid
// arguments at once.
func NewHandler(sink activity.Sink, products Products, opts *Options) (*Handler, error) {
	wrong := options.Mistakes{Package: "posthog"}
	wrong.Require(sink != nil, "sink", "must not be nil")
	wrong.Require(products != nil, "products", "must not be nil")
	h := &Handler{sink: sink, products: products, events: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liveactivity_events_total",
		Help: "Events received, by what became of them and, where they were ignored, why.",
	}, []string{"product_id", "outcome", "reason"})}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.MaxBody = options.Default(&wrong, "MaxBody", h.opts.MaxBody, DefaultMaxBody)
	h.opts.MaxDecoded = options.Default(&wrong, "MaxDecoded", h.opts.MaxDecoded, DefaultMaxDecoded)
	if h.opts.Logger == nil {
		h.opts.Logger = slog.Default()
	}
	h.events = metrics.Register(&wrong, h.opts.Metrics, h.events)
	h.guard = newGuard(&wrong, products, h.opts.Logger, h.opts.Metrics)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	h.intake = newIntake(h.opts.MaxBody, h.opts.MaxDecoded)
	return h, nil
}

// ServeWebhook takes the requests of PostHog's webhook destinations. It must be
// mounted under POST /webhook/{product_id}. The X-PostHog-Secret header must
// hold the product's secret, or "sha256=" and the hexadecimal HMAC-SHA256 of
// the body under it.
func (h *Handler) ServeWebhook(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(h.webhook).ServeHTTP(w, r)
}

func (h *Handler) webhook(w http.ResponseWriter, r *http.Request) error {
	productID, err := httpx.PathValue(r, "product_id")
	if err != nil {
		return err
	}
	if _, err := h.webhookSecret(productID); err != nil {
		return err
	}
	b, err := h.intake.receive(w, r)
	if err != nil {
		return err
	}
	defer b.release()
	if err := h.checkSecret(productID, r.Header.Get("X-PostHog-Secret"), b.bytes); err != nil {
		return err
	}
	s, err := b.survey(r.Context())
	if err != nil {
		return err
	}
	req, err := b.request(r.Context(), productID, s)
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

// webhookSecret returns the secret of a product, or the answer for one that is not
// known.
func (h *Handler) webhookSecret(productID string) (string, error) {
	secret, ok, err := h.products.WebhookSecret(productID)
	switch {
	case err != nil:
		return "", httpx.Unavailable(err)
	case !ok:
		return "", httpx.NotFound("Unknown product.")
	}
	return secret, nil
}

// checkSecret returns the answer to a secret header that does not fit the product's
// secret.
func (h *Handler) checkSecret(productID, header string, body []byte) error {
	if header == "" {
		return errSecret
	}
	return access.CheckCurrent(h.products, productID, func() error {
		secret, err := h.webhookSecret(productID)
		if err == nil && !verify(secret, header, body) {
			err = errSecret
		}
		return err
	})
}

var errSecret = httpx.Unauthorized("The X-PostHog-Secret header is missing or wrong.", "")

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

// counts are the outcomes of a request's events. Duplicates count as ignored.
type counts struct {
	Accepted int `json:"accepted"`
	Ignored  int `json:"ignored"`
}

// request is a body taken apart, before anything in it is judged.
type request struct {
	env     envelope
	events  []activity.Event // without their times: they take sent_at, which stands behind the events
	details []detail         // of the events
	arrived time.Time
}

// detail is what matters of an event besides what it means.
type detail struct {
	uuid   string // as it was sent
	token  string
	time   timing
	reason string // for ignoring it, or ""
}

// request reads the body of a product's request.
func (b *body) request(ctx context.Context, productID string, s survey) (req *request, err error) {
	err = b.scan(ctx, productID, s, func(json *jsonscan.Scanner) error {
		if req, err = readRequest(json, s.events); err != nil {
			return err
		}
		req.arrived = b.arrived
		return nil
	})
	return req, err
}

// readRequest reads a body of that many events.
func readRequest(json *jsonscan.Scanner, events int) (*request, error) {
	req := &request{events: make([]activity.Event, 0, events), details: make([]detail, 0, events)}
	var last activity.Action
	held := 0
	env, err := readPayload(json, func(e *event) {
		meant, reason := translate(e)
		if held += heldBy(&meant); held > maxHeld {
			return // it is refused
		}
		d := detail{reason: reason}
		if e != nil {
			d.token = e.token()
			d.uuid = string(e.UUID)
			d.time = timing{e.Timestamp, e.SentAt, e.Offset, e.ClockIsRight}
		}
		if reason == "" {
			share(meant.Action, &last)
		}
		req.events, req.details = append(req.events, meant), append(req.details, d)
	})
	req.env = env
	if err == nil && held > maxHeld {
		err = httpx.Errorf(http.StatusRequestEntityTooLarge, "The events of the request take more memory than those of one request may; send fewer at once.")
	}
	return req, err
}

// maxHeld is how many bytes of memory the events of a request may add, by what is
// counted of them.
const maxHeld = 66 << 20

// heldBy returns about how many bytes of memory an event adds while it is read and
// recorded, and with what is kept of it where everything is kept in memory: in the log,
// in documents, and in what is looked up. The figures are measured, for requests of 8
// MiB that are all of one kind.
func heldBy(e *activity.Event) int {
	const ofItself, ofAddress = 2900, 1000
	bytes := func(text string) int { return len(text) + escapes(text) }
	n := ofItself + (bytes(e.SessionID)+bytes(e.UserID))*11/2
	if e.Email != "" {
		n += ofAddress + bytes(e.Email)*6
	}
	if e.Action == nil {
		return n / 2 // it is not in the log
	}
	return n + (bytes(e.Action.Title)+bytes(e.Action.Description)+bytes(e.Action.RawURL)+bytes(e.Action.CanonicalURL))*13/5
}

// share lets an action refer to the page of the one before it, if it is the same.
func share(a, last *activity.Action) {
	if a == nil {
		return
	}
	if a.RawURL == last.RawURL {
		a.RawURL = last.RawURL
	}
	if a.CanonicalURL == last.CanonicalURL {
		a.CanonicalURL = last.CanonicalURL
	}
	*last = *a
}

// maxForeign is how many different tokens, beside the request's own, are looked
// up for its events. Every token that is unknown may cost a look into storage.
const maxForeign = 16

// checkTokens marks the events that carry another product's token. Each token is
// looked up once; beyond maxForeign they count as another product's.
func (h *Handler) checkTokens(productID, token string, req *request) error {
	fits := map[string]bool{token: true, "": true}
	for i := range req.details {
		p := &req.details[i]
		ok, known := fits[p.token]
		if !known && len(fits) < maxForeign+2 {
			other, _, err := h.products.ProductOfToken(p.token)
			if err != nil {
				return httpx.Unavailable(err)
			}
			ok = other == productID
			fits[p.token] = ok
		}
		if !ok && p.reason == "" {
			p.reason = reasonToken
		}
	}
	return nil
}

// record hands the request's good events to the sink, whose they are then, and
// counts the rest.
func (h *Handler) record(r *http.Request, productID string, req *request) (counts, error) {
	all, events := len(req.events), req.events[:0]
	ignored := map[string]int{}
	explain := h.opts.Logger.Enabled(r.Context(), slog.LevelDebug)
	for i := range req.details {
		e, d := &req.events[i], &req.details[i]
		if d.reason == "" && !d.time.apply(e, req.env.SentAt, req.arrived) {
			d.reason = reasonMalformed
		}
		if d.reason == "" {
			events = append(events, *e)
			continue
		}
		ignored[d.reason]++
		if explain {
			h.opts.Logger.DebugContext(r.Context(), "an event is ignored", "product_id", productID, "session_id", e.SessionID, "reason", d.reason)
		}
	}
	clear(req.events[len(events):])
	req.events = nil
	result, err := h.sink.Record(r.Context(), productID, events)
	if err != nil {
		return counts{}, httpx.Unavailable(err)
	}
	if n := all - len(events); n > 0 {
		h.opts.Meter.Count(productID, activity.Flow{Ignored: n})
	}
	if result.Expired > 0 {
		ignored[reasonExpired] = result.Expired
	}
	h.events.WithLabelValues(productID, "accepted", "").Add(float64(result.Accepted))
	h.events.WithLabelValues(productID, "duplicate", "").Add(float64(result.Duplicate))
	for reason, n := range ignored {
		h.events.WithLabelValues(productID, "ignored", reason).Add(float64(n))
	}
	return counts{Accepted: result.Accepted, Ignored: all - result.Accepted}, nil
}

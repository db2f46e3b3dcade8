package posthog

import (
	"context"
	"net/http"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Products looks up products for the handler.
type Products = intake.Products

// Options of a [Handler]; a zero field means its default.
type Options = intake.Options

// Handler takes events from PostHog and hands them to a sink. Its methods are
// safe for concurrent use. Every answer is JSON; 200 means that the sink has
// recorded the events.
type Handler struct{ in *intake.Intake }

// NewHandler returns a handler with an intake of its own; opts may be nil. It
// reports all invalid arguments at once.
func NewHandler(sink activity.Sink, products Products, opts *Options) (*Handler, error) {
	in, err := intake.New(sink, products, opts)
	if err != nil {
		return nil, err
	}
	return New(in), nil
}

// New returns a handler that shares the intake with other sources.
func New(in *intake.Intake) *Handler { return &Handler{in} }

// ServeWebhook takes the requests of PostHog's webhook destinations. It must be
// mounted under POST /webhook/{product_id}. The X-PostHog-Secret header must
// hold the product's secret, or "sha256=" and the hexadecimal HMAC-SHA256 of
// the body under it.
func (h *Handler) ServeWebhook(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(h.webhook).ServeHTTP(w, r)
}

var errSecret = httpx.Unauthorized("The X-PostHog-Secret header is missing or wrong.", "")

func (h *Handler) webhook(w http.ResponseWriter, r *http.Request) error {
	productID, err := httpx.PathValue(r, "product_id")
	if err != nil {
		return err
	}
	if _, err := h.in.WebhookSecret(productID); err != nil {
		return err
	}
	if r.Header.Get("X-PostHog-Secret") == "" {
		return errSecret
	}
	done := httpx.Hasten(w)
	b, err := h.in.Receive(w, r)
	if err != nil {
		return err
	}
	done()
	defer b.Release()
	if err := h.in.CheckSecret(productID, r.Header.Get("X-PostHog-Secret"), b.Bytes(), errSecret); err != nil {
		return err
	}
	p, err := open(r.Context(), b)
	if err != nil {
		return err
	}
	counts, err := h.take(r.Context(), b, &request{productID: productID, standing: activity.Reported, payload: p})
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, webhookAnswer{"ok", counts})
	return nil
}

// Sign returns the HMAC-SHA256 of a webhook body under the product's secret.
// In hexadecimal, after "sha256=", it goes into the X-PostHog-Secret header.
func Sign(secret string, body []byte) []byte { return intake.Sign(secret, body) }

// webhookAnswer and sdkAnswer are the bodies of 200. posthog-js expects 1.
type (
	webhookAnswer struct {
		Status string `json:"status"`
		intake.Counts
	}
	sdkAnswer struct {
		Status int `json:"status"`
		intake.Counts
	}
)

// request is a request for a product on its way to the sink.
type request struct {
	productID string
	payload   payload
	standing  activity.Standing // the least of its identities
	tokens    *intake.Tokens    // nil where any token will do
	results   map[string]result // by uuid, of capture v1; nil for none

	voucher intake.Voucher
	arrived time.Time
	events  []activity.Event
	ignored intake.Ignored
	err     error
}

// take records the events of a request.
func (h *Handler) take(ctx context.Context, b *intake.Body, req *request) (intake.Counts, error) {
	if err := b.Admit(ctx, req.productID); err != nil {
		return intake.Counts{}, err
	}
	var err error
	if req.voucher, err = h.in.Voucher(req.productID, req.standing, b.Arrived()); err != nil {
		return intake.Counts{}, err
	}
	req.arrived, req.events = b.Arrived(), make([]activity.Event, 0, req.payload.count)
	req.payload.each(func(e *event) bool {
		h.add(ctx, req, e)
		return req.err == nil
	})
	req.payload = payload{}
	b.Decoded()
	if req.err != nil {
		return intake.Counts{}, req.err
	}
	events := req.events
	req.events = nil // they are the sink's
	return h.in.Record(ctx, req.productID, events, req.ignored)
}

// add takes one event of a request: nil for an element that is none.
func (h *Handler) add(ctx context.Context, req *request, e *event) {
	meant, reason := translate(e)
	fits := true
	if e != nil && req.tokens != nil {
		fits, req.err = req.tokens.Fit(e.token())
	}
	switch {
	case reason != "":
	case !fits:
		reason = intake.ReasonToken
	case !e.setTimes(&meant, req.payload.sentAt, req.arrived):
		reason = intake.ReasonMalformed
	}
	if e != nil && req.results != nil {
		req.results[string(e.UUID)] = resultOf(reason)
	}
	if reason != "" {
		h.in.Ignore(ctx, &req.ignored, req.productID, meant.SessionID, reason)
		return
	}
	req.voucher.Vouch(&meant, e.proof())
	req.events = append(req.events, meant)
}

package posthog

import (
	"net/http"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
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
	h.in.Webhook(Source).ServeHTTP(w, r)
}

// Sign returns the HMAC-SHA256 of a webhook body under the product's secret.
// In hexadecimal, after "sha256=", it goes into the X-PostHog-Secret header.
func Sign(secret string, body []byte) []byte { return intake.Sign(secret, body) }

// sdkAnswer is the body of 200. posthog-js expects 1.
type sdkAnswer struct {
	Status int `json:"status"`
	intake.Counts
}

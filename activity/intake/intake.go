package intake

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Defaults of [Options].
const (
	DefaultMaxBody    = 1 << 20 // bytes of a request body as received
	DefaultMaxDecoded = 8 << 20 // bytes of an unpacked request body
)

// Products looks up products. Its methods are called concurrently, for every request. An error makes
// the response a 503.
type Products interface {
	// ProductOfID returns the product with an ID. It reports false, which makes the response a
	// 404, if there is none.
	ProductOfID(productID string) (p Product, ok bool, err error)
	// ProductOfToken returns the product of a capture token. Strangers can send any token, so
	// the lookup of an unknown one should be cheap.
	ProductOfToken(token string) (productID string, ok bool, err error)
	access.Refresher
}

// Product is a product's configuration for incoming events. It is shared between requests and must
// not be modified. The zero value accepts no webhooks, and events from any page.
type Product struct {
	WebhookSecret string // that webhooks must prove; empty rejects all
	// AllowedOrigins are the origins of pages that may send events; empty allows any page.
	// "https://*.example.com" matches every subdomain, "null" a page with an opaque origin.
	AllowedOrigins []string
	// IdentitySecrets are the secrets under which the product signs its users' identities. All
	// of them are valid.
	IdentitySecrets []string
	// RespectGPC ignores events from browsers that send a Global Privacy Control signal.
	RespectGPC bool
	Events     *Events // custom events that become actions; nil for none
	// Sources are the product's own, by the name in the path of their webhooks.
	Sources map[string]*Source
}

// Options of an [Intake]; a zero field means its default.
type Options struct {
	MaxBody    int64                 // DefaultMaxBody
	MaxDecoded int64                 // DefaultMaxDecoded
	Metrics    prometheus.Registerer // registers liveactivity_events_total and others; may be nil
	Meter      tracing.Meter         // counts ignored events that never reach the sink; may be nil
	Logger     *slog.Logger          // logs reasons for ignoring events at debug level; slog.Default()
	// SessionOf returns the session for an event with a user but no session, or "" for none; see
	// [directory.Directory.Find]. If nil, such events have no session. It is called concurrently, must
	// not retain the event, and has 3 seconds for all events of a request. An error makes the
	// response a 503.
	SessionOf func(ctx context.Context, productID string, e *activity.Event) (string, error)
	// IsOwn reports whether a session ID has the form of those that SessionOf makes. Such an ID can be
	// computed from a user's ID, so an event that names one without a webhook's secret is malformed. Nil
	// means that none has.
	IsOwn func(sessionID string) bool
	// Erase erases a user at the request of a webhook that proved its secret. If nil, such
	// events are ignored. It may be called repeatedly for a user. An error makes the response a
	// 503, though the webhook's other events have been recorded.
	Erase func(ctx context.Context, productID, userID string) error
}

// Intake handles the requests of sources. Sources with the same intake share its bounds. It is safe
// for concurrent use, and starts no goroutines.
type Intake struct {
	sink     activity.Sink
	products Products
	opts     Options
	events   *prometheus.CounterVec
	refused  refusals
	room     *admission.Room // the process's, shared by all intakes
}

// New returns an intake that passes events to sink; opts may be nil. It reports all invalid arguments
// together. Twice MaxBody, the largest size of a body's buffer, and MaxDecoded must fit together in
// the room for arriving requests.
func New(sink activity.Sink, products Products, opts *Options) (*Intake, error) {
	wrong := options.Mistakes{Package: "intake"}
	wrong.Require(sink != nil, "sink", "must not be nil")
	wrong.Require(products != nil, "products", "must not be nil")
	in := &Intake{sink: sink, products: products, room: admission.Bodies()}
	in.opts = *cmp.Or(opts, &Options{})
	in.opts.MaxBody = options.Default(&wrong, "MaxBody", in.opts.MaxBody, DefaultMaxBody)
	in.opts.MaxDecoded = options.Default(&wrong, "MaxDecoded", in.opts.MaxDecoded, DefaultMaxDecoded)
	limit := in.room.Arriving.Limit()
	wrong.Require(2*in.opts.MaxBody+in.opts.MaxDecoded <= limit, "MaxDecoded",
		fmt.Sprintf("must leave a request within %d bytes", limit))
	in.opts.Logger = cmp.Or(in.opts.Logger, slog.Default())
	in.events = metrics.Register(&wrong, in.opts.Metrics, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liveactivity_events_total",
		Help: "Events received, by outcome and, if ignored, by reason.",
	}, []string{"product_id", "outcome", "reason"}))
	in.refused.count = metrics.Register(&wrong, in.opts.Metrics, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liveactivity_refused_origins_total",
		Help: "Requests of SDKs refused because their origin is not in the product's list.",
	}, []string{"product_id"}))
	in.refused.logged, _ = lru.New[refusal, struct{}](maxRefused) // fails for sizes below 1
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return in, nil
}

// MaxBody returns the limit of a received body in bytes.
func (in *Intake) MaxBody() int64 { return in.opts.MaxBody }

// MaxDecoded returns the limit of an unpacked body in bytes.
func (in *Intake) MaxDecoded() int64 { return in.opts.MaxDecoded }

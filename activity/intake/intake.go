package intake

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Defaults of [Options].
const (
	DefaultMaxBody    = 1 << 20 // bytes of a request body as it arrives
	DefaultMaxDecoded = 8 << 20 // bytes of a request body unpacked
)

// Products looks up products. Its methods are called for every request,
// concurrently. After an error the request is answered 503. Products that other
// processes may change implement [access.Refresher].
//
// [access.Refresher]: https://pkg.go.dev/github.com/liveactivity/liveactivity/activity/access#Refresher
type Products interface {
	// ProductOfID returns the product of an ID. ok false is not an error: it is a 404, where an
	// error is a 503.
	ProductOfID(productID string) (p Product, ok bool, err error)
	// ProductOfToken returns the product that a project token belongs to. It is called with
	// tokens that strangers make up, so an unknown one should be cheap.
	ProductOfToken(token string) (productID string, ok bool, err error)
}

// Product is the configuration of a product's reports. Requests share it and only read it. The
// zero value takes no webhooks, and events from any page.
type Product struct {
	WebhookSecret string // that webhooks carry; empty where none are accepted
	// AllowedOrigins are the origins of the pages that may report, none when any page may.
	// "https://*.example.com" stands for every subdomain, "null" for pages with an opaque origin.
	AllowedOrigins []string
	// IdentitySecrets are those that the product signs the identities of its users under, each
	// as good as any other.
	IdentitySecrets []string
	// RespectGPC takes nothing from an SDK whose browser asks for privacy (Global Privacy
	// Control).
	RespectGPC bool
	Events     *Events // custom events that become actions, nil for none
}

// Options of an [Intake]; a zero field means its default.
type Options struct {
	MaxBody    int64                 // DefaultMaxBody
	MaxDecoded int64                 // DefaultMaxDecoded
	Metrics    prometheus.Registerer // where liveactivity_events_total and the like are registered; nil for nowhere
	Meter      activity.Meter        // counts the ignored events that never reach the sink; nil for nothing
	Logger     *slog.Logger          // at debug level also the reasons for ignoring events; slog.Default()
	// SessionOf returns the session of an event that a source sends with a user only, "" for
	// none; nil leaves it without one. See [directory.Finder]. It is called concurrently, must
	// not keep the event, and has 3 seconds for all events of a request; after an error the
	// request is answered 503.
	SessionOf func(ctx context.Context, productID string, e *activity.Event) (string, error)
	// Erase erases a user at the request of a webhook that proved its secret; nil ignores such
	// events. It may be called again for the same user. An error makes the webhook a 503, after
	// its other events were recorded.
	Erase func(ctx context.Context, productID, userID string) error
}

// Intake takes the requests of sources. Sources that share one share its bounds. It is safe for
// concurrent use, and starts no goroutines.
type Intake struct {
	sink     activity.Sink
	products Products
	opts     Options
	events   *prometheus.CounterVec
	refused  refusals
	room     *admission.Room // the process's, shared by all intakes
}

// New returns an intake for a sink; opts may be nil. It reports all invalid arguments at once.
// The buffer of a body grows by doubling, to at most twice MaxBody; that and the unpacked bytes
// must fit in the room for arriving requests.
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

// MaxBody returns how many bytes a body may have as it arrives.
func (in *Intake) MaxBody() int64 { return in.opts.MaxBody }

// MaxDecoded returns how many bytes a body may have unpacked.
func (in *Intake) MaxDecoded() int64 { return in.opts.MaxDecoded }

// Package connector links sessions to the conversations of help desks, keeps the
// conversations supplied with notes about the users' actions, answers messages and
// offers help.
//
//	c, err := connector.New(log, products, nil)
//	if err != nil {
//		return err
//	}
//	mux.HandleFunc("POST /chatbot-webhook/{product_id}", c.ServeWebhook)
//	return c.Follow(ctx, "acme", source)
//
// A conversation is one document: its sessions, each with a cursor into the log,
// the outbox, the messages that wait for an answer, and the state of the
// assistance. One server at a time works on the conversations of a product: the one
// that holds its lease, which it takes when something is due and gives up soon
// after. That server decides the next write by a pure function of the document, the
// log and the time, stores it in the outbox, asks the desk, and settles the
// outcome, each by compare-and-set. A desk that is away for hours costs a few
// hundred bytes a conversation, as the log holds its notes.
//
// A link, a message and a link that waits for its session are entries of the log,
// committed together with their documents. Every server follows the log, and so the holder
// of the lease hears of them; nothing is polled, and a product at rest
// makes no request to storage.
//
// Anybody can forge a link of a page. Unless the page proves the session's user, its notes
// are written after everything else of the desk, with a tenth of its requests at most.
//
// Notes of a conversation are written in the order of the log, one at a time and
// at least once; once where the desk is a [helpdesk.Finder], also when an answer
// was lost or a server died: the outbox names the note to look for. Replies and offers
// are made at most once: after a doubt they are looked for and never sent again.
package connector

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Products returns the configuration of products. It is asked often, and safe for
// concurrent use. Products that other processes may change implement
// [access.Refresher].
type Products interface {
	// Product returns the configuration of a product, and false for one that is
	// unknown. An error means that storage cannot say.
	Product(productID string) (Product, bool, error)
}

// Product is the configuration of a product. The connector keeps it and changes nothing in it; a
// new configuration is a new Product, which counts from the next request or job on.
type Product struct {
	Desks          []Desk // in the order of preference
	Notes          Notes
	Assistance     *assistance.Core // decides on offers; nil for none. Another one replaces it at once
	Labels         []string         // of an offer, by default
	AllowedOrigins []string         // the web origins that may call /sessions/link
	// IdentitySecrets are the secrets under which the product signs its users' IDs.
	IdentitySecrets []string
	LinkHosts       []string // the hosts that a public reply may link to; "*." stands for any subdomain
	TakesClaims     bool     // whether claimed identities are good for public replies, too
}

// Desk is a desk of a product, named by its [helpdesk.Kind].
type Desk struct {
	Name string
	helpdesk.Desk
}

// Notes configures notes. Every field counts as it is, zero too; see [DefaultNotes].
type Notes struct {
	// Debounce is how long a session must be quiet before a note is written.
	// No action waits for that longer than max(10 s, 3 × Debounce).
	Debounce time.Duration
	// Interval is the shortest time between two notes of actions in a
	// conversation; zero for none. A note holds everything that its session did
	// since the one before; one that is too long for the desk is split.
	Interval time.Duration
	// Bin is the span of time whose actions stand together; see
	// [helpdesk.NoteText].
	Bin time.Duration
	// PreLinkWindow is how long before the link the actions may have happened
	// that are written when a session is linked.
	PreLinkWindow time.Duration
	// SummaryThreshold is how many actions of a session make a summary due; zero
	// for no summaries.
	SummaryThreshold int
}

// DefaultNotes returns the notes of a product that configures nothing.
func DefaultNotes() Notes {
	return Notes{Debounce: 3 * time.Second, Interval: 30 * time.Second, Bin: 3 * time.Second,
		PreLinkWindow: 2 * time.Minute, SummaryThreshold: 20}
}

// Options of a [Connector]. A zero field means its default.
type Options struct {
	// TTL is how long a session is remembered after its last event;
	// activity.DefaultTTL. Pass the TTL of the log's Recorder.
	TTL time.Duration
	// Model writes the summaries: it answers a prompt, as a language model does,
	// and must return soon after ctx has ended; nil for activity.Digest.
	Model func(ctx context.Context, prompt string) (string, error)
	// Reply answers the messages of requesters, and must return soon after ctx has
	// ended. An error is retried, but for ErrNoReply. By default the Model is asked;
	// without either there are no replies.
	Reply func(ctx context.Context, q Question) (string, error)
	// Guide starts the expert help that a user chose. It is called at least once,
	// before the webhook that brought the choice is answered, and must return
	// within a second. By default the label is answered like any other message.
	Guide func(ctx context.Context, g proactive.Guidance) error
	// LeaseTTL is how long a server that has died keeps its conversations;
	// document.DefaultLeaseTTL.
	LeaseTTL time.Duration
	// Meter takes the notes of actions, the summaries and the offers that are
	// made; nil for nothing.
	Meter activity.Meter
	// Tracer takes the notes, the summaries and the offers that desks are given; nil for nothing.
	Tracer tracing.Tracer

	Logger  *slog.Logger          // slog.Default()
	Metrics prometheus.Registerer // where metrics are registered; nil disables them
}

// Connector connects sessions and conversations of all products. Its methods are
// safe for concurrent use, and connectors over one log, in any number of
// processes, are one connector.
type Connector struct {
	store    *store
	linker   *linker
	products Products
	opts     Options
	logger   *slog.Logger
	metrics  connectorMetrics
	assisted *assisted
	watches  *fair.Shares[*delivery]

	// mu guards followed: the deliveries whose Follow runs, the latest of each product.
	mu       sync.Mutex
	followed map[string]*delivery // by product
}

// New returns a connector over a log; opts may be nil. It starts nothing: links
// and messages are taken at once, and everything else is done while Follow runs.
func New(log eventlog.Log, products Products, opts *Options) (*Connector, error) {
	o := *cmp.Or(opts, &Options{})
	m := options.Mistakes{Package: "connector"}
	m.Require(log != nil, "log", "must not be nil")
	m.Require(products != nil, "products", "must not be nil")
	o.TTL = options.Default(&m, "TTL", o.TTL, activity.DefaultTTL)
	o.LeaseTTL = options.Default(&m, "LeaseTTL", o.LeaseTTL, document.DefaultLeaseTTL)
	if o.Reply == nil && o.Model != nil {
		o.Reply = func(ctx context.Context, q Question) (string, error) { return o.Model(ctx, q.prompt()) }
	}
	c := &Connector{products: products, opts: o, logger: cmp.Or(o.Logger, slog.Default()),
		watches: fair.NewShares[*delivery](memlimit.Kept() / ofKept), followed: map[string]*delivery{}}
	c.metrics = newMetrics(&m, o.Metrics, c.each)
	if err := m.Err(); err != nil {
		return nil, err
	}
	var err error
	if c.store, err = newStore(log, o.TTL); err != nil {
		return nil, err
	}
	c.linker = &linker{store: c.store, products: products, count: func(productID, desk string, result status) {
		c.metrics.links.WithLabelValues(productID, desk, string(result)).Inc()
	}}
	c.assisted = &assisted{metrics: c.metrics.offerMetrics, meter: o.Meter, logger: c.logger}
	return c, nil
}

// Follow works on the conversations of a product until ctx ends, or the log is
// closed and read and the notes that waited for the debounce time are written, as
// far as their desks answer. Every server calls it for every product; one at a time
// works. Whatever is left when it ends is done by the next one.
//
// It returns ctx's error, or [eventlog.ErrClosed], after all its goroutines have ended; storage
// that is away makes it wait. The source must be of the connector's log and of the product.
// Webhooks and links are taken whether or not it runs.
func (c *Connector) Follow(ctx context.Context, productID string, source *eventlog.Source) error {
	d := c.delivery(productID)
	c.mu.Lock()
	c.followed[productID] = d
	c.mu.Unlock()
	defer func() {
		d.unwatch()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.followed[productID] == d {
			delete(c.followed, productID)
		}
	}()
	return d.follow(ctx, source)
}

// delivery returns the work on a product, which nobody follows yet.
func (c *Connector) delivery(productID string) *delivery {
	d := &delivery{productID: productID, store: c.store, linker: c.linker, products: c.products, opts: &c.opts,
		metrics: &c.metrics, assisted: c.assisted, watches: c.watches, logger: c.logger.With("product_id", productID),
		turn: make(chan struct{}, len(modelLeases)), wake: schedule.NewWake(),
		lanes: map[string]*lane{}, bySession: map[string][]*lane{}, accounts: map[string]*account{},
		waiting: map[string]Waiting{}}
	d.watch.share = c.watches.Join(d)
	return d
}

// each calls see with the work on each product that is followed, without a lock.
func (c *Connector) each(see func(d *delivery)) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.followed))
	c.mu.Unlock()
	for _, d := range all {
		see(d)
	}
}

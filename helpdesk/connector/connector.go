// Package connector links sessions to help desk conversations, writes notes about the users'
// actions into the conversations, answers messages and offers help.
//
//	c, err := connector.New(log, products, nil)
//	if err != nil {
//		return err
//	}
//	mux.HandleFunc("POST /chatbot-webhook/{product_id}", c.ServeWebhook)
//	return c.Follow(ctx, "acme", source)
//
// A conversation is one document: its sessions, each with a cursor into the log, the outbox, the
// messages waiting for an answer, and the state of the assistance. One server at a time works on
// the conversations of a product: the holder of the product's lease. A server takes the lease
// when something is due and releases it soon after. It decides the next write by a pure function
// of the document, the log and the time, stores the write in the outbox, sends it to the desk
// and settles the outcome. Each of these changes is a compare-and-set. A desk that is down for
// hours costs a few hundred bytes per conversation, because the log holds the actions for its
// notes. The comment in job.go has the pipeline and its terms.
//
// A link, a message or a waiting link is committed to its documents together with a notice in
// the log. Every server follows the log, so the holder of the lease learns of each change
// without polling, and an idle product makes no requests to storage.
//
// Anyone can forge a link from a page. Unless the page proves the session's user, notes for such
// a link are written after everything else for the desk and get at most a tenth of its requests.
//
// Notes of a conversation are written in log order, one at a time and at least once. If the desk
// is a [helpdesk.Finder], they are written once even if an answer is lost or a server dies: the
// outbox names the note to look for. Replies and offers are made at most once: when in doubt,
// they are looked for and never sent again.
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
	"golang.org/x/sync/semaphore"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/directory"
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

// Products returns the configuration of products. It is called often and must be safe for
// concurrent use.
type Products interface {
	// Product returns the configuration of a product, and false for an unknown one. An error
	// means that storage is unavailable.
	Product(productID string) (Product, bool, error)
	access.Refresher
}

// Product is the configuration of a product. The connector keeps it and does not modify it. To
// change the configuration, return a new Product; it applies from the next request or job on.
type Product struct {
	Desks          []Desk // in the order of preference
	Notes          Notes
	Assistance     *assistance.Core // decides on offers; nil for none. A new Core takes effect immediately
	Labels         []string         // of an offer, by default
	AllowedOrigins []string         // the web origins that may call /sessions/link
	// IdentitySecrets are the secrets under which the product signs its users' IDs.
	IdentitySecrets []string
	LinkHosts       []string // the hosts that a public reply may link to; "*." stands for any subdomain
	TakesClaims     bool     // whether claimed identities suffice for replies, model summaries and labels
}

// Desk is a desk of a product, named by its [helpdesk.Kind].
type Desk struct {
	Name string
	helpdesk.Desk
}

// find returns the desk of that name.
func (p Product) find(name string) (Desk, bool) {
	i := slices.IndexFunc(p.Desks, func(d Desk) bool { return d.Name == name })
	if i < 0 {
		return Desk{}, false
	}
	return p.Desks[i], true
}

// capabilities returns the desk's capabilities, none for the zero Desk.
func (d Desk) capabilities() helpdesk.Capabilities {
	if d.Desk == nil {
		return helpdesk.Capabilities{}
	}
	return d.Desk.Capabilities()
}

// Notes configures notes. A zero field means zero, not a default; see [DefaultNotes].
type Notes struct {
	// Debounce is how long a session must be quiet before a note is written. No
	// action waits longer than max(10 s, 3 × Debounce) for quiet.
	Debounce time.Duration
	// Interval is the shortest time between two notes of actions in a
	// conversation; zero for none. A note holds all actions of its session
	// since the previous note; if it is too long for the desk, it is split.
	Interval time.Duration
	// Bin is the time span whose actions are grouped together; see
	// [helpdesk.NoteText].
	Bin time.Duration
	// PreLinkWindow is how far back notes go when a session is linked: actions
	// that started up to this long before the link are written.
	PreLinkWindow time.Duration
	// SummaryThreshold is the number of a session's actions that makes a
	// summary due; zero for no summaries.
	SummaryThreshold int
}

// DefaultNotes returns the configuration of notes for a product that sets none.
func DefaultNotes() Notes {
	return Notes{Debounce: 3 * time.Second, Interval: 30 * time.Second, Bin: 3 * time.Second,
		PreLinkWindow: 2 * time.Minute, SummaryThreshold: 20}
}

// Options of a [Connector]. A zero field means its default.
type Options struct {
	// TTL is how long a session is remembered after its last event;
	// activity.DefaultTTL. Pass the TTL of the log's Recorder.
	TTL time.Duration
	// Model writes the summaries: it answers a prompt, as a language model
	// does, and must return soon after ctx ends. By default they are extracted
	// from the actions.
	Model func(ctx context.Context, prompt string) (string, error)
	// Reply answers the messages of requesters and must return soon after ctx
	// ends. Errors are retried, except ErrNoReply. By default the Model is asked;
	// without either there are no replies.
	Reply func(ctx context.Context, q Question) (string, error)
	// Guide starts the expert help that a user chose. It is called at least once,
	// before the webhook that brought the choice is answered, and must return
	// within a second. By default the label is answered like any other message.
	Guide func(ctx context.Context, g proactive.Guidance) error
	// Meter counts the notes of actions, the summaries and the offers that are
	// made; nil for none.
	Meter tracing.Meter
	// Tracer receives each note, summary and offer that a desk is given; nil for none.
	Tracer tracing.Tracer

	Logger  *slog.Logger          // slog.Default()
	Metrics prometheus.Registerer // where metrics are registered; nil disables them
}

// Connector connects sessions and conversations of all products. Its methods are
// safe for concurrent use. All connectors over one log, in any number of
// processes, act as one.
type Connector struct {
	store    *store
	linker   *linker
	products Products
	opts     Options
	logger   *slog.Logger
	metrics  connectorMetrics
	assisted *assisted
	watches  *fair.Shares[*delivery]

	// mu guards followed, which has the delivery of each product's latest running Follow.
	mu       sync.Mutex
	followed map[string]*delivery // by product
}

// New returns a connector over a log; opts may be nil. It starts no goroutines:
// links and messages are accepted immediately, and everything else happens while
// Follow runs.
func New(log eventlog.Log, products Products, opts *Options) (*Connector, error) {
	o := *cmp.Or(opts, &Options{})
	m := options.Mistakes{Package: "connector"}
	m.Require(log != nil, "log", "must not be nil")
	m.Require(products != nil, "products", "must not be nil")
	o.TTL = options.Default(&m, "TTL", o.TTL, activity.DefaultTTL)
	if o.Reply == nil && o.Model != nil {
		o.Reply = func(ctx context.Context, q Question) (string, error) { return o.Model(ctx, q.prompt()) }
	}
	c := &Connector{products: products, opts: o, logger: cmp.Or(o.Logger, slog.Default()),
		watches: fair.NewShares[*delivery](memlimit.Watched()), followed: map[string]*delivery{}}
	c.metrics = newMetrics(&m, o.Metrics, c.each)
	if err := m.Err(); err != nil {
		return nil, err
	}
	dir, err := directory.New(log.Documents(), o.TTL)
	if err != nil {
		return nil, err
	}
	c.store = &store{log: log, docs: log.Documents(), dir: dir, ttl: max(24*time.Hour, 2*o.TTL)}
	c.linker = &linker{store: c.store, products: products, links: c.metrics.links}
	c.assisted = &assisted{metrics: &c.metrics, meter: o.Meter, logger: c.logger}
	return c, nil
}

// Follow works on the conversations of a product until ctx ends, or until the log is
// closed and read to its end. In the latter case it first finishes the work under way, but
// does not wait for anything that is due later. Every server calls Follow for every product;
// one at a time does the work, and the next one continues with whatever is left.
//
// It returns ctx's error, or [eventlog.ErrClosed], after all its goroutines have ended.
// While storage is unavailable it waits. The source must belong to the connector's log
// and to the product. Webhooks and links are accepted whether or not Follow runs.
func (c *Connector) Follow(ctx context.Context, productID string, source *eventlog.Source) error {
	d := c.newDelivery(productID)
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

// newDelivery returns a delivery for the product that is not running yet.
func (c *Connector) newDelivery(productID string) *delivery {
	d := &delivery{productID: productID, store: c.store, linker: c.linker, products: c.products, opts: &c.opts,
		metrics: &c.metrics, assisted: c.assisted, watches: c.watches, logger: c.logger.With("product_id", productID),
		modelCalls: semaphore.NewWeighted(int64(len(modelLeases))), wake: schedule.NewWake(),
		lanes: map[string]*lane{}, bySession: map[string][]*lane{}, accounts: map[string]*account{},
		waiting: map[string]Waiting{}}
	d.watch.share = c.watches.Join(d)
	d.watch.reset(nil)
	return d
}

// each calls see with the delivery of each followed product, without holding a lock.
func (c *Connector) each(see func(d *delivery)) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.followed))
	c.mu.Unlock()
	for _, d := range all {
		see(d)
	}
}

// Package connector links sessions to the conversations of help desks and keeps
// the conversations supplied with notes about what the users do.
//
// What is to be written is never held in memory: the log is the buffer, and a
// conversation is a document with a cursor into the log for each of its
// sessions. An action of a linked session makes its conversation due. A due
// conversation is read from the log from its cursors on, the range that is about
// to be written is stored, the note is written, and the cursor is moved. So the
// flush at the link, the debounce, the merge under a rate limit and the catch-up
// after an outage are the same few steps, and a conversation whose desk is away
// for hours costs a few hundred bytes.
//
// Notes of a conversation are written in the order of the log, one at a time and
// at least once. They are written once where the desk is a [helpdesk.Finder],
// also when an answer was lost or a server died: the next owner finds the
// stored range and looks whether its note is there.
//
// Of the servers that share a log, one at a time follows a product for each of a
// few partitions of its conversations: the one that holds the partition's lease.
package connector

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Products says what is configured for a product. It is asked often, and safe
// for concurrent use. Products that other processes may change implement
// [access.Refresher].
type Products interface {
	// Product returns the configuration of a product, and false for one that is
	// unknown. An error means that storage cannot say.
	Product(productID string) (Product, bool, error)
}

// Product is what is configured for a product.
type Product struct {
	Desks          []Desk // in the order of preference
	Notes          Notes
	AllowedOrigins []string // the web origins that may call /sessions/link
}

// Desk is a desk of a product, and the name it has there: that of its
// [helpdesk.Kind].
type Desk struct {
	Name string
	helpdesk.Desk
}

// Notes says when notes are written and what is in them. A field means what it
// says, also when it is zero; see [DefaultNotes].
type Notes struct {
	// Debounce is how long a session must be quiet before a note is written.
	// No action waits for longer than max(10 s, 3 × Debounce).
	Debounce time.Duration
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
	return Notes{Bin: 3 * time.Second, PreLinkWindow: 2 * time.Minute, SummaryThreshold: 20}
}

// Options of a [Connector]. A zero field means its default.
type Options struct {
	// TTL is how long a session is remembered after its last event;
	// activity.DefaultTTL. It is that of the log's Recorder.
	TTL time.Duration
	// Model writes the summaries: it answers a prompt, as a language model does,
	// and must return soon after ctx has ended; nil for activity.Digest.
	Model func(ctx context.Context, prompt string) (string, error)
	// Reply answers the messages of requesters, and must return soon after ctx has
	// ended. An error is retried, but for ErrNoReply. By default the Model is asked;
	// without either there are no replies.
	Reply func(ctx context.Context, q Question) (string, error)
	// Message is called for each message of a contact at a desk that makes offers
	// or has no chat endpoint, and returns changes that are written with what shows
	// that the message was received, all or none. It may be called again for the
	// same message, until they are. nil ignores messages.
	Message func(ctx context.Context, m Message) (Taken, error)
	// LeaseTTL is how long a server that has died keeps its conversations;
	// document.DefaultLeaseTTL.
	LeaseTTL time.Duration
	// Meter takes the notes of actions and the summaries that are written; nil
	// for nothing.
	Meter activity.Meter

	Logger  *slog.Logger          // slog.Default()
	Metrics prometheus.Registerer // where metrics are registered; nil disables them
}

// Connector connects sessions and conversations of all products. Its methods are
// safe for concurrent use, and connectors over one log, in any number of
// processes, are one connector.
type Connector struct {
	log      eventlog.Log
	docs     document.Store
	dir      *activity.Directory
	products Products
	opts     Options
	logger   *slog.Logger
	inbox    time.Duration // how often new links are looked for
	metrics  connectorMetrics

	mu     sync.Mutex
	wakes  map[string]chan struct{}    // by product: full when one of its sessions was linked here
	gates  map[string]*gate            // by product and desk
	owned  map[partitionKey]*partition // those whose lease this process holds
	models chan struct{}               // full while the model is asked for as many summaries as it may
}

// New returns a connector over a log; opts may be nil. It starts nothing: links
// are taken at once, and notes are written while Follow runs.
func New(log eventlog.Log, products Products, opts *Options) (*Connector, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	m := options.Mistakes{Package: "connector"}
	m.Require(log != nil, "log", "must not be nil")
	m.Require(products != nil, "products", "must not be nil")
	o.TTL = options.Default(&m, "TTL", o.TTL, activity.DefaultTTL)
	o.LeaseTTL = options.Default(&m, "LeaseTTL", o.LeaseTTL, document.DefaultLeaseTTL)
	if o.Reply == nil && o.Model != nil {
		o.Reply = func(ctx context.Context, q Question) (string, error) { return o.Model(ctx, q.prompt()) }
	}
	registered := newMetrics(&m, o.Metrics)
	if err := m.Err(); err != nil {
		return nil, err
	}
	dir, err := activity.NewDirectory(log.Documents(), o.TTL)
	if err != nil {
		return nil, err
	}
	return &Connector{log: log, docs: log.Documents(), dir: dir,
		products: products, opts: o, logger: cmp.Or(o.Logger, slog.Default()),
		inbox: inboxEvery, metrics: registered, wakes: map[string]chan struct{}{}, gates: map[string]*gate{},
		owned: map[partitionKey]*partition{}, models: make(chan struct{}, maxModels)}, nil
}

// now returns the time by the clock that the log's ids are by.
func (c *Connector) now() time.Time { return c.log.Now() }

// linkedHere returns a channel that is full after a session of the product was
// linked in this process.
func (c *Connector) linkedHere(productID string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	wake, ok := c.wakes[productID]
	if !ok {
		wake = make(chan struct{}, 1)
		c.wakes[productID] = wake
	}
	return wake
}

// signal fills a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

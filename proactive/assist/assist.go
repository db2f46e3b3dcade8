// Package assist makes the offers that package proactive decides on: it follows
// the log of a product, asks the triggers about the sessions that are linked to a
// conversation, and shows quick replies there. It is a view of the log like any
// other, and does not wait for notes.
//
// The service of package liveactivity has one. By itself it is used so, with a
// connector that follows the same product:
//
//	a, err := assist.New(log, connections, products, nil)
//	if err != nil {
//		return err
//	}
//	source, err := eventlog.NewSource(log, "acme")
//	if err != nil {
//		return err
//	}
//	return a.Follow(ctx, "acme", source)
//
// Of the servers that share a log one at a time follows a product: the one that
// holds its lease. What is known of a conversation's assistance is a document, a
// [assistance.Machine], which every step changes by compare-and-set, so an offer is
// claimed before it is sent and is made at most once, also when a server dies, two
// work on it, or a clock jumps. Offers, deletions and what is due survive a restart.
package assist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Products returns what is configured for a product, and false for one that is
// unknown. An error means that storage cannot say. It is called often, and safe
// for concurrent use.
type Products func(productID string) (Product, bool, error)

// Product is what is configured for a product.
type Product struct {
	// Core decides; nil where proactive assistance is off. Another one replaces
	// it at once.
	Core *assistance.Core
	// Labels are the configured labels of an offer.
	Labels []string
	// Desks are the product's. Offers are made by those that are a
	// [helpdesk.Offerer].
	Desks []connector.Desk
}

// desk returns the desk of that name, and false where there is none.
func (p Product) desk(name string) (helpdesk.Desk, bool) {
	for _, d := range p.Desks {
		if d.Name == name {
			return d.Desk, true
		}
	}
	return nil, false
}

// rules are those of a conversation at the desk: one that the desk cannot delete is
// kept.
func (p Product) rules(desk string) assistance.Rules {
	rules := p.Core.Rules
	d, _ := p.desk(desk)
	if _, ok := d.(helpdesk.Remover); !ok {
		rules.KeepIdle = true
	}
	return rules
}

// canOffer reports whether any desk makes offers.
func (p Product) canOffer() bool {
	for _, d := range p.Desks {
		if _, ok := d.Desk.(helpdesk.Offerer); ok {
			return p.Core != nil
		}
	}
	return false
}

// Guidance is what a user chose.
type Guidance struct {
	ProductID, Desk, ConversationID string
	TriggerID, Label                string
	Metadata                        map[string]string // of the trigger's result
}

// Options of an [Assistant]. A zero field means its default.
type Options struct {
	// TTL is how long a session is remembered after its last event;
	// activity.DefaultTTL. It is that of the log's Recorder.
	TTL time.Duration
	// Model suggests labels: it answers a prompt, as a language model does, and
	// must return soon after ctx has ended; nil for the configured labels.
	Model func(ctx context.Context, prompt string) (string, error)
	// Guide starts the expert help that a user chose. It is called at least
	// once, before the webhook that brought the choice is answered, and must
	// return within a second. By default the label is answered like any other
	// message.
	Guide func(ctx context.Context, g Guidance) error
	// LeaseTTL is how long a server that has died keeps a product, at least 2 s;
	// document.DefaultLeaseTTL.
	LeaseTTL time.Duration
	// Meter takes the offers that are made; nil for nothing.
	Meter activity.Meter

	Logger  *slog.Logger          // slog.Default()
	Metrics prometheus.Registerer // where metrics are registered; nil disables them
}

// Assistant offers help in the conversations of all products. Its methods are safe
// for concurrent use.
type Assistant struct {
	log         eventlog.Log
	docs        document.Store
	dir         *activity.Directory
	connections *connector.Connector
	products    Products
	opts        Options
	logger      *slog.Logger
	metrics     assistantMetrics

	mu     sync.Mutex
	shifts map[string]*shift // by product: what this process works on
}

// New returns an assistant over a log and the connector of its conversations; opts
// may be nil. It starts nothing. Pass its Message to the connector's options,
// too.
func New(log eventlog.Log, connections *connector.Connector, products Products, opts *Options) (*Assistant, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	m := options.Mistakes{Package: "assist"}
	m.Require(log != nil, "log", "must not be nil")
	m.Require(connections != nil, "connections", "must not be nil")
	m.Require(products != nil, "products", "must not be nil")
	o.TTL = options.Default(&m, "TTL", o.TTL, activity.DefaultTTL)
	o.LeaseTTL = options.Default(&m, "LeaseTTL", o.LeaseTTL, document.DefaultLeaseTTL)
	m.Require(o.LeaseTTL <= 0 || o.LeaseTTL >= minLease, "LeaseTTL", fmt.Sprintf("must be at least %s", minLease))
	metrics := newMetrics(&m, o.Metrics)
	if err := m.Err(); err != nil {
		return nil, err
	}
	dir, err := activity.NewDirectory(log.Documents(), o.TTL)
	if err != nil {
		return nil, err
	}
	return &Assistant{log: log, docs: log.Documents(), dir: dir, connections: connections, products: products, opts: o,
		logger: cmp.Or(o.Logger, slog.Default()), metrics: metrics, shifts: map[string]*shift{}}, nil
}

// now returns the time by the clock that the log's ids are by.
func (a *Assistant) now() time.Time {
	return a.log.Now().Round(0) // what is stored is by the wall clock, and so is what it is compared with
}

// conversation is a conversation of a product.
type conversation struct{ productID, desk, id string }

// assistPrefix is how the names of the documents begin that machines are kept in.
const assistPrefix = "assist/"

// machineTTL is how long a machine is kept after its last step: a dismissal is
// remembered for longer than a conversation lasts.
const machineTTL = 30 * 24 * time.Hour

func (c conversation) document() string { return assistPrefix + c.desk + "/" + c.id }

// read returns the machine of a conversation and its document. An error that wraps
// assistance.ErrSnapshot means that no offer must be made there.
func (a *Assistant) read(ctx context.Context, c conversation) (assistance.Machine, document.Document, error) {
	var m assistance.Machine
	docs, err := a.docs.Get(ctx, c.productID, c.document())
	if err != nil {
		return m, document.Document{}, fmt.Errorf("assist: read machine: %w", err)
	}
	if docs[0].Exists() {
		err = m.UnmarshalJSON(docs[0].Value)
	}
	return m, docs[0], err
}

// States returns for each of the conversations, in this order, what the assistance
// there is doing; "" for the zero Link, for a product without assistance, and where
// no offer can be made because what is stored cannot be read. It reads them all at
// once.
func (a *Assistant) States(ctx context.Context, productID string, links ...connector.Link) ([]assistance.State, error) {
	states := make([]assistance.State, len(links))
	product, ok, err := a.products(productID)
	if err != nil || !ok || product.Core == nil {
		return states, err
	}
	var names []string
	var of []int // by name: the state's place
	for i, l := range links {
		if l != (connector.Link{}) {
			names, of = append(names, conversation{productID, l.Desk, l.ConversationID}.document()), append(of, i)
		}
	}
	if names == nil {
		return states, nil
	}
	docs, err := a.docs.Get(ctx, productID, names...)
	if err != nil {
		return nil, fmt.Errorf("assist: read machines: %w", err)
	}
	for i, doc := range docs {
		var m assistance.Machine
		if !doc.Exists() || m.UnmarshalJSON(doc.Value) == nil {
			states[of[i]] = m.State()
		}
	}
	return states, nil
}

// change returns the change that stores what a step made of a machine.
func change(doc document.Document, m assistance.Machine, effects []assistance.Effect) (document.Change, error) {
	if slices.Contains(effects, assistance.Effect(assistance.Clear{})) {
		if !doc.Exists() {
			return document.Check(doc), nil
		}
		return document.Delete(doc), nil
	}
	value, err := m.MarshalJSON()
	if err != nil {
		return document.Change{}, fmt.Errorf("assist: encode machine: %w", err)
	}
	return document.Put(doc, value, machineTTL), nil
}

// unreadableMachine reports whether an error says that a machine was read which
// this process cannot make sense of.
func unreadableMachine(err error) bool {
	return errors.Is(err, assistance.ErrSnapshot)
}

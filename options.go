package liveactivity

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/origin"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Options of a [Service]. A zero field means its default.
type Options struct {
	// Products are served as long as the service lives. Others can be registered
	// by the admin endpoints. LoadFile reads them from a file, with the Keys.
	Products []Product
	Keys     []Key

	// Log is the engine that keeps everything; nil for a new memorylog.Log. Run
	// runs it and closes it; its owner releases it after that.
	Log eventlog.Log
	// Retention bounds the log that is made by default, and the sessions that are
	// listed; and no event older than its TTL is taken.
	Retention eventlog.Retention
	// MaxEvents is the most actions that a lookup returns, and how many the log
	// that is made by default keeps of a user.
	MaxEvents int

	AdminKey string // opens the admin endpoints; without it there are none
	// PublicURL is how the world reaches the handler; MCP clients sign in where it is https
	// or a loopback address.
	PublicURL string
	LocalURL  string        // begins addresses without a PublicURL; without both, addresses are paths
	Heartbeat time.Duration // how long a stream may be silent before a heartbeat
	Views     []View        // what else follows the log

	// Desks are the kinds of help desk that products can have; nil for Zendesk
	// and Intercom.
	Desks []helpdesk.Kind
	// Triggers are asked for moments to offer help in, beside package proactive's
	// own; a product's configuration can name them.
	Triggers []proactive.Trigger
	// Guide starts the expert help that a user chose; see [proactive.Guidance]. By
	// default the choice is answered like any other message.
	Guide func(ctx context.Context, g proactive.Guidance) error
	// Model answers a prompt as a language model does: it writes the public
	// replies to users' messages in a conversation, and the summaries of their
	// actions. It must return soon after ctx has ended. Without it there
	// are no replies, and a summary is put together from the actions.
	Model func(ctx context.Context, prompt string) (string, error)
	// Reply writes the public replies in place of the Model, for a program that
	// knows more than a prompt holds. It must return soon after ctx has ended; an
	// error is retried, but for connector.ErrNoReply.
	Reply func(ctx context.Context, q connector.Question) (string, error)

	// Tracer takes the steps on the way of actions, from a request to a note or an answer. Package
	// [github.com/liveactivity/liveactivity/activity/otlp] makes traces of them.
	Tracer tracing.Tracer

	// Logger is slog.Default() by default.
	Logger *slog.Logger
	// Metrics is where metrics are registered. By default they are served at
	// /metrics, with the metrics of the process.
	Metrics prometheus.Registerer
}

// The least that a service can work with.
const (
	minTTL       = time.Second
	minMaxBytes  = 64 << 10 // an event of the log is nearly as large
	minHeartbeat = 100 * time.Millisecond
)

// Validate returns everything that is wrong with the options, each mistake an
// [*option.Error].
func (o *Options) Validate() error {
	m := options.Mistakes{Package: "liveactivity"}
	seen := map[string]bool{}
	for i, kind := range o.Desks {
		what := productfile.CheckKind(kind, seen)
		m.Require(what == "", fmt.Sprintf("Desks[%d]", i), what)
		seen[kind.Name] = true
	}
	for _, problem := range (File{Products: o.Products, Keys: o.Keys}).Validate(o.extensions()) {
		field, what, _ := strings.Cut(problem, ": ")
		m.Require(false, field, what)
	}
	least := fmt.Sprintf("must be at least %d", minMaxBytes)
	m.Require(o.Retention.TTL == 0 || o.Retention.TTL >= minTTL, "Retention.TTL", "must be at least "+minTTL.String())
	m.Require(o.MaxEvents >= 0, "MaxEvents", "must not be negative")
	m.Require(o.Retention.MaxBytes == 0 || o.Retention.MaxBytes >= minMaxBytes, "Retention.MaxBytes", least)
	m.Require(o.Retention.StateMaxBytes == 0 || o.Retention.StateMaxBytes >= minMaxBytes, "Retention.StateMaxBytes", least)
	m.Require(o.Retention.TotalBytes >= 0, "Retention.TotalBytes", "must not be negative")
	m.Require(strings.TrimSpace(o.AdminKey) == o.AdminKey, "AdminKey", "must not start or end with white space")
	const aURL = "must be a URL such as https://live.example.com"
	m.Require(isBaseURL(o.PublicURL), "PublicURL", aURL)
	m.Require(isBaseURL(o.LocalURL), "LocalURL", aURL)
	m.Require(o.Heartbeat == 0 || o.Heartbeat >= minHeartbeat, "Heartbeat", "must be at least "+minHeartbeat.String())
	m.Add(proactive.CheckTriggers(o.Triggers...))
	for _, view := range o.Views {
		m.Require(view != nil, "Views", "must not be nil")
	}
	return m.Err()
}

func (o *Options) extensions() productfile.Extensions {
	return productfile.NewExtensions(o.Desks, o.Triggers)
}

// isBaseURL reports whether paths can be added to a URL. It need not be given.
func isBaseURL(s string) bool {
	_, ok := origin.Base(s)
	return s == "" || ok
}

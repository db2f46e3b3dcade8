package liveactivity

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
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
	// Products are served for the lifetime of the service. Others can be registered at the
	// admin endpoints. LoadFile reads Products and Keys from a file.
	Products []Product
	Keys     []Key

	// Log is the engine that stores everything; nil for a new memorylog.Log. Run runs and
	// closes it; its owner releases it after that.
	Log eventlog.Log
	// Retention bounds the default log and the listed sessions. Events older than its TTL are
	// not accepted.
	Retention eventlog.Retention
	// MaxEvents is the largest number of actions that a lookup returns, and the number that
	// the default log keeps of a user; recent.DefaultMaxEvents.
	MaxEvents int

	AdminKey string // opens the admin endpoints; without it there are none
	// PublicURL is the public URL of the handler. MCP clients can sign in if it is https or a
	// loopback address.
	PublicURL string
	LocalURL  string        // base of addresses without a PublicURL; without both, addresses are paths
	Heartbeat time.Duration // longest silence of a stream; eventlog.DefaultHeartbeat
	Views     []View        // further followers of the log

	// Desks are all kinds of help desk that products can have; nil for zendesk.Kind and
	// intercom.Kind, which a list with others must repeat.
	Desks []helpdesk.Kind
	// Triggers detect moments to offer help, in addition to those of package proactive. A
	// product's configuration refers to them by ID.
	Triggers []proactive.Trigger
	// Guide starts the guidance that a user chose; see [proactive.Guidance]. By default, the
	// choice is answered like any other message. The desk waits for it, so ctx ends after a
	// second. After an error the desk repeats the choice, and so it may be called again.
	Guide func(ctx context.Context, g proactive.Guidance) error
	// Model calls a language model with a prompt. It writes public replies to users' messages
	// in conversations, and summaries of their actions. It must return soon after ctx ends.
	// Without it there are no replies, and summaries are extracted from the actions.
	Model func(ctx context.Context, prompt string) (string, error)
	// Reply replaces the Model for public replies, for a program that knows more than the
	// prompt. It must return soon after ctx ends. Errors are retried, except for
	// connector.ErrNoReply.
	Reply func(ctx context.Context, q connector.Question) (string, error)

	// Tracer receives the steps of actions through the service, from a request to a note or an
	// answer. Package [github.com/liveactivity/liveactivity/activity/otlp] exports them as
	// traces.
	Tracer tracing.Tracer

	// Logger logs everything; slog.Default() by default.
	Logger *slog.Logger
	// Metrics registers the metrics. By default they are served at /metrics, with the metrics
	// of the process.
	Metrics prometheus.Registerer
}

// The lower bounds of options.
const (
	minTTL       = time.Second
	minMaxBytes  = 64 << 10 // an event of the log is nearly as large
	minHeartbeat = 100 * time.Millisecond
)

// Validate returns all mistakes in the options, each as an [*option.Error].
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
	if v := reflect.ValueOf(o.Log); v.Kind() == reflect.Pointer && v.IsNil() {
		m.Require(false, "Log", "must be open or left out, not a nil "+v.Type().String())
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
	for i, view := range o.Views {
		m.Require(view != nil, fmt.Sprintf("Views[%d]", i), "must not be nil")
	}
	return m.Err()
}

func (o *Options) extensions() productfile.Extensions {
	return productfile.NewExtensions(o.Desks, o.Triggers)
}

// isBaseURL reports whether s is empty or a URL to which paths can be added.
func isBaseURL(s string) bool {
	_, ok := origin.Base(s)
	return s == "" || ok
}

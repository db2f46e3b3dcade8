// Package otlp exports the service's traces and metrics by OTLP, the protocol of
// OpenTelemetry, over HTTP:
//
//	exporter, err := otlp.Open(ctx, nil)
//	if err != nil {
//		return err
//	}
//	defer exporter.Close(context.WithoutCancel(ctx)) // the last spans come after its end
//	service, err := liveactivity.New(&liveactivity.Options{Tracer: exporter.Tracer()})
//	if err != nil {
//		return err
//	}
//	err = exporter.Export(ctx, service.Metrics())
//
// The standard environment variables configure it: OTEL_EXPORTER_OTLP_ENDPOINT switches
// it on, as does OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER with the value otlp.
// Without them, or with OTEL_SDK_DISABLED=true, nothing is exported and nothing costs
// anything.
//
// # Traces
//
// The trace of an action begins with its request. Its ID and its first span's ID are
// digests of the product, the session and the action's start. So a note or an offer,
// which another server may write hours later, becomes a span of the same trace, without a
// byte of the trace in storage. A note of several actions is in the trace of the first
// one, with a link to each of the others. A lookup is a trace of its own, with a link to
// each action that it found.
package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/liveactivity/liveactivity/activity/option"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/outage"
	"github.com/liveactivity/liveactivity/internal/version"
)

// Exporter exports traces and metrics. Its methods are safe for concurrent use.
type Exporter struct {
	resource *resource.Resource
	traces   *sdk.TracerProvider // nil if they are off
	tracer   trace.Tracer
	measures bool
	metrics  *metric.MeterProvider // nil before Export
}

// name is the scope of the spans, and the service's name unless OTEL_SERVICE_NAME or
// OTEL_RESOURCE_ATTRIBUTES has another.
const name = "liveactivity"

// Options of [Open]; a zero field means its default.
type Options struct {
	// Logger takes the failures of exports, one a minute, and of the SDK; slog.Default(). The
	// SDK has one handler for them in a process.
	Logger *slog.Logger
}

// Open returns an exporter as the environment configures it; opts may be nil. It opens no
// connection; if traces are on, it starts the SDK's goroutine, which Close ends. The error
// joins all mistakes in the environment.
func Open(ctx context.Context, opts *Options) (*Exporter, error) {
	traces, tracesErr := isOn("TRACES")
	measures, metricsErr := isOn("METRICS")
	if tracesErr != nil && metricsErr != nil && tracesErr.Error() == metricsErr.Error() {
		metricsErr = nil // a mistake in a variable of both
	}
	sampler, samplerErr := samplerOf(os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	if err := errors.Join(tracesErr, metricsErr, samplerErr); err != nil {
		return nil, err
	}
	e := &Exporter{measures: measures}
	if !traces && !measures {
		return e, nil
	}
	log := cmp.Or(cmp.Or(opts, &Options{}).Logger, slog.Default())
	otel.SetLogger(logr.FromSlogHandler(discreet{log.Handler()})) // takes unreadable durations and headers
	var pace outage.Pace
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Log(context.Background(), pace.Level(err), "telemetry is not exported", "err", err)
	}))
	var err error
	if e.resource, err = resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute("service.name", name), attribute("service.version", version.Version())),
		resource.WithFromEnv()); err != nil {
		return nil, fmt.Errorf("otlp: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if !traces {
		return e, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("otlp: export traces: %w", err)
	}
	e.traces = sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(e.resource),
		sdk.WithSampler(sampler), sdk.WithIDGenerator(ids{}))
	e.tracer = e.traces.Tracer(name, trace.WithInstrumentationVersion(version.Version()))
	return e, nil
}

// discreet is a handler for the SDK's logger, which logs an unreadable header, and so a key, as an
// attribute. The other attributes and the error stay.
type discreet struct{ slog.Handler }

func (d discreet) Handle(ctx context.Context, r slog.Record) error {
	kept := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "input" && a.Key != "value" {
			kept.AddAttrs(a)
		}
		return true
	})
	return d.Handler.Handle(ctx, kept)
}

func (d discreet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return discreet{d.Handler.WithAttrs(attrs)}
}
func (d discreet) WithGroup(name string) slog.Handler { return discreet{d.Handler.WithGroup(name)} }

// isOn reports whether the environment switches the export of a signal on.
func isOn(signal string) (bool, error) {
	where, endpoint := setting(signal, "ENDPOINT")
	exporter := os.Getenv("OTEL_" + signal + "_EXPORTER")
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter+endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_%s_EXPORTER: must be otlp or none", signal)
	}
	if variable, protocol := setting(signal, "PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("%s: must be http/protobuf", variable)
	}
	// The SDK would export to this machine instead.
	if u, err := url.Parse(endpoint); endpoint != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
		return false, fmt.Errorf("%s: must be a URL such as http://127.0.0.1:4318", where)
	}
	return true, nil
}

// setting returns a signal's setting of the export, and the variable that has it: the
// signal's own or else the one for all signals.
func setting(signal, what string) (variable, value string) {
	variable = "OTEL_EXPORTER_OTLP_" + signal + "_" + what
	if value = os.Getenv(variable); value == "" {
		variable = "OTEL_EXPORTER_OTLP_" + what
		value = os.Getenv(variable)
	}
	return variable, strings.TrimSpace(value)
}

// samplerOf returns the sampler of OTEL_TRACES_SAMPLER. Only its trace's ID decides about a
// span, so all spans of an action are sampled or none, whichever server makes them.
func samplerOf(name, arg string) (sdk.Sampler, error) {
	switch strings.TrimPrefix(name, "parentbased_") {
	case "", "always_on":
		return sdk.AlwaysSample(), nil
	case "always_off":
		return sdk.NeverSample(), nil
	case "traceidratio":
		ratio, err := strconv.ParseFloat(cmp.Or(arg, "1"), 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, errors.New("OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1")
		}
		return sdk.TraceIDRatioBased(ratio), nil
	}
	return nil, errors.New("OTEL_TRACES_SAMPLER: must be always_on, always_off or traceidratio, or one of them " +
		"behind parentbased_")
}

// Tracer returns the function for the service's options; nil if traces are off.
func (e *Exporter) Tracer() tracing.Tracer {
	if e.traces == nil {
		return nil
	}
	return e.trace
}

// Export exports the metrics from now on, by default once a minute (OTEL_METRIC_EXPORT_INTERVAL), in a
// goroutine of the SDK that Close ends. A service with a registry in its options has no Metrics: give that
// registry. Export does nothing if metrics are off. Call it at most once.
func (e *Exporter) Export(ctx context.Context, from prometheus.Gatherer) error {
	if !e.measures {
		return nil
	}
	if from == nil {
		return &option.Error{Package: "otlp", Option: "from", Problem: "must not be nil: give your own registry"}
	}
	exporter, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return fmt.Errorf("otlp: export metrics: %w", err)
	}
	e.metrics = metric.NewMeterProvider(metric.WithResource(e.resource), metric.WithReader(
		metric.NewPeriodicReader(exporter, metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(from))))))
	return nil
}

// Close exports everything received so far, until ctx ends, and ends the goroutines.
func (e *Exporter) Close(ctx context.Context) error {
	var errs []error
	if e.traces != nil {
		errs = append(errs, e.traces.Shutdown(ctx))
	}
	if e.metrics != nil {
		errs = append(errs, e.metrics.Shutdown(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("otlp: export the rest: %w", err)
	}
	return nil
}

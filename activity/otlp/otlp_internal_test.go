package otlp

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/liveactivity/liveactivity/activity/tracing"
)

// spansOf returns the spans of two exporters, with a sampler each, for steps in turn.
func spansOf(sampler sdk.Sampler, steps ...tracing.Step) (spans tracetest.SpanStubs) {
	memory := tracetest.NewInMemoryExporter()
	var exporters [2]*Exporter
	for i := range exporters {
		e := &Exporter{traces: sdk.NewTracerProvider(sdk.WithSyncer(memory), sdk.WithSampler(sampler),
			sdk.WithIDGenerator(ids{}))}
		e.tracer = e.traces.Tracer(name)
		exporters[i] = e
	}
	for i, step := range steps {
		exporters[i%2].Tracer()(step)
	}
	return memory.GetSpans()
}

// An action's note is in the trace of its request, and a lookup has a link to it, though the exporters share nothing.
func TestTracer_linksStepsByTheirActions(t *testing.T) {
	one, two := tracing.Action{SessionID: "s1", Start: 1}, tracing.Action{SessionID: "s2", Start: 1}
	at := time.Unix(1_800_000_000, 0)
	step := func(name string, err error, actions ...tracing.Action) tracing.Step {
		return tracing.Step{Name: name, ProductID: "acme", Via: "x", Actions: actions, Began: at,
			Ended: at.Add(time.Second), Err: err}
	}
	spans := spansOf(sdk.AlwaysSample(), step(tracing.Ingest, nil, one, two), step(tracing.Append, nil, one),
		step(tracing.Note, errors.New("s3cr3t"), one, two), step(tracing.Lookup, nil, one, two), step(tracing.Summary, nil))
	require.Len(t, spans, 6)
	ingest, other, appended, note, lookup, summary := spans[0], spans[1], spans[2], spans[3], spans[4], spans[5]
	assert.NotEqual(t, ingest.SpanContext.TraceID(), other.SpanContext.TraceID())
	assert.False(t, ingest.Parent.IsValid())
	for _, child := range []tracetest.SpanStub{appended, note} {
		assert.Equal(t, ingest.SpanContext.TraceID(), child.SpanContext.TraceID())
		assert.Equal(t, ingest.SpanContext.SpanID(), child.Parent.SpanID())
	}
	require.Len(t, note.Links, 1)
	assert.Equal(t, other.SpanContext.SpanID(), note.Links[0].SpanContext.SpanID())
	assert.Equal(t, sdk.Status{Code: codes.Error, Description: "failed"}, note.Status, "errors hold vendors' words")
	require.Len(t, lookup.Links, 2)
	for i, action := range []tracetest.SpanStub{ingest, other} {
		assert.Equal(t, action.SpanContext.TraceID(), lookup.Links[i].SpanContext.TraceID())
		assert.Equal(t, action.SpanContext.SpanID(), lookup.Links[i].SpanContext.SpanID())
	}
	assert.False(t, lookup.Parent.IsValid() || summary.Parent.IsValid())
	assert.Equal(t, []time.Time{at, at.Add(time.Second)}, []time.Time{note.StartTime, note.EndTime})
	elsewhere := step(tracing.Ingest, nil, one)
	elsewhere.ProductID = "globex"
	assert.NotEqual(t, ingest.SpanContext.TraceID(), spansOf(sdk.AlwaysSample(), elsewhere)[0].SpanContext.TraceID())
}

// With a ratio, either all spans of an action are exported or none.
func TestSampler_givesTheSpansOfAnActionOneFate(t *testing.T) {
	sampler, err := samplerOf("parentbased_traceidratio", "0.5")
	require.NoError(t, err)
	var steps []tracing.Step
	for i := range int64(200) {
		for _, name := range []string{tracing.Ingest, tracing.Note} {
			steps = append(steps, tracing.Step{Name: name, ProductID: "acme",
				Actions: []tracing.Action{{SessionID: "s1", Start: i}}})
		}
	}
	spans := map[string]int{}
	for _, span := range spansOf(sampler, steps...) {
		spans[span.SpanContext.TraceID().String()]++
	}
	assert.InDelta(t, 100, len(spans), 50)
	for _, n := range spans {
		assert.Equal(t, 2, n)
	}
}

// The standard variables switch traces and metrics on, each alone or both.
func TestOpen_followsTheEnvironment(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, tt := range map[string]struct {
		env             map[string]string
		traces, metrics bool
		says            []string
	}{
		"nothing":     {},
		"an endpoint": {env: map[string]string{endpoint: "http://127.0.0.1:1"}, traces: true, metrics: true},
		"of traces":   {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, traces: true},
		"an exporter": {env: map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, metrics: true},
		"one of two": {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_METRICS_EXPORTER": "none"},
			traces: true},
		"disabled": {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}},
		"a protocol": {env: map[string]string{endpoint: "http://127.0.0.1:1",
			"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, traces: true, metrics: true},
		"other software": {env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_METRICS_EXPORTER": "console"},
			says: []string{"OTEL_TRACES_EXPORTER: must be otlp or none", "OTEL_METRICS_EXPORTER"}},
		"another protocol": {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
			"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"},
			says: []string{"OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"}},
		"another address": {env: map[string]string{endpoint: "foo", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "collector:4318"},
			says: []string{endpoint + ": must be a URL", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: must be a URL"}},
		"another sampler": {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "xray"},
			says: []string{"OTEL_TRACES_SAMPLER: must be"}},
		"no ratio": {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "traceidratio",
			"OTEL_TRACES_SAMPLER_ARG": "2"}, says: []string{"OTEL_TRACES_SAMPLER_ARG: must be"}},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tt.env {
				t.Setenv(variable, value)
			}
			e, err := Open(t.Context(), nil)
			if tt.says != nil {
				for _, says := range tt.says {
					assert.ErrorContains(t, err, says)
				}
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.traces, e.Tracer() != nil)
			assert.Equal(t, tt.metrics, e.measures)
			require.NoError(t, e.Close(t.Context()))
		})
	}
}

// The SDK would gather from nothing a minute later, and end the process.
func TestExport_needsMetrics(t *testing.T) {
	require.NoError(t, new(Exporter).Export(t.Context(), nil), "metrics are off")
	require.ErrorContains(t, (&Exporter{measures: true}).Export(t.Context(), nil), "otlp: from must not be nil")
}

func TestOpen_reportsAMistakeOfBothSignalsOnce(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "foo")
	_, err := Open(t.Context(), nil)
	require.EqualError(t, err, "OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL such as http://127.0.0.1:4318")
}

// The SDK's own logger would write lines of another form to standard error.
func TestOpen_logsFailuresOfTheSDK(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Bearer s3cret,x=%zs3cret")
	var logged bytes.Buffer
	e, err := Open(t.Context(), &Options{Logger: slog.New(slog.NewJSONHandler(&logged, nil))})
	require.NoError(t, err)
	require.NoError(t, e.Close(t.Context()))
	require.Contains(t, logged.String(), `"level":"ERROR"`)
	require.Contains(t, logged.String(), "soon")
	require.Contains(t, logged.String(), "parse headers")
	slog.New(discreet{slog.NewJSONHandler(&logged, nil)}).With("a", 1).WithGroup("b").Error("x", "value", "s3cret")
	require.NotContains(t, logged.String(), "s3cret")
	for range 3 {
		otel.Handle(errors.New("connection refused"))
	}
	require.Equal(t, 1, strings.Count(logged.String(), "connection refused"), "a busy server fails many times a second")
}

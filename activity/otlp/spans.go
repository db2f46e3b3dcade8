package otlp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	attr "go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/liveactivity/liveactivity/activity/tracing"
)

// attribute makes an attribute of a span.
var attribute = attr.String

// trace makes the spans of a step. Each server makes its own, at any time, because the action
// alone determines the trace.
func (e *Exporter) trace(s tracing.Step) {
	switch s.Name {
	case tracing.Ingest:
		for _, action := range s.Actions {
			e.span(context.WithValue(context.Background(), rootKey{}, contextOf(s.ProductID, action)), &s)
		}
	case tracing.Append:
		for _, action := range s.Actions {
			e.span(trace.ContextWithRemoteSpanContext(context.Background(), contextOf(s.ProductID, action)), &s)
		}
	case tracing.Note, tracing.Offer:
		ctx, rest := context.Background(), s.Actions
		if len(rest) > 0 {
			ctx, rest = trace.ContextWithRemoteSpanContext(ctx, contextOf(s.ProductID, rest[0])), rest[1:]
		}
		e.span(ctx, &s, rest...)
	default:
		e.span(context.Background(), &s, s.Actions...)
	}
}

// span makes one span, with links to actions.
func (e *Exporter) span(ctx context.Context, s *tracing.Step, linked ...tracing.Action) {
	attributes := []attr.KeyValue{attribute("liveactivity.product_id", s.ProductID)}
	if s.Via != "" {
		attributes = append(attributes, attribute("liveactivity.via", s.Via))
	}
	links := make([]trace.Link, len(linked))
	for i, action := range linked {
		links[i].SpanContext = contextOf(s.ProductID, action)
	}
	_, span := e.tracer.Start(ctx, s.Name, trace.WithTimestamp(s.Began), trace.WithAttributes(attributes...),
		trace.WithLinks(links...))
	if s.Err != nil { // its text may quote a vendor's answer
		span.SetStatus(codes.Error, "failed")
	}
	span.End(trace.WithTimestamp(s.Ended))
}

// contextOf returns the first span of an action's trace, a digest of product, session and start.
// The product's length keeps product and session apart. The flag is always set; the sampler
// decides by the ID of the trace (see samplerOf).
func contextOf(productID string, a tracing.Action) trace.SpanContext {
	key := binary.BigEndian.AppendUint64(nil, uint64(a.Start))
	key = append(binary.BigEndian.AppendUint64(key, uint64(len(productID))), productID...)
	sum := sha256.Sum256(append(key, a.SessionID...))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]),
		TraceFlags: trace.FlagsSampled, Remote: true})
}

// rootKey is the key of the first span of a trace in a context.
type rootKey struct{}

// ids makes the IDs of spans: random ones, except for the first span of an action's trace. It is
// safe for concurrent use.
type ids struct{}

// NewIDs implements the SDK's IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if first, ok := ctx.Value(rootKey{}).(trace.SpanContext); ok {
		return first.TraceID(), first.SpanID()
	}
	var id trace.TraceID
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64()|1) // never zero
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements the SDK's IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1) // never zero
	return id
}

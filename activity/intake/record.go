package intake

import (
	"context"
	"log/slog"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Reasons for ignoring an event, as in metrics and responses. Sources add their own.
const (
	ReasonMalformed = "malformed" // not an object, or without a field it needs
	ReasonNobody    = "no_session_and_user"
	ReasonExpired   = "expired"     // older than the retention
	ReasonDuplicate = "duplicate"   // recorded before
	ReasonRepeated  = "repeated"    // the same error again
	ReasonUnmarked  = "no_click"    // a mark without a click, or that its click has already
	ReasonToken     = "other_token" // carries another product's token
	ReasonUnsigned  = "unsigned"    // not covered by the webhook's signature
	ReasonGPC       = "gpc"         // from a browser with Global Privacy Control
	ReasonDelete    = "delete"      // requests an erasure without the right to
	ReasonOther     = "other_event" // of a kind that means nothing here
	ReasonNothing   = "no_identity" // carries identity, but of no known user
)

// Ignored counts the ignored events of a request by reason. The zero value has none.
type Ignored map[string]int

// add counts n events; zero adds no entry.
func (i *Ignored) add(reason string, n int) {
	if n == 0 {
		return
	}
	if *i == nil {
		*i = Ignored{}
	}
	(*i)[reason] += n
}

// Ignore counts an ignored event and logs the reason at debug level.
func (in *Intake) Ignore(ctx context.Context, ignored *Ignored, productID, sessionID, reason string) {
	ignored.add(reason, 1)
	if in.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		in.opts.Logger.DebugContext(ctx, "an event is ignored",
			"product_id", productID, "session_id", sessionID, "reason", reason)
	}
}

// Counts are the outcomes of a request's events, as in the response. Duplicates count as ignored.
type Counts struct {
	Accepted int     `json:"accepted"`
	Ignored  int     `json:"ignored"`
	Reasons  Ignored `json:"reasons,omitempty"` // the sum of which is Ignored
}

// Record passes the events of a product to the sink, which then owns them, and counts them together
// with the ignored ones. It modifies ignored and returns it in the counts. An error is a 503, after
// which the sender should repeat the request: only events that the sink has recorded are counted, and it
// recognizes repeated ones by their IDs.
func (in *Intake) Record(
	ctx context.Context, productID string, events []activity.Event, ignored Ignored,
) (Counts, error) {
	result, err := in.sink.Record(ctx, productID, events)
	if err != nil {
		in.Count(productID, result, nil)
		return Counts{}, httpx.Unavailable(err)
	}
	counts := Counts{Accepted: result.Accepted, Reasons: in.Count(productID, result, ignored)}
	for _, n := range counts.Reasons {
		counts.Ignored += n
	}
	return counts, nil
}

// Count counts the events that a sink has recorded, together with the ignored ones that never reached
// it. It adds the ones that the sink has ignored to the map, or to a new one, and returns it.
func (in *Intake) Count(productID string, result activity.Result, ignored Ignored) Ignored {
	if result == (activity.Result{}) && len(ignored) == 0 {
		return ignored
	}
	early := 0
	for _, n := range ignored {
		early += n
	}
	if early > 0 {
		in.opts.Meter.Count(productID, tracing.Flow{Ignored: early})
	}
	ignored.add(ReasonExpired, result.Expired)
	ignored.add(ReasonRepeated, result.Repeated)
	ignored.add(ReasonUnmarked, result.Unmarked)
	for reason, n := range ignored {
		in.events.WithLabelValues(productID, "ignored", reason).Add(float64(n))
	}
	in.events.WithLabelValues(productID, "accepted", "").Add(float64(result.Accepted))
	in.events.WithLabelValues(productID, "duplicate", "").Add(float64(result.Duplicate))
	ignored.add(ReasonDuplicate, result.Duplicate)
	return ignored
}

package intake

import (
	"context"
	"log/slog"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Reasons for ignoring an event, as the metrics and the answers name them. A source
// adds its own.
const (
	ReasonMalformed = "malformed"   // not an object, or without a field it needs
	ReasonExpired   = "expired"     // older than the retention
	ReasonToken     = "other_token" // carries another product's token
)

// Ignored counts the ignored events of a request by reason. The zero value has none.
type Ignored map[string]int

// Ignore counts an event of a product's session and logs the reason at debug level.
func (in *Intake) Ignore(ctx context.Context, ignored *Ignored, productID, sessionID, reason string) {
	if *ignored == nil {
		*ignored = Ignored{}
	}
	(*ignored)[reason]++
	if in.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		in.opts.Logger.DebugContext(ctx, "an event is ignored", "product_id", productID, "session_id", sessionID, "reason", reason)
	}
}

// Counts are the outcomes of a request's events, as they are answered. Duplicates
// count as ignored.
type Counts struct {
	Accepted int `json:"accepted"`
	Ignored  int `json:"ignored"`
}

// Record hands the events of a product to the sink, which owns them from then on, and
// counts them and the ignored ones. An error means that the request should be
// repeated: nothing is counted.
func (in *Intake) Record(ctx context.Context, productID string, events []activity.Event, ignored Ignored) (Counts, error) {
	brought := len(events)
	result, err := in.sink.Record(ctx, productID, events)
	if err != nil {
		return Counts{}, httpx.Unavailable(err)
	}
	counts := Counts{Accepted: result.Accepted, Ignored: brought - result.Accepted}
	in.events.WithLabelValues(productID, "accepted", "").Add(float64(result.Accepted))
	in.events.WithLabelValues(productID, "duplicate", "").Add(float64(result.Duplicate))
	if result.Expired > 0 {
		in.events.WithLabelValues(productID, "ignored", ReasonExpired).Add(float64(result.Expired))
	}
	early := 0
	for reason, n := range ignored {
		in.events.WithLabelValues(productID, "ignored", reason).Add(float64(n))
		early += n
	}
	if early > 0 {
		counts.Ignored += early
		in.opts.Meter.Count(productID, activity.Flow{Ignored: early})
	}
	return counts, nil
}

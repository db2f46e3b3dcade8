package stream

import (
	"sync"
	"sync/atomic"

	"github.com/liveactivity/liveactivity/activity"
)

// ConsumerStats counts the work of a [Consumer] since it was created. Package
// [github.com/liveactivity/liveactivity/stream/streammetrics] turns the counts into
// Prometheus metrics.
type ConsumerStats struct {
	Connects        uint64 // times the stream was opened
	Interruptions   uint64 // times the stream could not be opened, or ended
	Gaps            uint64 // times the server no longer had all entries that were asked for
	HandlerFailures uint64 // times a handler returned an error that a retry may mend
	Parked          uint64 // times a session fell behind because its handler kept failing

	// Entries acknowledged.
	AcknowledgedActions, AcknowledgedSummaries, AcknowledgedOthers uint64

	// Entries skipped.
	SkippedMalformed   uint64
	SkippedTooLarge    uint64 // over ConsumerOptions.MaxEventBytes
	SkippedRefused     uint64 // by an error marked by Permanent
	SkippedHeldTooLong uint64 // sessions that were let go for others, see Delivery.Hold

	Pending int64 // entries received and not acknowledged, now
}

// WriterStats counts the work of a [Writer] since it was created.
type WriterStats struct {
	Written  uint64 // merged batches written
	Failures uint64 // writes that failed and are retried
	Refused  uint64 // merged batches skipped because of a permanent error

	Pending int64 // batches added and not written, now
}

// SummarizerStats are how many summaries a [Summarizer] has tried since it was
// made, by result.
type SummarizerStats struct{ OK, ModelFailed, OverwriteFailed uint64 }

// consumerStats count for [ConsumerStats].
type consumerStats struct {
	connects, interruptions, gaps, failures, parked atomic.Uint64
	actions, summaries, others                      atomic.Uint64 // finished
	malformed, tooLarge, refused, heldTooLong       atomic.Uint64
	pending                                         atomic.Int64
}

// Stats returns the current counts. It is cheap and safe for concurrent use.
func (c *Consumer) Stats() ConsumerStats {
	s := &c.stats
	return ConsumerStats{
		Connects: s.connects.Load(), Interruptions: s.interruptions.Load(), Gaps: s.gaps.Load(),
		HandlerFailures: s.failures.Load(), Parked: s.parked.Load(),
		AcknowledgedActions: s.actions.Load(), AcknowledgedSummaries: s.summaries.Load(), AcknowledgedOthers: s.others.Load(),
		SkippedMalformed: s.malformed.Load(), SkippedTooLarge: s.tooLarge.Load(),
		SkippedRefused: s.refused.Load(), SkippedHeldTooLong: s.heldTooLong.Load(),
		Pending: max(0, s.pending.Load()), // a delivery may be acknowledged before it is counted
	}
}

// finished returns the counter of finished entries of a type.
func (s *consumerStats) finished(typ string) *atomic.Uint64 {
	switch typ {
	case activity.BatchType:
		return &s.actions
	case SummaryType:
		return &s.summaries
	}
	return &s.others
}

// inHand counts the deliveries in flight in a run until the run ends, in
// the gauge of its consumer.
type inHand struct {
	gauge *atomic.Int64

	mu    sync.Mutex
	n     int64
	ended bool
}

func (h *inHand) add(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.n += n
		h.gauge.Add(n)
	}
}

func (h *inHand) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gauge.Add(-h.n)
	h.ended = true
}

// writerStats count for [WriterStats].
type writerStats struct {
	written, failures, refused atomic.Uint64
	pending                    atomic.Int64
}

// Stats returns the current counts. It is cheap and safe for concurrent use.
func (w *Writer) Stats() WriterStats {
	s := &w.stats
	return WriterStats{Written: s.written.Load(), Failures: s.failures.Load(), Refused: s.refused.Load(),
		Pending: max(0, s.pending.Load())} // likewise
}

// summarizerStats count for [SummarizerStats].
type summarizerStats struct{ ok, modelFailed, overwriteFailed atomic.Uint64 }

// Stats returns the current counts. It is cheap and safe for concurrent use.
func (s *Summarizer) Stats() SummarizerStats {
	return SummarizerStats{OK: s.stats.ok.Load(), ModelFailed: s.stats.modelFailed.Load(),
		OverwriteFailed: s.stats.overwriteFailed.Load()}
}

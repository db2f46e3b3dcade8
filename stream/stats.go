package stream

import (
	"sync"

	"github.com/liveactivity/liveactivity/activity"
)

// ConsumerStats counts the work of a [Consumer] since it was created. Package
// [github.com/liveactivity/liveactivity/stream/streammetrics] turns the counts into
// Prometheus metrics.
type ConsumerStats struct {
	Connects        uint64 // times the stream was opened
	Interruptions   uint64 // times the stream could not be opened, or ended
	Gaps            uint64 // times the server no longer had all entries that were asked for
	HandlerFailures uint64 // times a handler returned an error that a retry may fix
	Parked          uint64 // times a session fell behind because its handler kept failing

	// Entries acknowledged.
	AcknowledgedActions, AcknowledgedSummaries, AcknowledgedOthers uint64

	// Entries skipped.
	SkippedMalformed   uint64
	SkippedTooLarge    uint64 // over ConsumerOptions.MaxEventBytes
	SkippedRefused     uint64 // by an error marked by Permanent; of an erasure, each session
	SkippedHeldTooLong uint64 // sessions released to make room for others, see Delivery.Hold

	Pending int64 // entries in flight: received, not yet acknowledged, and of no session that is behind
	Behind  int64 // sessions that are behind or held: their entries wait in the log
}

// WriterStats counts the work of a [Writer] since it was created.
type WriterStats struct {
	Written  uint64 // merged batches written
	Failures uint64 // writes that failed and are retried
	Refused  uint64 // merged batches skipped because of a permanent error

	Pending int64 // batches added and not yet written
}

// SummarizerStats counts the summaries that a [Summarizer] has tried to make since
// it was created, by result.
type SummarizerStats struct{ OK, ModelFailed, OverwriteFailed uint64 }

// counts guards the counts that a Stats method returns a copy of.
type counts[S any] struct {
	mu    sync.Mutex
	stats S
}

// add changes the counts. The function is called with the lock held and must return quickly.
func (c *counts[S]) add(change func(*S)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.stats)
}

// now returns a consistent copy of the counts.
func (c *counts[S]) now() S {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Stats returns the current counts. It is cheap and safe for concurrent use.
func (c *Consumer) Stats() ConsumerStats {
	s := c.stats.now()
	if r := c.running.Load(); r != nil {
		s.Pending, s.Behind = r.ledger.InFlight(), r.ledger.Behind()
	}
	return s
}

// acknowledged counts an acknowledged entry of a type.
func (s *ConsumerStats) acknowledged(typ string) {
	switch typ {
	case activity.BatchType:
		s.AcknowledgedActions++
	case SummaryType:
		s.AcknowledgedSummaries++
	default:
		s.AcknowledgedOthers++
	}
}

// Stats returns the current counts. It is cheap and safe for concurrent use.
func (w *Writer) Stats() WriterStats {
	s := w.stats.now()
	s.Pending = w.scheduler.Items()
	return s
}

// Stats returns the current counts. It is cheap and safe for concurrent use.
func (s *Summarizer) Stats() SummarizerStats { return s.stats.now() }

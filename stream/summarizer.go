package stream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/summary"
)

// SummarizerOptions configures a [Summarizer]. A zero field means its default.
type SummarizerOptions struct {
	Threshold int // actions of a session that make a summary due; DefaultThreshold
	// Model writes the summaries: it answers a prompt, as a language model does,
	// and must return soon after ctx has ended; nil for activity.Digest, which
	// needs no model.
	Model func(ctx context.Context, prompt string) (string, error)

	ModelTimeout time.Duration // how long the model may take; DefaultModelTimeout
	Prompt       string        // the instructions, before the data; DefaultPrompt
	MaxBytes     int64         // memory of the sessions; the longest inactive are evicted; DefaultMaxBytes
	Logger       *slog.Logger  // slog.Default()
}

// Summarizer summarizes the actions of each session: once Threshold actions are not
// covered by a summary, it asks the model to summarize them and everything before,
// and calls overwrite to replace the written actions with the result. The history
// is dropped only after overwrite has returned nil. A model that fails, times out
// or returns nothing, and an overwrite that fails, change nothing and are retried
// at the session's next batch. An overwrite that took effect and then failed is
// therefore repeated, with a Summary that replaces at least as many actions.
//
// With a model, a click that arrives again with its marks counts once, unless the model has
// already been asked about it. A digest lists such a click once.
//
// Calls for one session never overlap; different sessions are summarized
// concurrently. A session is identified by product and session id; batches
// without a session id are not summarized.
//
// Memory is bounded: if a session's model fails for hours, the newest 500 actions
// and a digest of the earlier ones are kept. An evicted session starts over.
type Summarizer struct {
	overwrite func(ctx context.Context, s Summary) error
	opts      SummarizerOptions
	stats     counts[SummarizerStats]

	mu       sync.Mutex
	sessions *fair.Cache[string, *history] // by product and session id; pinned while being summarized
}

// Summary is a [Summarizer]'s summary of a session. It is also the JSON of a
// "summary" event of the stream.
type Summary struct {
	Type      string `json:"type"` // SummaryType
	ProductID string `json:"product_id"`
	SessionID string `json:"session_id"`
	Email     string `json:"email"` // empty while unknown

	// Text is the summary of the whole session. It includes the content of the
	// previous summary and replaces it.
	Text string `json:"summary"`

	// Replaces is the number of actions it replaces: the oldest ones written since
	// the last accepted summary. Actions written while the model was running are
	// not included.
	Replaces int `json:"replaces"`

	ForwardedAt float64 `json:"forwarded_at"` // epoch seconds
}

// NewSummarizer returns a summarizer that passes its summaries to overwrite;
// opts may be nil. overwrite should return soon after its ctx has ended.
// NewSummarizer reports all invalid arguments at once.
func NewSummarizer(overwrite func(ctx context.Context, s Summary) error, opts *SummarizerOptions) (*Summarizer, error) {
	o := *cmp.Or(opts, &SummarizerOptions{})
	wrong := options.Mistakes{Package: "stream"}
	wrong.Require(overwrite != nil, "overwrite", "must not be nil")
	o.Threshold = options.Default(&wrong, "Threshold", o.Threshold, DefaultThreshold)
	o.ModelTimeout = options.Default(&wrong, "ModelTimeout", o.ModelTimeout, DefaultModelTimeout)
	o.Prompt = cmp.Or(o.Prompt, DefaultPrompt)
	o.MaxBytes = options.Default(&wrong, "MaxBytes", o.MaxBytes, DefaultMaxBytes)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return &Summarizer{overwrite: overwrite, opts: o,
		sessions: fair.New[string, *history](&fair.Options{TotalBytes: o.MaxBytes}, nil)}, nil
}

// Add adds a batch and, if its session has reached the threshold, makes the
// summary before it returns. While another Add is working on the session it
// only adds the batch; the other call makes any further summary that is due.
// Add never fails, so a caller does not retry a batch; when ctx ends it
// returns early and nothing is lost.
func (s *Summarizer) Add(ctx context.Context, b activity.Batch) error {
	if h := s.note(b); h != nil {
		s.work(ctx, h, func(do func() error) error { return do() })
	}
	return nil
}

// note adds a batch to its session's history. If a summary is due and no call
// is working on it, note returns the history, and the caller must call work.
func (s *Summarizer) note(b activity.Batch) *history {
	if b.SessionID == "" || len(b.Actions) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h, known := s.sessions.Get(b.ProductID, b.SessionID)
	if !known {
		h = &history{key: historyKey{b.ProductID, b.SessionID}}
	}
	h.add(b)
	if s.opts.Model != nil {
		h.Keep(summary.MaxActions)
	} else {
		h.Keep(0) // all in the digest
	}
	due := !h.busy && h.count >= s.opts.Threshold
	h.busy = h.busy || due
	s.keep(h)
	if !due {
		return nil
	}
	return h
}

// Erase forgets the sessions of an erasure. The next summary of such a session covers only
// the actions added later, by anyone. A summary in progress is abandoned, unless it has
// already been passed to overwrite.
func (s *Summarizer) Erase(e Erasure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range e.SessionIDs {
		if h, ok := s.sessions.Get(e.ProductID, id); ok {
			h.erased = true
			s.sessions.Remove(e.ProductID, id)
		}
	}
}

// isErased reports whether the session was erased while it was being summarized.
func (s *Summarizer) isErased(h *history) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.erased
}

// keep stores a history as the most recently used one, and evicts others beyond the
// bound.
func (s *Summarizer) keep(h *history) {
	s.sessions.Put(h.key.product, h.key.session, h, fair.Item{Bytes: h.size(), Pinned: h.busy})
	s.sessions.Trim(h.key.product)
}

// work makes summaries of a session until none is due, or until one fails and no
// batch has arrived in the meantime. It calls overwrite inside exclusively.
func (s *Summarizer) work(ctx context.Context, h *history, exclusively func(do func() error) error) {
	for again := true; again; {
		s.mu.Lock()
		d := *h // a draft: batches can still be added to h
		s.mu.Unlock()
		ok := s.summarize(ctx, h, d, exclusively)
		again = s.next(ctx, h, d, ok)
	}
}

// next reports whether to make another summary after the one from d. If not, it
// releases the session, and the next call of note that finds a summary due makes
// it.
func (s *Summarizer) next(ctx context.Context, h *history, d history, ok bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.erased {
		return false
	}
	if ctx.Err() == nil && (ok || h.seen > d.seen) && h.count >= s.opts.Threshold {
		return true
	}
	h.busy = false
	s.keep(h)
	return false
}

// summarize makes the summary of a draft and reports whether it was accepted.
func (s *Summarizer) summarize(ctx context.Context, h *history, d history,
	exclusively func(do func() error) error) bool {
	if ctx.Err() != nil {
		return false
	}
	text, err := s.text(ctx, d)
	if err != nil {
		s.failed(ctx, h.key, "model_failed", err, func(s *SummarizerStats) { s.ModelFailed++ })
		return false
	}
	err = exclusively(func() error {
		if ctx.Err() != nil || s.isErased(h) {
			return ctx.Err()
		}
		return s.overwrite(ctx, Summary{Type: SummaryType, ProductID: d.key.product, SessionID: d.key.session,
			Email: d.email, Text: text, Replaces: d.written, ForwardedAt: activity.Seconds(time.Now())})
	})
	if err != nil {
		s.failed(ctx, h.key, "overwrite_failed", err, func(s *SummarizerStats) { s.OverwriteFailed++ })
		return false
	}
	s.stats.add(func(s *SummarizerStats) { s.OK++ })
	s.mu.Lock()
	defer s.mu.Unlock()
	h.count, h.written = h.seen-d.seen, h.written-d.written
	h.Cover(h.count, false)
	if s.opts.Model != nil {
		h.summary = text
	}
	return true
}

// failed records a failure, unless ctx has ended.
func (s *Summarizer) failed(ctx context.Context, key historyKey, result string, err error,
	count func(*SummarizerStats)) {
	if ctx.Err() != nil {
		return
	}
	s.stats.add(count)
	s.opts.Logger.Warn("session was not summarized; retrying at its next batch", "result", result,
		"product_id", key.product, "session_id", key.session, "err", err)
}

// text returns the summary of a draft.
func (s *Summarizer) text(ctx context.Context, d history) (string, error) {
	if s.opts.Model == nil {
		return d.Extract(), nil
	}
	answer, err := summary.Ask(ctx, s.opts.Model, s.opts.ModelTimeout, d.Prompt(s.opts.Prompt, d.summary))
	if err != nil {
		return "", fmt.Errorf("stream: %w", err)
	}
	return answer, nil
}

// historyKey is a session of a product.
type historyKey struct{ product, session string }

// history holds a session's actions that no summary covers yet. The summarizer's mutex guards
// every field except key. Only the call that has set busy summarizes it.
type history struct {
	key     historyKey
	busy    bool   // being summarized
	erased  bool   // no further summary is made
	email   string // the latest one known
	seen    int    // actions so far
	count   int    // actions since the last summary
	written int    // the same, including repeated clicks
	summary string // the model's last accepted summary
	summary.History
}

// add adds a batch.
func (h *history) add(b activity.Batch) {
	h.email = cmp.Or(b.Email, h.email)
	h.written += len(b.Actions)
	for _, a := range b.Actions {
		// While the history is busy a draft may hold the click: then the mark goes into the next
		// one.
		if len(a.Marks) > 0 && !h.busy && h.Replace(a.Action) {
			continue
		}
		h.History.Add(a.Action)
		h.seen, h.count = h.seen+1, h.count+1
	}
}

// size returns the approximate memory of the history, in bytes.
func (h *history) size() int64 {
	size := fair.Size(unsafe.Sizeof(*h)) + fair.Size(len(h.key.product)) + fair.Size(len(h.key.session)) +
		fair.Size(len(h.email)) + fair.Size(len(h.summary)) +
		fair.Size(cap(h.Recent)*int(unsafe.Sizeof(summary.Action{})))
	if h.Digest != nil {
		size += h.Digest.Size()
	}
	for _, a := range h.Recent {
		size += fair.Size(len(a.Title)) + fair.Size(len(a.Text)) + fair.Size(len(a.URL))
	}
	return size
}

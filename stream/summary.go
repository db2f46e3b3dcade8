package stream

// SummaryType is the type field of every [Summary].
const SummaryType = "summary"

// Summary is what a session's actions were summed up to, by a [Summarizer]. It
// is also the JSON of a "summary" event of the stream.
type Summary struct {
	Type      string `json:"type"` // SummaryType
	ProductID string `json:"product_id"`
	SessionID string `json:"session_id"`
	Email     string `json:"email"` // empty while unknown

	// Text is the summary. It covers everything known of the session, also
	// what the summary before it covered, which it takes the place of.
	Text string `json:"summary"`

	// Replaces is how many actions it takes the place of: the oldest ones of
	// those written since the summary before it that was taken. Actions that
	// were written while the model was at work are not among them.
	Replaces int `json:"replaces"`

	ForwardedAt float64 `json:"forwarded_at"` // epoch seconds
}

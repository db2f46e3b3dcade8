package stream

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

	// Replaces is the number of actions it replaces: the oldest of those
	// written since the last accepted summary. Actions written while the model
	// was running are not included.
	Replaces int `json:"replaces"`

	ForwardedAt float64 `json:"forwarded_at"` // epoch seconds
}

package tracing

// Flow counts the outcomes of a product's events, and the notes, summaries and offers that the
// service wrote, in some span of time.
type Flow struct {
	Accepted  int `json:"accepted"`  // events that made an action or updated a session
	Ignored   int `json:"ignored"`   // events that did neither
	Duplicate int `json:"duplicate"` // events seen before within the retention
	Actions   int `json:"actions"`   // appended to the log
	Summaries int `json:"summaries"` // written into conversations
	Notes     int `json:"notes"`     // of actions, written into conversations
	Offers    int `json:"offers"`    // of help, made in conversations
}

// Plus returns the sums of two counts.
func (f Flow) Plus(g Flow) Flow {
	return Flow{f.Accepted + g.Accepted, f.Ignored + g.Ignored, f.Duplicate + g.Duplicate,
		f.Actions + g.Actions, f.Summaries + g.Summaries, f.Notes + g.Notes, f.Offers + g.Offers}
}

// Meter receives the counts of a product's latest events. It is called concurrently while requests
// are served, and must not block.
type Meter func(productID string, f Flow)

// Count calls the meter, unless it is nil.
func (m Meter) Count(productID string, f Flow) {
	if m != nil {
		m(productID, f)
	}
}

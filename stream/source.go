package stream

import (
	"context"
	"time"
)

// Source is where a [Consumer] reads a product's entries: a remote stream, or
// a log in this process.
type Source interface {
	// Follow calls deliver with every event after the cursor, in order and one
	// at a time, then with new ones. The cursor after is the id of the last
	// entry read; if empty, Follow starts with entries not older than since,
	// and if that is zero, at the end of the log. A session id selects one
	// session. It reconnects as needed. It returns the error of ctx once ctx
	// has ended, an error that deliver returned, or a *[RefusedError] if it is
	// permanently refused.
	Follow(ctx context.Context, after string, since time.Time, sessionID string,
		deliver func(event, id string, data []byte) error) error
}

// Events of a [Source], and types of entries beside [activity.BatchType].
const (
	// EventEntry is an entry of the log. The recipient owns Data, but must not
	// modify it.
	EventEntry = ""
	// EventHeartbeat reports that everything available has been delivered.
	EventHeartbeat = "heartbeat"
	// EventGap reports that entries after the cursor are no longer retained.
	// Data is {"requested": id, "oldest": id}.
	EventGap = "gap"
	// EventOpen reports that the source has been opened or reopened. Data is
	// the time at the source, in decimal epoch seconds; a source that started
	// without a cursor delivers everything from then on.
	EventOpen = "open"
	// EventTooLarge replaces an entry over the size limit.
	EventTooLarge = "too_large"

	// SummaryType is the type of every [Summary].
	SummaryType = "summary"
)

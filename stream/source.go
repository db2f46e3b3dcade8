package stream

import (
	"context"
	"time"

	"github.com/liveactivity/liveactivity/activity/feed"
)

// Source is where a [Consumer] reads a product's entries: a remote stream, or
// a log in this process.
type Source interface {
	// Follow calls deliver with every event after the cursor, in order and one at a time, then
	// with new ones: [feed.Open] each time it has opened the log, [feed.Gap] in place of lost
	// entries, and [feed.CaughtUp] once nothing more is there. The cursor after is the ID of the
	// last entry read; if empty, Follow starts with entries not older than since, and if that is
	// zero, at the end of the log. It reconnects as needed. It returns the error of ctx once ctx
	// has ended, an error that deliver returned, or a *[RefusedError] if the stream is permanently
	// refused. The recipient of an event may keep it, but must not modify its contents. Calls
	// overlap: for sessions that are behind, a Consumer follows the log again from further back.
	Follow(ctx context.Context, after string, since time.Time, deliver func(e feed.Event) error) error
}

// Message is an entry as the stream carried it.
type Message = feed.Message

// Erasure is the erasure of a person, as carried by an entry of type "erase".
type Erasure = feed.Erasure

// SummaryType is the type of every [Summary].
const SummaryType = feed.Summary

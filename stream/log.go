package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// Log keeps the entries of every product in order for a while. All its methods
// are safe for concurrent use. An engine passes the suite in
// [github.com/liveactivity/liveactivity/stream/streamtest].
//
// A reader is a cursor: the ID of the entry it read last. It calls Changed,
// then Read, and waits on the channel when there was nothing to read.
type Log interface {
	// Append adds the entries at the end of the product's log, in order, gives
	// each its ID, and changes documents of the product with them: all of it
	// happens or none. When it returns nil it is as safe as the engine makes
	// anything. When a key of an entry is one of an entry still retained, or
	// of another entry of the call, nothing happens and it returns a
	// *DuplicateError; when a document is not at the version that its change
	// names, a *document.ConflictError. After Close it returns ErrClosed. Any
	// other error means that storage cannot be reached, and leaves open
	// whether the call had an effect: repeat it later, with the same keys.
	Append(ctx context.Context, productID string, entries []Entry, changes ...document.Change) error

	// Read fills dst with the entries after the cursor, oldest first, and
	// returns how many there were; zero and nil mean that there is nothing
	// yet. When entries after the cursor have been dropped it returns a
	// *GapError. When the log is closed and everything was read it returns
	// ErrClosed. It never waits for entries. What it returns is shared: it
	// must not be changed.
	Read(ctx context.Context, productID string, after ID, dst []Entry) (int, error)

	// Bounds returns what the product's log holds now.
	Bounds(ctx context.Context, productID string) (Bounds, error)

	// Changed returns a channel that is closed when the product's log gets
	// an entry, or is closed, after the call. It may be closed without cause.
	Changed(productID string) <-chan struct{}

	// Documents returns the documents that Append changes.
	Documents() document.Store

	// Close ends appending. What is there can still be read. Close may be
	// called more than once.
	Close() error
}

// Bounds tells what a product's log holds: every entry with Floor < id ≤ Newest.
type Bounds struct {
	// Floor is the newest ID that may have been dropped. Without entries it
	// equals Newest.
	Floor ID
	// Oldest is the ID of the oldest entry held, zero without entries.
	Oldest ID
	// Newest is the ID given last.
	Newest ID
}

// ErrClosed is returned by a log that takes and has no more entries.
var ErrClosed = errors.New("stream: log is closed")

// GapError says that entries after a cursor are no longer retained.
type GapError struct {
	Floor  ID // where to read on from
	Oldest ID // the first entry after Floor, zero while there is none
}

func (e *GapError) Error() string {
	return fmt.Sprintf("stream: entries up to %s are no longer retained", e.Floor)
}

// DuplicateError says which keys of an Append belong to entries that the log
// holds already.
type DuplicateError struct{ Keys []activity.Key }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("stream: %d of the keys are in the log already", len(e.Keys))
}

// Entry is one event of the stream.
type Entry struct {
	ID        ID             // given by Append
	SessionID string         // what readers may filter by
	Keys      []activity.Key // of the events the entry was made from, in the order of its actions
	Data      []byte         // one JSON object on one line
	frame     []byte         // the server-sent event, encoded once

	// Batch is what Data was encoded from, nil for what is no batch. It is for
	// engines that file the actions themselves, in Append; Read leaves it nil.
	Batch *activity.Batch
}

// Encode gives the entry its ID and makes the event that readers are sent.
// Engines call it when they append an entry, and when they read one back. Data
// then shares memory with the event.
func (e *Entry) Encode(id ID) {
	const idField, dataField = "id: ", "\ndata: "
	frame := make([]byte, 0, len(idField)+40+len(dataField)+len(e.Data)+2)
	frame = append(frame, idField...)
	frame = id.append(frame)
	frame = append(frame, dataField...)
	start := len(frame)
	frame = append(frame, e.Data...)
	e.Data = frame[start:len(frame):len(frame)]
	e.frame = append(frame, "\n\n"...)
	e.ID = id
}

// Defaults of a log's retention.
const (
	DefaultTTL             = activity.DefaultTTL
	DefaultMaxBytes        = 64 << 20 // of a product's log in memory
	DefaultLastingMaxBytes = 4 << 30  // of a product's log that lasts
)

// Retention bounds what a log keeps of each product. A zero field means its
// default.
type Retention struct {
	TTL      time.Duration // how long an entry is kept; DefaultTTL
	MaxBytes int64         // the oldest entries beyond are dropped; the engine's default
}

// WithDefaults returns the retention with its zero fields set.
func (r Retention) WithDefaults(maxBytes int64) Retention {
	if r.TTL <= 0 {
		r.TTL = DefaultTTL
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = maxBytes
	}
	return r
}

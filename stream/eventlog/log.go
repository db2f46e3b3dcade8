package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// Log is an engine: everything that the service keeps goes through it. It keeps
// the entries of every product in order until they are trimmed, and beside them
// documents and the recent actions of users. Its methods are safe for concurrent
// use. An engine passes the suites in
// [github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest].
//
// No method is optional, and none is looked for by a type assertion: a value that
// embeds a Log is one.
//
// A reader is a cursor: the ID of the last entry it read. It calls Changed,
// then Read, and waits on the channel if there was nothing to read.
type Log interface {
	// Append appends the entries to the product's log in order, assigns each
	// its ID, changes documents of the product, and files the entries' batches,
	// identities and erasures for Activity, all or nothing. When it
	// returns nil, everything is as durable as the engine makes it, and can be
	// read and looked up. A call whose ctx ends may still take effect, as a
	// whole. If a key
	// belongs to a retained entry, or to another entry of the call, nothing
	// happens and it returns a *DuplicateError; if a document is not at the
	// version named by its change, a *document.ConflictError; if the product was
	// dropped since the generation that ctx carries, document.ErrDropped. Invalid entries
	// and changes are an error wrapping ErrInvalid or document.ErrInvalid.
	// After Close it returns ErrClosed. Any other error means that storage is
	// unavailable and that the call may or may not have had an effect: retry
	// it later with the same keys.
	Append(ctx context.Context, productID string, entries []Entry, changes ...document.Change) error

	// Read fills dst with the entries after the cursor, oldest first, and
	// returns their number; zero and nil mean that there is nothing yet. It
	// stops before dst is full once the entries' data have reached ReadBytes,
	// so a call costs at most that and one entry. Entries lack everything that an "erase"
	// entry after them in the log covers; one of which nothing is left is of a type that
	// nobody knows (see Entry.Erase). If entries
	// after the cursor have been trimmed it returns a *GapError; the zero ID
	// is the cursor before the first entry. When the log is closed and
	// everything has been read it returns ErrClosed. It never waits for
	// entries. The data returned is shared and must not be modified.
	Read(ctx context.Context, productID string, after ID, dst []Entry) (int, error)

	// Bounds returns the current bounds of the product's log.
	Bounds(ctx context.Context, productID string) (Bounds, error)

	// Changed returns a channel that is closed when, after the call, the
	// product's log gets an entry or is closed. It may be closed spuriously.
	Changed(productID string) <-chan struct{}

	// Documents returns the store of the documents that Append changes.
	Documents() document.Store

	// Activity returns the store of the actions that Append files. An engine
	// that keeps them in memory files them anew from its log after a restart,
	// while Run runs: until then lookups of a product that had entries wait.
	Activity() recent.Store

	// Now returns the time by the clock that IDs are by: recorders of one log
	// go by it, so that servers whose clocks differ agree. It never blocks.
	Now() time.Time

	// Run does the log's own work, such as following the appends of other
	// processes, until ctx ends; it then returns nil. Any other error is the end
	// of the log. It calls report from time to time while it reads back what a
	// restart has left, and once with Done, never at the same time. Call it
	// once; report may be nil.
	Run(ctx context.Context, report func(Progress)) error

	// Ping returns why the log cannot be written to at the moment, nil if it
	// can. It returns soon after ctx has ended.
	Ping(ctx context.Context) error

	// Expire frees the memory, or the room on the disk, of everything that has
	// expired. Reads never return it, and appends free some of it; Expire is
	// for products where nothing happens, a minute apart is plenty.
	Expire(ctx context.Context) error

	// Stats returns the figures of the products that this process has had to
	// do with, and leaves out those that cannot be had within a second or so.
	Stats() map[string]Stats

	// Storage returns the size of a product's data, which costs no more than a
	// read, however much that is.
	Storage(ctx context.Context, productID string) (Storage, error)

	// Drop ends the generations of the product up to through, see
	// document.WithGenerations, and removes everything kept of the product: entries,
	// keys, documents and actions. Its first effect is that writes of these
	// generations are refused with document.ErrDropped, for ever and by every
	// process. Where through is over already, Drop only finishes a Drop that was
	// given up half-way: once one has returned nil, no other Drop of a generation up
	// to its own removes anything. So a caller that begins a new generation first
	// waits for a Drop of the one before. Zero ends no generation, and removes
	// all there is. Appends that carry no generation may be dropped or
	// kept, entries and documents independently.
	//
	// IDs and versions assigned later are still greater than any before; a reader
	// whose cursor was dropped gets a *GapError. Drop accepts unknown products. After
	// Close it returns ErrClosed; after any other error call it again.
	Drop(ctx context.Context, productID string, through document.Version) error

	// Close ends appending. Existing entries can still be read. Close may be
	// called more than once.
	Close() error
}

// Bounds describes the entries of a product's log: every one with TrimmedTo < id ≤
// Newest.
type Bounds struct {
	// TrimmedTo is the ID that the log is trimmed to: entries up to it may be
	// gone. Without entries it equals Newest.
	TrimmedTo ID
	// Oldest is the ID of the oldest entry retained, zero without entries.
	Oldest ID
	// Newest is the ID assigned last.
	Newest ID
	// Lost is the last ID of the entries that storage has acknowledged and lost, as a
	// failover may lose some, zero without any. A view that was made from the log
	// before it changed may show entries that are no longer there.
	Lost ID
}

// filled reports whether Read, having returned the entries for a slice of the
// given length, may have stopped before the end of the log.
func filled(entries []Entry, length int) bool {
	bytes := 0
	for i := range entries {
		bytes += len(entries[i].Data)
	}
	return len(entries) == length || bytes >= ReadBytes
}

// Errors of every log.
var (
	// ErrClosed is returned by a closed log, from Append at once and from Read
	// at the end.
	ErrClosed = errors.New("eventlog: log is closed")
	// ErrInvalid reports entries that no log accepts.
	ErrInvalid = errors.New("eventlog: invalid entry")
)

// GapError reports that entries after a cursor are no longer retained.
type GapError struct {
	TrimmedTo ID // where to read on from
	Oldest    ID // the first entry after TrimmedTo, zero if there is none
}

func (e *GapError) Error() string {
	return fmt.Sprintf("eventlog: entries up to %s are no longer retained", e.TrimmedTo)
}

// DuplicateError reports which keys of an Append belong to retained entries.
type DuplicateError struct{ Keys []activity.Key }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("eventlog: %d duplicate keys", len(e.Keys))
}

// Entry is one event of the stream.
type Entry struct {
	ID        ID             // assigned by Append
	SessionID string         // readers may filter by it
	Keys      []activity.Key // of the events the entry was made from, in the order of its actions
	Data      []byte         // one JSON object on one line; its first member is its type

	// frame is the server-sent event, encoded once. Before the entry has its ID
	// it is nil or, of an entry that owns its memory, the event's data and end
	// behind room for the event's head.
	frame []byte

	// Batch is the value that Data encodes, or nil: its actions are filed by
	// Append, which may keep their strings. Read leaves it nil.
	Batch *activity.Batch

	// shared is the batch of an entry that this process recorded, for as long as
	// anybody uses it. Most followers come before it is collected, and decode
	// nothing.
	shared weak.Pointer[activity.Batch]
}

// Message returns the entry, which has its ID, as it is delivered to its followers.
func (e *Entry) Message() feed.Message {
	if b := e.shared.Value(); b != nil {
		return feed.NewBatch(e.ID.String(), e.Data, b)
	}
	return feed.NewMessage(e.ID.String(), e.Data)
}

// Decode returns the batch of an "actions" entry, which is shared and must not be
// modified, and nil for an entry of another type. The IDs of the actions have the
// entry's keys.
func (e *Entry) Decode() (*activity.Batch, error) {
	if b := e.shared.Value(); b != nil {
		return b, nil
	}
	if feed.TypeOf(e.Data) != feed.Actions {
		return nil, nil
	}
	m := feed.Message{Type: feed.Actions, Data: e.Data}
	b, err := m.Batch()
	if err != nil {
		return nil, fmt.Errorf("eventlog: decode entry %s: %w", e.ID, err)
	}
	for i := range min(len(e.Keys), len(b.Actions)) {
		b.Actions[i].ID = uuid.UUID(e.Keys[i]).String()
	}
	return b, nil
}

// DecodeIdentity returns the identity of an entry, and nil for an entry of another
// type.
func (e *Entry) DecodeIdentity() (*activity.Identity, error) {
	return decodeAs[activity.Identity](e, activity.IdentityType)
}

// DecodeErasure returns the erasure of an entry, and nil for an entry of another type.
func (e *Entry) DecodeErasure() (*activity.Erasure, error) {
	return decodeAs[activity.Erasure](e, activity.EraseType)
}

// decodeAs decodes an entry of a type, and returns nil for an entry of another one.
func decodeAs[T any](e *Entry, typ string) (*T, error) {
	if feed.TypeOf(e.Data) != typ {
		return nil, nil
	}
	m, v := feed.Message{Data: e.Data}, new(T)
	if err := m.Decode(v); err != nil {
		return nil, fmt.Errorf("eventlog: decode entry %s: %w", e.ID, err)
	}
	return v, nil
}

// concerns reports whether a reader of the session, "" for all, is to see the entry.
func (e *Entry) concerns(sessionID string) bool {
	if sessionID == "" || e.SessionID == sessionID {
		return true
	}
	gone, err := e.DecodeErasure()
	return err == nil && gone != nil && slices.Contains(gone.SessionIDs, sessionID)
}

// erased are the data of an entry of which nothing is left. Nobody knows its type.
const erased = `{"type":"erased"}`

// Erase takes everything out of an entry, which has its ID, that erasures after it in the
// log cover: they name its session or a user of it. Engines call it for entries that they
// read; the entry's own memory is not changed.
func (e *Entry) Erase(erasures ...*activity.Erasure) error {
	b, err := e.Decode()
	if err != nil {
		return err
	}
	var left *activity.Batch
	if b != nil {
		left = b.Left(erasures...)
	} else if who, err := e.DecodeIdentity(); err != nil || who != nil && !slices.ContainsFunc(erasures,
		func(x *activity.Erasure) bool { return x.Erases(who.SessionID, who.UserID) }) {
		return err
	}
	switch {
	case b != nil && left == b:
		return nil
	case left == nil:
		e.SessionID, e.Keys, e.Data = "", nil, []byte(erased)
	default:
		if e.Data, err = left.AppendJSON(nil); err != nil {
			return fmt.Errorf("eventlog: encode entry %s: %w", e.ID, err)
		}
		e.Keys = make([]activity.Key, len(left.Actions))
		for i := range left.Actions {
			e.Keys[i] = activity.EventKey(left.Actions[i].ID)
		}
	}
	e.shared = weak.Pointer[activity.Batch]{}
	e.Encode(e.ID)
	return nil
}

const (
	idField, dataField = "id: ", "\ndata: "
	eraseField         = "\nevent: " + feed.Erase + dataField
	eventEnd           = "\n\n"
	// headRoom is for the bytes before the data of an event whose ID has 13
	// and at most 4 digits.
	headRoom = len(idField) + 13 + 1 + 4 + len(dataField)
)

// Own makes the entry independent of its caller's memory, which it is already
// if a Recorder made it. Engines call it for an entry that they keep, or go on
// with after Append has returned.
func (e *Entry) Own() {
	if e.owns() {
		return
	}
	e.SessionID, e.Keys = strings.Clone(e.SessionID), slices.Clone(e.Keys)
	e.setData(e.Data, headRoom)
}

// owns reports whether only the ID is missing in the entry's event.
func (e *Entry) owns() bool { return e.ID == ID{} && e.frame != nil }

// setData makes data, which it copies, the entry's, behind so much room.
func (e *Entry) setData(data []byte, room int) {
	e.frame = make([]byte, room, room+len(data)+len(eventEnd))
	e.frame = append(append(e.frame, data...), eventEnd...)
	e.Data = e.frame[room : room+len(data) : room+len(data)]
}

// Encode assigns the entry its ID and builds the event that readers are sent.
// Engines call it when they append an entry and when they read one back. Data
// then are a copy, or share memory with the event.
func (e *Entry) Encode(id ID) {
	if event, ok := feed.EraseEvent(e.Data); ok {
		e.frame = id.append([]byte(idField))
		e.frame = append(append(append(e.frame, eraseField...), event...), eventEnd...)
		e.ID, e.Data = id, slices.Clone(e.Data)
		return
	}
	var made [128]byte
	head := append(id.append(append(made[:0], idField...)), dataField...)
	if !e.owns() || len(head) > headRoom {
		e.setData(e.Data, len(head))
	}
	e.frame = e.frame[len(e.frame)-len(eventEnd)-len(e.Data)-len(head):]
	copy(e.frame, head)
	e.ID = id
}

// ReadBytes is the size of data at which Read of a log stops, and the others are
// defaults of a [Retention], in bytes.
const (
	ReadBytes = 32 << 10

	DefaultTTL                  = activity.DefaultTTL
	DefaultLastingMaxBytes      = 4 << 30 // of a product's durable log
	DefaultLastingStateMaxBytes = 4 << 30 // of a product's durable state
)

// Retention bounds an engine's data, by age and by bytes of each product and of all.
// A zero field means its default.
type Retention struct {
	TTL      time.Duration // how long an entry is kept; DefaultTTL
	MaxBytes int64         // of the log: the oldest entries beyond are trimmed; the engine's default

	// StateMaxBytes bounds the other state of a product: documents have half of
	// it; actions have half of it in Redis, and in memory three eighths, which
	// leaves the rest to other views of the log. Beyond it the ones
	// written first are evicted; reads do not renew them. Documents without a
	// time to live count and are never evicted. The default is the engine's.
	StateMaxBytes int64

	// TotalBytes bounds the memory of the process for all products' logs
	// together; beyond it the product that holds most keeps fewer entries
	// there, and in an engine in memory loses the oldest. Documents in memory
	// get half as much. The default is a fifth of the memory that the process
	// may use.
	TotalBytes int64
}

// Stats counts the entries that a product's log holds and has lost.
type Stats struct {
	Entries int
	Bytes   int64 // what the entries cost in their storage
	Dropped int64 // entries trimmed for their size before they expired
	Users   int   // whose activity is in memory; zero where it is not
}

// Progress is how far a log has read back its memory.
type Progress struct {
	Read    int64 // entries
	Entries int64 // that there were when it began
	Done    bool  // lookups can be answered
}

// Storage is the size of a product's data and its limit, in bytes
// as they cost where it is kept.
type Storage struct {
	Engine        string `json:"engine"`          // "memory", "bbolt" or "redis"
	LogBytes      int64  `json:"log_bytes"`       // of the log's entries
	LogMaxBytes   int64  `json:"log_max_bytes"`   // Retention.MaxBytes
	StateBytes    int64  `json:"state_bytes"`     // of documents and actions
	StateMaxBytes int64  `json:"state_max_bytes"` // Retention.StateMaxBytes
}

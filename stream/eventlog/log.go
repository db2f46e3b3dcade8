package eventlog

import (
	"context"
	"encoding/json"
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

// Log is an engine: everything that the service stores goes through it. It keeps
// the entries of every product in order until they are trimmed, along with
// documents and users' recent actions. Its methods are safe for concurrent use. An
// engine must pass the suites in
// [github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest].
//
// No method is optional, and callers discover none by type assertions: a value that
// embeds a Log is a complete Log.
//
// A reader is a cursor: the ID of the last entry it read. It calls Changed,
// then Read, and waits on the channel if there was nothing to read.
type Log interface {
	// Append appends the entries to the product's log in order, assigns each its ID,
	// changes documents of the product, and files the entries' batches, identities and
	// erasures for Activity, all or nothing. When it returns nil, everything is as
	// durable as the engine makes it, and can be read and looked up. A call whose ctx
	// ends may still take effect, as a whole. Append has no effect and returns a
	// *DuplicateError if a key belongs to a retained entry or to another entry of the
	// call, a *document.ConflictError if a document is not at the version that its change
	// names, and document.ErrDropped if the product was dropped since the generation that
	// ctx carries. It rejects invalid entries and changes with an error that wraps
	// ErrInvalid or document.ErrInvalid. After Close it returns ErrClosed. Any other
	// error means that storage is unavailable and that the call may or may not have had
	// an effect: retry it later with the same keys.
	Append(ctx context.Context, productID string, entries []Entry, changes ...document.Change) error

	// Read fills dst with the entries after the cursor, oldest first, and
	// returns their number; zero and nil mean that there is nothing yet. It
	// stops before dst is full once the entries' data have reached ReadBytes,
	// so a call costs at most that and one entry. Everything that a later "erase" entry
	// covers has been removed from the entries; an entry with nothing left has a type
	// that no reader knows (see Entry.Erase). If entries after the cursor have been
	// trimmed it returns a *GapError; the zero ID is the cursor before the first entry.
	// When the log is closed and everything has been read it returns ErrClosed. It never
	// waits for entries. The data returned is shared and must not be modified.
	Read(ctx context.Context, productID string, after ID, dst []Entry) (int, error)

	// Bounds returns the current bounds of the product's log.
	Bounds(ctx context.Context, productID string) (Bounds, error)

	// Changed returns a channel that is closed when, after the call, the
	// product's log gets an entry or is closed. It may be closed spuriously.
	Changed(productID string) <-chan struct{}

	// Documents returns the store of the documents that Append changes.
	Documents() document.Store

	// Activity returns the store of the actions that Append files. An engine that
	// keeps them in memory files them again from its log after a restart, when it is
	// opened or while Run is running. Until that is done, lookups for a product that had
	// entries wait.
	Activity() recent.Store

	// Now returns the time of the clock that IDs are taken from. All recorders of a
	// log use it, so that servers with different clocks agree. It never blocks.
	Now() time.Time

	// Run does the log's own work, such as following the appends of other
	// processes, until ctx ends; it then returns nil. Any error it returns is the
	// end of the log. It calls report from time to time while it restores memory
	// after a restart, and once with Done; these calls do not overlap. Call Run
	// once; report may be nil.
	Run(ctx context.Context, report func(Progress)) error

	// Ping returns an error while the log cannot be written to, and nil if it can.
	// It returns soon after ctx has ended.
	Ping(ctx context.Context) error

	// Expire frees the memory or disk space of everything that has expired. Reads
	// never return expired data, and appends free some of it; Expire is for idle
	// products, and one call a minute is plenty.
	Expire(ctx context.Context) error

	// Stats returns the figures of the products that this process has used. It
	// omits a product whose figures are not available within a second or so.
	Stats() map[string]Stats

	// Storage returns the size of a product's data. It costs no more than a read,
	// however large the data are.
	Storage(ctx context.Context, productID string) (Storage, error)

	// Drop ends the product's generations up to through, see
	// document.WithGenerations, and removes everything kept for the product:
	// entries, keys, documents and actions. First it makes every process refuse
	// writes of these generations, permanently, with document.ErrDropped. If through
	// has already ended, Drop only completes an earlier Drop that was interrupted:
	// once a Drop has returned nil, no other Drop of the same or an earlier
	// generation removes anything. A caller must therefore wait for the Drop of one
	// generation before it begins the next. A zero through ends no generation, and
	// removes everything. Appends that carry no generation may be dropped or kept,
	// entries and documents independently.
	//
	// IDs and versions assigned later are still greater than all earlier ones; a
	// reader whose cursor was dropped gets a *GapError. Drop accepts unknown
	// products. After Close it returns ErrClosed; after any other error call it
	// again.
	Drop(ctx context.Context, productID string, through document.Version) error

	// Close ends appends. Existing entries can still be read. Close may be called
	// more than once.
	Close() error
}

// Bounds describes the range of a product's log: every entry has TrimmedTo < ID ≤
// Newest.
type Bounds struct {
	// TrimmedTo is the ID that the log is trimmed to: entries up to it may be
	// gone. Without entries it equals Newest.
	TrimmedTo ID
	// Oldest is the ID of the oldest entry retained, zero without entries.
	Oldest ID
	// Newest is the last ID assigned.
	Newest ID
	// Lost is the last ID of the entries that storage has acknowledged and then lost,
	// for example in a failover; zero if none. A view built from the log before Lost
	// changed may show entries that no longer exist.
	Lost ID
}

// Errors of every log.
var (
	// ErrClosed is returned by a closed log: by Append immediately, and by Read
	// after the last entry.
	ErrClosed = errors.New("eventlog: log is closed")
	// ErrInvalid reports entries that no log accepts.
	ErrInvalid = errors.New("eventlog: invalid entry")
)

// GapError reports that entries after a cursor are no longer retained.
type GapError struct {
	TrimmedTo ID // the cursor to continue from
	Oldest    ID // the first entry after TrimmedTo, zero if there is none
}

func (e *GapError) Error() string {
	return fmt.Sprintf("eventlog: entries up to %s are no longer retained", e.TrimmedTo)
}

// DuplicateError reports which keys of an Append belong to retained entries.
type DuplicateError struct{ Keys []feed.Key }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("eventlog: %d duplicate keys", len(e.Keys))
}

// Entry is one event of the stream.
type Entry struct {
	ID        ID         // assigned by Append
	SessionID string     // readers may filter by it
	Keys      []feed.Key // of the events that the entry was made from, in the order of its actions
	Data      []byte     // one JSON object on one line; its first member is its type

	// frame is the server-sent event, encoded once. Before the entry has its ID,
	// frame is nil or, if the entry owns its memory, holds room for the event's
	// head, then the event's data and end.
	frame []byte

	// Batch is the value that Data encodes, or nil: its actions are filed by
	// Append, which may keep their strings. Read leaves it nil.
	Batch *activity.Batch

	// shared is the batch of an entry that this process recorded, until the garbage
	// collector frees it. Most followers read the entry before that, and need not
	// decode it.
	shared weak.Pointer[activity.Batch]
}

// Message returns the entry as it is delivered to followers. The entry must have
// its ID.
func (e *Entry) Message() feed.Message {
	if b := e.shared.Value(); b != nil {
		return feed.NewBatch(e.ID.String(), e.Data, b)
	}
	return feed.NewMessage(e.ID.String(), e.Data)
}

// Decode returns the batch of an "actions" entry, which is shared and must not be
// modified, and nil for an entry of another type. The IDs of its actions match the
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
func (e *Entry) DecodeIdentity() (*feed.Identity, error) {
	return decodeAs[feed.Identity](e, feed.IdentityType)
}

// DecodeErasure returns the erasure of an entry, and nil for an entry of another type.
func (e *Entry) DecodeErasure() (*feed.Erasure, error) {
	return decodeAs[feed.Erasure](e, feed.Erase)
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

// concerns reports whether a reader of the session, "" for all, must see the entry.
// An erasure concerns every session that it names.
func (e *Entry) concerns(sessionID string) bool {
	if sessionID == "" || e.SessionID == sessionID {
		return true
	}
	gone, err := e.DecodeErasure()
	return err == nil && gone != nil && slices.Contains(gone.SessionIDs, sessionID)
}

// erased is the data of an entry that has nothing left. No reader knows its type.
const erased = `{"type":"erased"}`

// Erase removes from an entry everything that later erasures in the log cover by naming
// its session or a user of it. The entry must have its ID. Engines call Erase for entries
// that they read; it replaces the entry's data and does not write to the memory they are
// in.
func (e *Entry) Erase(erasures ...*feed.Erasure) error {
	b, err := e.Decode()
	if err != nil {
		return err
	}
	if b == nil {
		return e.eraseOther(erasures)
	}
	left := feed.LeftOf(b, erasures...)
	switch {
	case left == b:
		return nil
	case left == nil:
		e.SessionID, e.Keys, e.Data = "", nil, []byte(erased)
	default:
		if e.Data, err = left.AppendJSON(nil); err != nil {
			return fmt.Errorf("eventlog: encode entry %s: %w", e.ID, err)
		}
		e.Keys = keysOf(left)
	}
	e.shared = weak.Pointer[activity.Batch]{}
	e.Encode(e.ID)
	return nil
}

// eraseOther is Erase for an entry without actions. The user of an identity may stay, without the address; of any
// other entry, such as a summary, nothing stays.
func (e *Entry) eraseOther(erasures []*feed.Erasure) error {
	who, err := e.DecodeIdentity()
	if err != nil {
		return err
	}
	switch {
	case who == nil,
		slices.ContainsFunc(erasures, func(x *feed.Erasure) bool { return x.Erases(who.SessionID, who.UserID) }):
		e.SessionID, e.Keys, e.Data = "", nil, []byte(erased)
	case slices.ContainsFunc(erasures, func(x *feed.Erasure) bool { return x.HasEmail(who.Email) }):
		who.Email = ""
		e.Data, _ = json.Marshal(who) // as it was decoded
	default:
		return nil
	}
	e.Encode(e.ID)
	return nil
}

const (
	idField, dataField = "id: ", "\ndata: "
	eraseField         = "\nevent: " + feed.Erase + dataField
	eventEnd           = "\n\n"
	// headRoom is the space for the bytes before an event's data, for an ID with 13
	// and at most 4 digits.
	headRoom = len(idField) + 13 + 1 + 4 + len(dataField)
)

// Own makes the entry independent of its caller's memory. An entry made by a
// Recorder already is. Engines call it for an entry that they keep or still use
// after Append has returned.
func (e *Entry) Own() {
	if e.owns() {
		return
	}
	e.SessionID, e.Keys = strings.Clone(e.SessionID), slices.Clone(e.Keys)
	e.setData(e.Data, headRoom)
}

// owns reports whether the entry's event lacks nothing but the ID.
func (e *Entry) owns() bool { return e.ID == ID{} && e.frame != nil }

// setData copies data into memory of the entry's own, and leaves room bytes before
// them.
func (e *Entry) setData(data []byte, room int) {
	e.frame = make([]byte, room, room+len(data)+len(eventEnd))
	e.frame = append(append(e.frame, data...), eventEnd...)
	e.Data = e.frame[room : room+len(data) : room+len(data)]
}

// Encode assigns the entry its ID and builds the event that readers get. Engines
// call it when they append an entry and when they read one back. Data is then a
// copy, or shares memory with the event.
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

// ReadBytes is the size of data in bytes at which a log's Read stops. The others
// are defaults of [Retention].
const (
	ReadBytes = 32 << 10

	DefaultTTL                  = activity.DefaultTTL
	DefaultLastingMaxBytes      = 4 << 30 // of a product's durable log
	DefaultLastingStateMaxBytes = 4 << 30 // of a product's durable state
)

// Retention bounds an engine's data by age, and by bytes, per product and in total.
// A zero field means its default.
type Retention struct {
	TTL      time.Duration // how long an entry is kept; DefaultTTL
	MaxBytes int64         // of the log, beyond which the oldest entries are trimmed; the engine's default

	// StateMaxBytes bounds a product's other state. Documents have half of it.
	// Actions have half of it in Redis, and three eighths in memory, where the rest
	// is for other views of the log. Beyond its share, roughly the least recently
	// written are evicted first or, in a file, the documents that expire first;
	// reads do not renew them. Documents without a time to live count, but are
	// never evicted. The default is the engine's.
	StateMaxBytes int64

	// TotalBytes bounds the process's memory for the logs of all products together.
	// Beyond it, the product that uses most keeps fewer entries in memory; in an
	// engine without storage it loses the oldest. Documents in memory get half as
	// much. The default is a fifth of the memory that the process may use.
	TotalBytes int64
}

// Stats counts the entries that a product's log holds and has trimmed.
type Stats struct {
	Entries int
	Bytes   int64 // used by the entries in their storage
	Dropped int64 // entries trimmed for their size before they expired
	Users   int   // with activity in memory; zero in engines that keep it elsewhere
}

// Progress reports how far a log has restored its memory.
type Progress struct {
	Read    int64 // entries
	Entries int64 // to read, as counted at the beginning
	Done    bool  // lookups can be answered
}

// Storage is the size of a product's data and its limits, in bytes of the engine's
// storage.
type Storage struct {
	Engine        string `json:"engine"`          // "memory", "bbolt" or "redis"
	LogBytes      int64  `json:"log_bytes"`       // of the log's entries
	LogMaxBytes   int64  `json:"log_max_bytes"`   // Retention.MaxBytes
	StateBytes    int64  `json:"state_bytes"`     // of documents and actions
	StateMaxBytes int64  `json:"state_max_bytes"` // Retention.StateMaxBytes
}

// Package feed defines the entries of a product's log, in the form in which they
// reach their readers, in the same process or over a stream:
//
//	err := source.Follow(ctx, after, since, func(e feed.Event) error {
//		if e.Kind != feed.Entry || e.Type != feed.Actions {
//			return nil
//		}
//		batch, err := e.Batch()
//		fmt.Println(batch.SessionID)
//		return err
//	})
//
// A [Message] is decoded here and nowhere else.
package feed

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
)

// The types of entries that clients of a stream know. An entry of any other
// type is for views inside the service; views that do not know the type ignore
// it.
const (
	Actions = activity.BatchType
	Summary = "summary"
	Erase   = "erase"
)

// public are the types that are sent to clients.
var public = []string{Actions, Summary, Erase}

// IsPublic reports whether clients of a stream receive an entry with these
// data.
func IsPublic(data []byte) bool { return slices.Contains(public, TypeOf(data)) }

// Kind tells the events of a source apart.
type Kind int

const (
	// Entry is an entry of the log: the event's Message.
	Entry Kind = iota
	// CaughtUp reports that everything available has been delivered.
	CaughtUp
	// Gap reports that entries after Requested are no longer retained. Oldest
	// is the first retained entry, empty if there is none.
	Gap
	// Open reports that the source has been opened or reopened. A source
	// without a cursor delivers everything appended since Opened.
	Open
	// TooLarge stands for an entry over the size limit, of which only the ID is
	// known.
	TooLarge
)

// Event is delivered by a source. Fields that belong to another kind are zero.
type Event struct {
	Kind Kind
	Message

	Opened            time.Time // of Open, by the clock of the source, to the second
	Requested, Oldest string    // of Gap: IDs
}

// Message is an entry of a product's log. All followers of the log share
// it: nothing in it may be modified.
type Message struct {
	ID        string // of the entry; opaque
	Type      string // "actions", "summary", …; empty if Data has none
	SessionID string // empty if Data has none
	Data      []byte // UTF-8, one JSON object from a correct server

	batch *activity.Batch // the batch that Data encodes; nil if it is to be decoded
}

// NewBatch returns the "actions" entry with an ID whose data were encoded from b.
// It keeps both, which must not be modified afterwards.
func NewBatch(id string, data []byte, b *activity.Batch) Message {
	return Message{ID: id, Type: b.Type, SessionID: b.SessionID, Data: data, batch: b}
}

// Key is an event ID in a fixed size, for sets of IDs.
type Key [16]byte

// KeyOf returns the key of an event ID: the bytes of a UUID in the usual form of 36 characters,
// else the first half of the ID's SHA-256 digest.
func KeyOf(id string) Key {
	if len(id) == 36 {
		if u, err := uuid.Parse(id); err == nil {
			return Key(u)
		}
	}
	var few [128]byte // most IDs do not allocate
	sum := sha256.Sum256(append(few[:0], id...))
	return Key(sum[:16])
}

// eraseHead is the beginning of the data of an "erase" entry. Clients receive the rest, as an
// event of that name.
const eraseHead = `{"type":"` + Erase + `",`

// EraseEvent returns the data of the event for an "erase" entry with these data, and false
// for any other entry.
func EraseEvent(data []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(eraseHead))
	if !ok {
		return nil, false
	}
	return append([]byte("{"), rest...), true
}

// NewErase returns the "erase" entry with an ID whose event has these data.
func NewErase(id string, event []byte) Message {
	rest, _ := bytes.CutPrefix(bytes.TrimSpace(event), []byte("{"))
	return NewMessage(id, append([]byte(eraseHead), rest...))
}

// NewMessage returns the entry with an ID. It keeps data, unless they are not
// UTF-8: then it keeps a corrected copy.
func NewMessage(id string, data []byte) Message {
	m := Message{ID: id, Data: validUTF8(data)}
	m.Type, m.SessionID = head(m.Data)
	return m
}

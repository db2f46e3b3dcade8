// Package engine helps authors of engines to implement a log, [eventlog.Log], on a
// storage of their own. Users of a log do not need it.
//
// An engine stores the entries; this package has everything that engines share. An
// engine's constructor calls [WithDefaults]. Its Append looks like this, with a
// lock of the product held:
//
//	if err := engine.Validate(entries); err != nil {
//		return err
//	}
//	filings, err := engine.Filings(entries)
//	if err != nil {
//		return err
//	}
//	if err := engine.Duplicates(entries, keys.Has); err != nil {
//		return err
//	}
//	for i := range entries {
//		keys.Add(entries[i].Keys...)
//		entries[i].Own() // they are kept after the call
//		newest = engine.NextID(newest, time.Now())
//		entries[i].Encode(newest)
//		filings[i].Arrived = recent.Position(newest)
//	}
//	// ... make them last, with their documents, and only then show them.
//	users.File(productID, filings...)
//	tail.Add(entries...)
//
// Everything that can fail comes before the entries become durable, so an append is atomic. A
// [recent.Memory] stores the users' actions; an engine whose entries survive a restart fills it
// from them, in order, when it is opened.
//
// [Products] holds an engine's value for each product. [Tail] serves Read, Changed and Bounds for the
// newest entries of a product, and finds the entries to expire. [Erasures] remove from the entries read
// everything that later entries erase. [eventlog.Entry.Encode] gives an entry read from the storage its
// ID and the event for readers.
//
// The contract is the documentation of [eventlog.Log]; the suite in
// [github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest] checks it,
// sentence by sentence, and the one in
// [github.com/liveactivity/liveactivity/activity/document/documenttest] checks the
// documents. Package
// [github.com/liveactivity/liveactivity/stream/eventlog/memorylog] is the shortest
// engine, and the best one to learn from.
package engine

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// WithDefaults returns the retention with its zero fields set: the sizes per
// product to maxBytes and stateMaxBytes. It reports all negative fields at once.
func WithDefaults(r eventlog.Retention, maxBytes, stateMaxBytes int64) (eventlog.Retention, error) {
	wrong := options.Mistakes{Package: "eventlog"}
	r.TTL = options.Default(&wrong, "Retention.TTL", r.TTL, eventlog.DefaultTTL)
	r.MaxBytes = options.Default(&wrong, "Retention.MaxBytes", r.MaxBytes, maxBytes)
	r.StateMaxBytes = options.Default(&wrong, "Retention.StateMaxBytes", r.StateMaxBytes, stateMaxBytes)
	r.TotalBytes = options.Default(&wrong, "Retention.TotalBytes", r.TotalBytes, memlimit.Logs())
	return r, wrong.Err()
}

// UserBytes returns how many bytes of users' actions an engine keeps in memory per product: at
// least one, since zero would mean a default.
func UserBytes(r eventlog.Retention) int64 { return max(1, r.StateMaxBytes/8*3) }

// Validate returns an error wrapping [eventlog.ErrInvalid] for data of more than
// one line, which would be more than one field of a server-sent event. Append
// calls it first.
func Validate(entries []eventlog.Entry) error {
	for i := range entries {
		if data := entries[i].Data; bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
			return fmt.Errorf("%w: the data of entry %d have more than one line", eventlog.ErrInvalid, i)
		}
	}
	return nil
}

// Filings encodes the entries' batches, identities and erasures, so that filing them
// cannot fail: it returns a filing for each entry, with the entry's ID as its arrival.
// Its error wraps [eventlog.ErrInvalid].
func Filings(entries []eventlog.Entry) (filings []recent.Filing, err error) {
	filings = make([]recent.Filing, len(entries))
	for i := range entries {
		if filings[i], err = filing(&entries[i]); err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", eventlog.ErrInvalid, i, err)
		}
		filings[i].Arrived = recent.Position(entries[i].ID)
	}
	return filings, nil
}

// filing returns the filing of an entry, empty for one of another type.
func filing(e *eventlog.Entry) (recent.Filing, error) {
	if e.Batch != nil {
		return recent.NewFiling(e.Batch)
	}
	if who, err := e.DecodeIdentity(); who != nil || err != nil {
		return recent.NewIdentityFiling(who), err
	}
	gone, err := e.DecodeErasure()
	return recent.NewErasureFiling(gone), err
}

// Duplicates returns an [*eventlog.DuplicateError] with every key of the entries that is
// already held or occurs twice, or nil if there are none. held reports whether a retained
// entry has the key; nil means that none has.
func Duplicates(entries []eventlog.Entry, held func(feed.Key) bool) error {
	seen := map[feed.Key]bool{}
	var duplicates []feed.Key
	for i := range entries {
		for _, key := range entries[i].Keys {
			if seen[key] || held != nil && held(key) {
				duplicates = append(duplicates, key)
			}
			seen[key] = true
		}
	}
	if duplicates == nil {
		return nil
	}
	return &eventlog.DuplicateError{Keys: duplicates}
}

// ParseKeys returns keys that were packed one after the other, 16 bytes each. They do not share
// the packed memory. Bytes after the last whole key are ignored.
func ParseKeys[T ~string | ~[]byte](packed T) []feed.Key {
	keys := make([]feed.Key, len(packed)/len(feed.Key{}))
	for i := range keys {
		copy(keys[i][:], packed[i*len(keys[i]):])
	}
	return keys
}

// NextID returns the ID of an entry appended at now. It is always greater than newest, so IDs
// run ahead of a clock that is set back.
func NextID(newest eventlog.ID, now time.Time) eventlog.ID {
	if milli := now.UnixMilli(); milli > 0 && uint64(milli) > newest.Milli {
		return eventlog.ID{Milli: uint64(milli)}
	}
	if newest.Seq == math.MaxUint64 {
		return eventlog.ID{Milli: newest.Milli + 1}
	}
	return eventlog.ID{Milli: newest.Milli, Seq: newest.Seq + 1}
}

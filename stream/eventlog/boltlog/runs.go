package boltlog

import (
	"encoding/binary"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A run is a value in the log bucket: entries of one call whose IDs follow each
// other. Its key is the ID of the last, so that the front can be cut off. It is a
// sum, the number of entries in 2 bytes, and the entries, see appendEntry: at most
// runBytes of them, or a single one.
const (
	runHead  = sumSize + 2
	runBytes = 8 << 10
)

// sealRun completes a run of n entries that the value has behind its head.
func sealRun(key, value []byte, n int) []byte {
	binary.BigEndian.PutUint16(value[sumSize:], uint16(n))
	return seal(key, value)
}

// runIDs returns the IDs of the first and the last entry of a run. It does not
// check the sum.
func runIDs(key, value []byte) (first, last eventlog.ID, err error) {
	if len(key) != idSize || len(value) < runHead {
		return first, last, errMalformed
	}
	last = idAt(key)
	n := uint64(binary.BigEndian.Uint16(value[sumSize:]))
	if n == 0 || n-1 > last.Seq {
		return first, last, errMalformed
	}
	return eventlog.ID{Milli: last.Milli, Seq: last.Seq - (n - 1)}, last, nil
}

// firstOf returns the ID of the first entry of the run at a cursor, zero for none.
func firstOf(key, value []byte) (eventlog.ID, error) {
	if key == nil {
		return eventlog.ID{}, nil
	}
	first, _, err := runIDs(key, value)
	return first, err
}

// lastOf returns the ID of the last entry of the run at a cursor, zero for none.
func lastOf(key, _ []byte) (eventlog.ID, error) {
	if key == nil {
		return eventlog.ID{}, nil
	}
	return parseID(key)
}

// stored is an entry of a run, whose memory it shares.
type stored struct {
	id                           eventlog.ID
	session, keys, data, encoded []byte
}

// parseRun decodes the entries of a run.
func parseRun(key, value []byte) ([]stored, error) {
	body, err := unseal(key, value)
	if err != nil {
		return nil, err
	}
	id, last, err := runIDs(key, value)
	if err != nil {
		return nil, err
	}
	n := int(last.Seq-id.Seq) + 1
	entries := make([]stored, 0, n)
	for b := body[runHead-sumSize:]; len(b) > 0; id.Seq++ {
		e := stored{id: id}
		start := b
		if e.session, b, err = cutBytes(b, 1); err != nil {
			return nil, err
		}
		if e.keys, b, err = cutBytes(b, len(activity.Key{})); err != nil {
			return nil, err
		}
		if e.data, b, err = cutBytes(b, 1); err != nil {
			return nil, err
		}
		e.encoded = start[:len(start)-len(b)]
		entries = append(entries, e)
	}
	if len(entries) != n {
		return nil, errMalformed
	}
	return entries, nil
}

// encodeRun returns a run of the last entries of the one that has the key.
func encodeRun(key []byte, entries []stored) []byte {
	value := make([]byte, runHead)
	for _, e := range entries {
		value = append(value, e.encoded...)
	}
	return sealRun(key, value, len(entries))
}

// size is what the entry takes in the file, see entrySize.
func (e stored) size() int64 { return int64(entryHead + len(e.encoded)) }

// appendEntry appends an entry as it is in a run: the length of the session id,
// the session id, the number of keys, the keys, the length of the data, the data.
func appendEntry(dst []byte, e eventlog.Entry) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(e.SessionID)))
	dst = append(dst, e.SessionID...)
	dst = binary.AppendUvarint(dst, uint64(len(e.Keys)))
	for _, key := range e.Keys {
		dst = append(dst, key[:]...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.Data)))
	return append(dst, e.Data...)
}

// entryHead is what a run takes besides its entries. It counts for each of them,
// whatever run it is in.
const entryHead = idSize + runHead

// entrySize is what an entry takes in the file in a run of its own, but for
// bbolt's own.
func entrySize(e eventlog.Entry) int64 { return int64(entryHead + encodedSize(e)) }

// encodedSize is how many bytes appendEntry appends.
func encodedSize(e eventlog.Entry) int {
	keys := len(e.Keys) * len(activity.Key{})
	return uvarintSize(len(e.SessionID)) + len(e.SessionID) + uvarintSize(len(e.Keys)) + keys + uvarintSize(len(e.Data)) + len(e.Data)
}

func uvarintSize(n int) int {
	size := 1
	for ; n >= 1<<7; n >>= 7 {
		size++
	}
	return size
}

func entriesSize(entries []eventlog.Entry) (size int64) {
	for _, e := range entries {
		size += entrySize(e)
	}
	return size
}

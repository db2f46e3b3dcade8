package boltlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// The file is a bbolt file of these buckets:
//
//	liveactivity     "format" is the version of this layout
//	                 "probe" was written by Ping
//	p/<product ID>   "state" is the product's state
//	  log            ID, 16 bytes → entry, see encodeEntry
//	  documents      name → record
//	  due            milliseconds, 8 bytes, and a name → nothing: when to check whether the
//	                 document has expired, which it never does earlier; 2^62 is added for
//	                 documents that do not yield, so that they come last
//	dropped
//	  <number>       the buckets of a dropped product, whose space is still to be freed
//
// Numbers are big-endian, so that keys that begin with a number are sorted by it. States,
// entries and records begin with a sum, see seal.
var (
	bucketFormat    = []byte("liveactivity")
	keyFormat       = []byte("format")
	keyProbe        = []byte("probe")
	bucketLog       = []byte("log")
	bucketDocuments = []byte("documents")
	bucketDue       = []byte("due")
	bucketDropped   = []byte("dropped")
	keyState        = []byte("state")

	productBuckets = [...][]byte{bucketLog, bucketDocuments, bucketDue}
)

const (
	format        = "6" // raised by every change of the layout
	productPrefix = "p/"
	maxProductID  = bolt.MaxKeySize - len(productPrefix)

	// pageElement is the overhead of bbolt for each key and its value, in bytes.
	pageElement = 16
)

// writeFormat makes the bucket with the number of the layout, in a new file.
func writeFormat(tx *bolt.Tx) error {
	b, err := tx.CreateBucket(bucketFormat)
	if err != nil {
		return err
	}
	return b.Put(keyFormat, []byte(format))
}

// checkFormat returns an error wrapping ErrForeign for a file of another layout, or of another
// program.
func checkFormat(tx *bolt.Tx) error {
	b := tx.Bucket(bucketFormat)
	if b == nil {
		return ErrForeign
	}
	if found := string(b.Get(keyFormat)); found != format {
		const advice = "move the file away to start with an empty one"
		return fmt.Errorf("%w: its format is %.20q, this program reads and writes %q; %s", ErrForeign, found, format, advice)
	}
	return nil
}

// errMalformed reports a part of the file that this package cannot have written.
var errMalformed = fmt.Errorf("%w: malformed record", ErrDamaged)

// sumSize is the size of the sum at the beginning of a value, in bytes.
const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum also covers the key, so a value found under another key is refused.
func sum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

// seal sets the sum at the beginning of the value: a CRC-32C of the key and of the rest of
// the value.
func seal(key, value []byte) []byte {
	binary.BigEndian.PutUint32(value, sum(key, value[sumSize:]))
	return value
}

// unseal checks the value's sum and returns the rest of the value.
func unseal(key, value []byte) ([]byte, error) {
	if len(value) < sumSize || binary.BigEndian.Uint32(value) != sum(key, value[sumSize:]) {
		return nil, errMalformed
	}
	return value[sumSize:], nil
}

// idSize is the size of an ID in the file: milliseconds and sequence number, 8 bytes each.
const idSize = 16

func appendID(dst []byte, id eventlog.ID) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, id.Milli), id.Seq)
}

// parseID is the inverse of appendID. Its error is errMalformed, like all parse errors.
func parseID(b []byte) (eventlog.ID, error) {
	if len(b) != idSize {
		return eventlog.ID{}, errMalformed
	}
	return eventlog.ID{Milli: binary.BigEndian.Uint64(b), Seq: binary.BigEndian.Uint64(b[8:])}, nil
}

// keyAfter returns a key after the one for id, and before the keys for all later
// IDs.
func keyAfter(id eventlog.ID) []byte { return append(appendID(make([]byte, 0, idSize+1), id), 0) }

// state describes a product and has the totals of its buckets. Open counts them again to find
// out whether a page got lost. States can be compared.
//
// The fields are stored in this order, 8 bytes for each number, so another field makes
// another format. A state is written with every change to its totals, in the same
// transaction.
type state struct {
	Born      eventlog.ID // where the log began; while TrimmedTo is the same, nothing was trimmed
	TrimmedTo eventlog.ID // the newest ID dropped from the log
	Version   uint64      // the newest version of a document
	Dropped   uint64      // generations up to here have ended

	Entries, Bytes           uint64 // of the log; bytes by entrySize
	Documents, DocumentBytes uint64 // bytes by record.size
}

// encode returns the state as a value in the product's bucket of that name, with its sum.
func (s state) encode(bucket []byte) ([]byte, error) {
	value, err := binary.Append(make([]byte, sumSize), binary.BigEndian, s)
	return seal(bucket, value), err
}

// parseState returns the state in the product's bucket of that name. A bucket without a state
// is damaged.
func parseState(b *bolt.Bucket, bucket []byte) (s state, err error) {
	value, err := unseal(bucket, b.Get(keyState))
	if err != nil || len(value) != binary.Size(s) {
		return s, errMalformed
	}
	_, err = binary.Decode(value, binary.BigEndian, &s)
	return s, err
}

// encodeEntry returns the entry as a value: room for its sum, which seal sets, the length of the
// session ID, the session ID, the number of keys, the keys, the data. The ID is not part of the
// value: it is the key.
func encodeEntry(e eventlog.Entry) []byte {
	const lengths = 2 * binary.MaxVarintLen16 // longer ones make append grow the value
	size := sumSize + lengths + len(e.SessionID) + len(e.Keys)*len(feed.Key{}) + len(e.Data)
	value := binary.AppendUvarint(make([]byte, sumSize, size), uint64(len(e.SessionID)))
	value = binary.AppendUvarint(append(value, e.SessionID...), uint64(len(e.Keys)))
	for _, key := range e.Keys {
		value = append(value, key[:]...)
	}
	return append(value, e.Data...)
}

// parseEntry checks the sum of an entry, and returns the entry in memory of its own, encoded for
// readers.
func parseEntry(key, value []byte) (e eventlog.Entry, err error) {
	body, err := unseal(key, value)
	if err != nil {
		return e, err
	}
	id, err := parseID(key)
	if err != nil {
		return e, err
	}
	session, body, err := cutBytes(body, 1)
	if err != nil {
		return e, err
	}
	keys, data, err := cutBytes(body, len(feed.Key{}))
	if err != nil {
		return e, err
	}
	e = eventlog.Entry{SessionID: string(session), Keys: engine.ParseKeys(keys), Data: data}
	e.Encode(id)
	return e, nil
}

// entrySize is the space that an entry takes in the file, in bytes.
func entrySize(value []byte) uint64 { return uint64(pageElement + idSize + len(value)) }

// cutBytes cuts items, of size bytes each, off b, which begins with their number as a uvarint.
// The number may be wrong, so it is checked against the length of b before it is multiplied.
func cutBytes(b []byte, size int) (items, rest []byte, err error) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width)/uint64(size) {
		return nil, nil, errMalformed
	}
	b = b[width:]
	return b[:int(n)*size], b[int(n)*size:], nil
}

// record is a document in the file: a sum, the numbers in this order, 8 bytes each, and the
// value. Times are in milliseconds since the epoch. until, due and ttl are all zero or none is:
// a document without a time to live is not in the due bucket. until minus ttl is when it was
// last put or touched.
type record struct {
	version document.Version
	until   int64 // when it expires; zero for never
	due     int64 // its time in the due bucket, zero if it is not there; without last never after until
	ttl     int64 // milliseconds from the last write until it expires
	value   []byte
}

// recordHead is the size of a record without its value, in bytes.
const recordHead = sumSize + 32

// encode returns the record as the value of its name.
func (r record) encode(name []byte) []byte {
	value := make([]byte, sumSize, recordHead+len(r.value))
	for _, number := range [...]int64{int64(r.version), r.until, r.due, r.ttl} {
		value = binary.BigEndian.AppendUint64(value, uint64(number))
	}
	return seal(name, append(value, r.value...))
}

// parseRecord decodes a document. Its value shares memory with the argument and is never
// nil.
func parseRecord(name, value []byte) (record, error) {
	b, err := unseal(name, value)
	if err != nil || len(value) < recordHead {
		return record{}, errMalformed
	}
	return record{document.Version(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:])),
		int64(binary.BigEndian.Uint64(b[16:])), int64(binary.BigEndian.Uint64(b[24:])), b[32:]}, nil
}

// expired reports whether the document's time is over at now, in milliseconds since the epoch.
// The file may still hold it.
func (r record) expired(now int64) bool { return r.until != 0 && r.until <= now }

// size is the space that the document takes in the file, in bytes, its key in the due bucket
// included. A document without such a key counts as if it had one.
func (r record) size(name []byte) uint64 {
	return uint64(pageElement + len(name) + recordHead + len(r.value) + pageElement + dueHead + len(name))
}

// dueHead is the size of the time that begins a key of the due bucket, in bytes.
const dueHead = 8

// last is added to the due times of documents that do not yield. No time has that bit itself,
// so it tells the two classes apart: due&last is the class, and due&^last the time.
const last int64 = 1 << 62

// dueKey is the key of a document in the due bucket.
func dueKey(due int64, name []byte) []byte {
	key := make([]byte, dueHead, dueHead+len(name))
	binary.BigEndian.PutUint64(key, uint64(due))
	return append(key, name...)
}

// parseDue is the inverse of dueKey.
func parseDue(key []byte) (due int64, name []byte, err error) {
	if len(key) <= dueHead {
		return 0, nil, errMalformed
	}
	return int64(binary.BigEndian.Uint64(key)), key[dueHead:], nil
}

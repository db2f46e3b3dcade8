package boltlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// The file is a bbolt file of these buckets:
//
//	liveactivity          "format" is the version of what follows
//	p/<product id>        "state" is that of the product, see state; the
//	                      bucket's sequence is the newest document version
//	  log                 ID, 16 bytes → a run of entries, see runHead
//	  documents           name → document, see record
//	  places              place, 16 bytes → the mortal documents that are there,
//	                      see group
//	  expiry              milliseconds, 8 bytes, and a place → nothing: when to
//	                      look whether the documents there have expired
//	dropped
//	  <number>            the buckets of a product that was dropped, whose room is
//	                      still to be freed
//
// Numbers are big-endian. Runs of entries, documents, groups and states begin
// with a sum, see seal.
var (
	bucketFormat    = []byte("liveactivity")
	keyFormat       = []byte("format")
	bucketLog       = []byte("log")
	bucketDocuments = []byte("documents")
	bucketPlaces    = []byte("places")
	bucketExpiry    = []byte("expiry")
	bucketDropped   = []byte("dropped")
	keyState        = []byte("state")

	productBuckets = [][]byte{bucketLog, bucketDocuments, bucketPlaces, bucketExpiry}
)

const (
	format        = "4" // a file of another is refused: raise it with every change of the layout
	productPrefix = "p/"
)

func writeFormat(tx *bolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists(bucketFormat)
	if err != nil {
		return err
	}
	return b.Put(keyFormat, []byte(format))
}

func checkFormat(tx *bolt.Tx) error {
	b := tx.Bucket(bucketFormat)
	if b == nil {
		return ErrForeign
	}
	if found := string(b.Get(keyFormat)); found != format {
		return fmt.Errorf("%w: its format is %.20q, this program reads and writes %q; move the file away to start with an empty one", ErrForeign, found, format)
	}
	return nil
}

const idSize = 16

func appendID(dst []byte, id eventlog.ID) []byte {
	dst = binary.BigEndian.AppendUint64(dst, id.Milli)
	return binary.BigEndian.AppendUint64(dst, id.Seq)
}

func parseID(b []byte) (eventlog.ID, error) {
	if len(b) != idSize {
		return eventlog.ID{}, errMalformed
	}
	return idAt(b), nil
}

func idAt(b []byte) eventlog.ID {
	return eventlog.ID{Milli: binary.BigEndian.Uint64(b), Seq: binary.BigEndian.Uint64(b[8:])}
}

// errMalformed says that something in the file is not as this package writes it.
var errMalformed = fmt.Errorf("%w: malformed record", ErrDamaged)

// sumSize is how many bytes the sum takes that a value begins with.
const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

// seal sets the sum at the beginning of the value, which is that of the key
// and of the rest of the value.
func seal(key, value []byte) []byte {
	binary.BigEndian.PutUint32(value, sum(key, value[sumSize:]))
	return value
}

// unseal returns the value without its sum, which it checks.
func unseal(key, value []byte) ([]byte, error) {
	if len(value) < sumSize || binary.BigEndian.Uint32(value) != sum(key, value[sumSize:]) {
		return nil, errMalformed
	}
	return value[sumSize:], nil
}

// state is what is known of a product besides what is in it. That the file
// holds as many entries and documents is checked when it is opened: it
// distinguishes when some have been lost.
type state struct {
	born               eventlog.ID // where the log began: it has lost nothing while it is trimmed to that
	trimmedTo          eventlog.ID // the newest ID dropped from the log
	entries, documents uint64
	documentBytes      uint64 // what the documents take, see record.cost
}

// encode returns the state as a value in the product's bucket. Its sum is that
// of the bucket's name, too.
func (s state) encode(bucket []byte) []byte {
	value := appendID(appendID(make([]byte, sumSize), s.born), s.trimmedTo)
	value = binary.BigEndian.AppendUint64(value, s.entries)
	value = binary.BigEndian.AppendUint64(value, s.documents)
	value = binary.BigEndian.AppendUint64(value, s.documentBytes)
	return seal(bucket, value)
}

// stateOf returns the state in the product's bucket of that name.
func stateOf(b *bolt.Bucket, bucket []byte) (state, error) {
	v, err := unseal(bucket, b.Get(keyState))
	if err != nil || len(v) != 2*idSize+24 {
		return state{}, errMalformed
	}
	numbers := v[2*idSize:]
	return state{idAt(v), idAt(v[idSize:]), binary.BigEndian.Uint64(numbers), binary.BigEndian.Uint64(numbers[8:]),
		binary.BigEndian.Uint64(numbers[16:])}, nil
}

// cutBytes cuts a number of items of a size off b.
func cutBytes(b []byte, size int) (items, rest []byte, err error) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width)/uint64(size) {
		return nil, nil, errMalformed
	}
	b = b[width:]
	return b[:int(n)*size], b[int(n)*size:], nil
}

func parseKeys(b []byte) []activity.Key {
	keys := make([]activity.Key, len(b)/len(activity.Key{}))
	for i := range keys {
		copy(keys[i][:], b[i*len(keys[i]):])
	}
	return keys
}

// record is a document as it is kept: a sum, the numbers in this order, 8 bytes
// each, and the value.
type record struct {
	version document.Version
	written uint64 // the version of the call that put or touched it last
	place   place  // zero for a document that never expires
	ttl     int64  // milliseconds that it had to live when it was written
	until   int64  // milliseconds since the epoch from when on it has expired; zero for never
	value   []byte
}

const recordHead = sumSize + 48

// append appends the record as the value of its name.
func (r record) append(dst, name []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, sumSize)...)
	for _, number := range [...]uint64{uint64(r.version), r.written, r.place.written, r.place.number, uint64(r.ttl), uint64(r.until)} {
		dst = binary.BigEndian.AppendUint64(dst, number)
	}
	dst = append(dst, r.value...)
	seal(name, dst[start:])
	return dst
}

// parseRecord decodes a document, whose value shares memory with the one given.
func parseRecord(name, value []byte) (record, error) {
	b, err := unseal(name, value)
	if err != nil || len(value) < recordHead {
		return record{}, errMalformed
	}
	return record{
		version: document.Version(binary.BigEndian.Uint64(b)),
		written: binary.BigEndian.Uint64(b[8:]),
		place:   place{binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])},
		ttl:     int64(binary.BigEndian.Uint64(b[32:])),
		until:   int64(binary.BigEndian.Uint64(b[40:])),
		value:   b[48:],
	}, nil
}

// pageElement is what bbolt adds to each key and value.
const pageElement = 16

// cost returns what a document takes in the file, with a place of its own.
func (r record) cost(name string) uint64 {
	const at = pageElement + placeSize + groupHead + maxNameWidth + pageElement + expirySize
	return uint64(pageElement + len(name) + recordHead + len(r.value) + at + len(name))
}

// clock is by what time documents expire.
type clock struct {
	now    int64  // milliseconds since the epoch
	opened int64  // when the file was opened
	newest uint64 // the newest write of the product that the file held then
}

// expired reports whether a document's time is over. The time of one that was
// written by a clock that was ahead begins when the file is opened.
func (r record) expired(c clock) bool {
	until := r.until
	if r.written <= c.newest && until-r.ttl > c.now {
		until = min(until, c.opened+r.ttl)
	}
	return r.until != 0 && until <= c.now
}

package intake

import (
	"crypto/sha256"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// MaxText is the number of bytes of an ID, a name, a time or a label that are read. It exceeds MaxID,
// so that an ID that is too long is still too long after the cut.
const MaxText = 2 * MaxID

// MaxURL is the number of bytes of a page's URL that are read: activity.CleanURL reads 64 KiB to
// remove secrets.
const MaxURL = 65 << 10

// Reader reads the JSON of events. The methods that it adds to a scanner's tolerate mistakes of
// senders: they skip values of unexpected types. Each of them reads exactly one value. Strings are
// bounded copies, which may be retained. A Reader is not safe for concurrent use.
type Reader struct {
	jsonscan.Scanner
	json  []byte  // the input, to which offsets refer
	again *Reader // the result of Again, for reuse; nil before
}

// Again returns a reader of an object that was read already. It is valid until the next call. It does
// not move r.
func (r *Reader) Again(of Span) *Reader {
	if r.again == nil {
		r.again = &Reader{}
	}
	r.again.Reset(r.json[of.From:of.To])
	return r.again
}

// Reset makes r a reader of json, which must not change until the next Reset.
func (r *Reader) Reset(json []byte) {
	r.Scanner.Reset(json)
	r.json = json
}

// Object calls field, which must read the value, for each key of an object. The key is valid until
// the value is read.
func (r *Reader) Object(field func(key []byte)) {
	if r.Kind() != '{' {
		r.Skip()
		return
	}
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		field(key)
	}
}

// Array calls element, which must read the element, for at most the first limit elements of an array,
// and skips the others.
func (r *Reader) Array(limit int, element func()) {
	if r.Kind() != '[' {
		r.Skip()
		return
	}
	r.BeginArray()
	for n := 0; r.Element(); n++ {
		if n < limit {
			element()
		} else {
			r.Skip()
		}
	}
}

// Event calls read, which reads the next value and may set the ID, and then trims the ID. An object
// without an ID gets its [Reader.Digest]; any other value has none.
func (r *Reader) Event(id *string, read func()) {
	isObject := r.Kind() == '{'
	start := r.Offset()
	read()
	if *id = Trimmed(*id); *id == "" && isObject {
		*id = r.Digest(start)
	}
}

// SetString reads a string, cut after limit bytes.
func (r *Reader) SetString(s *string, limit int) {
	if r.Kind() != '"' {
		r.Skip()
		return
	}
	*s = r.Text(limit)
}

// SetText reads a string, number or boolean as text, cut after MaxText bytes. Unlike other texts, one
// that is not UTF-8, or has half a surrogate pair, is returned as invalid UTF-8, because different IDs
// must not become the same.
func (r *Reader) SetText(s *string) {
	switch r.Kind() {
	case '{', '[', 'n':
		r.Skip()
		return
	}
	start, halves := r.Offset(), r.Halves()
	*s = r.Text(MaxText)
	if !utf8.Valid(r.json[start:r.Offset()]) || r.Halves() > halves {
		*s += "\xff"
	}
}

// Digest returns an ID for an event without one: the first half of the SHA-256 of its JSON, read since
// start, as a UUID. A byte-identical copy of the event is thus a duplicate.
func (r *Reader) Digest(start int64) string {
	sum := sha256.Sum256(r.json[start:r.Offset()])
	return uuid.UUID(sum[:len(uuid.UUID{})]).String()
}

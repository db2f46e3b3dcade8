package intake

import (
	"crypto/sha256"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// MaxText is how many bytes of an ID, a name, a time or a label are read, at most. More is read
// than is used, so an ID that is too long is still too long after it is cut.
const MaxText = 2 * MaxID

// MaxURL is how many bytes of a page's address are read: activity.CleanURL reads 64 KiB
// to leave secrets out.
const MaxURL = 65 << 10

// Reader reads the JSON of events. The methods that it has beside a scanner's are for fields
// that senders get wrong: a value of another type changes nothing. Each of them reads exactly
// one value. The strings are bounded copies, so they may be kept. A reader is used by one
// goroutine.
type Reader struct {
	jsonscan.Scanner
	json  []byte  // the input, to which offsets refer
	again *Reader // of Again, to use again; nil until then
}

// Again returns a reader of a part of the JSON that was read, from one offset to another. It is
// valid until the next call, and the position of r stays.
func (r *Reader) Again(from, to int64) *Reader {
	if r.again == nil {
		r.again = &Reader{}
	}
	r.again.Reset(r.json[from:to])
	return r.again
}

// Reset makes r a reader of json, which must not change until the next Reset.
func (r *Reader) Reset(json []byte) {
	r.Scanner.Reset(json)
	r.json = json
}

// Object calls field, which reads the value, for each key of an object. The key is valid until
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

// Array calls element, which reads it, for each of the first elements of an array, at most
// limit of them. The others are skipped.
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

// Event calls read, which reads the value that comes next and may set the ID. The ID is
// trimmed; an event without one gets its [Reader.Digest], and a value that is no object none.
func (r *Reader) Event(id *string, read func()) {
	isObject := r.Kind() == '{'
	start := r.Offset()
	read()
	if *id = Trimmed(*id); *id == "" && isObject {
		*id = r.Digest(start)
	}
}

// SetString reads a string of at most limit bytes. A longer one is cut.
func (r *Reader) SetString(s *string, limit int) {
	if r.Kind() != '"' {
		r.Skip()
		return
	}
	*s = r.String(limit)
}

// SetText reads a string of at most MaxText bytes, or a number or boolean taken as one.
func (r *Reader) SetText(s *string) {
	switch r.Kind() {
	case '{', '[', 'n':
		r.Skip()
	default:
		*s = r.Text(MaxText)
	}
}

// Digest returns an ID for an event without one: half a SHA-256 of its JSON, which was read
// since start, as a UUID. So an event that is sent again, byte for byte, is a duplicate.
func (r *Reader) Digest(start int64) string {
	sum := sha256.Sum256(r.json[start:r.Offset()])
	return uuid.UUID(sum[:len(uuid.UUID{})]).String()
}

// Words returns a set of words.
func Words(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, word := range words {
		m[word] = true
	}
	return m
}

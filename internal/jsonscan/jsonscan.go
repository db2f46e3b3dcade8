// Package jsonscan reads JSON value by value, without an allocation but for the
// strings it returns, which are bounded copies. It is for the events of SDKs, of
// which little is used, in fields of any type. [encoding/json] decodes everything else.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep values may nest, as in encoding/json.
const MaxDepth = 10_000

// maxKey is how many bytes of an object's key are returned. No field that is looked for has a
// longer name.
const maxKey = 256

// SyntaxError says that the input is not JSON.
type SyntaxError struct {
	Offset int64 // of the first byte that does not fit
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("jsonscan: invalid JSON at byte %d", e.Offset)
}

// Scanner reads JSON from bytes. After a mistake every method does nothing and returns zero
// values, and Err returns the mistake: a *SyntaxError or io.ErrUnexpectedEOF. So a caller may
// read to the end and ask once. It is not safe for concurrent use.
//
// The method that is called for a value reads all of it, whatever its kind; only Kind reads
// nothing but white space. Time is linear in the input, and a value is read once.
type Scanner struct {
	buf     []byte // the input; cut at the first mistake, so that nothing is read behind it
	pos     int    // of the next byte
	depth   int    // of the containers that were begun and not ended
	fresh   bool   // nothing was read yet of the container that began last
	scratch []byte // for strings with escapes, to use again
	err     error
}

// New returns a scanner of b, which it only reads, and which must not change while the scanner
// or a key of it is in use.
func New(b []byte) *Scanner { return &Scanner{buf: b} }

// Reset makes s a scanner of b, in the memory that it has. Keys returned before are no longer
// valid.
func (s *Scanner) Reset(b []byte) { *s = Scanner{buf: b, scratch: s.scratch} }

// Err returns the first mistake, nil before any. The end of the input is a mistake only where a
// value was expected.
func (s *Scanner) Err() error { return s.err }

// Offset returns how many bytes were read: behind the value that was read last or, after Kind,
// before the next one.
func (s *Scanner) Offset() int64 { return int64(s.pos) }

// Kind returns the first byte of the next value without reading it: one of '{', '[', '"', 't',
// 'f', 'n', '-' and digits where it is valid. It is 0 at the end of the input, which is a
// mistake.
func (s *Scanner) Kind() byte {
	for {
		switch c := s.next(); c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		case 0:
			s.fail()
			return 0
		default:
			return c
		}
	}
}

// next returns the next byte without reading it, 0 at the end of the input, as for a byte that
// may be nowhere.
func (s *Scanner) next() byte {
	if s.pos < len(s.buf) {
		return s.buf[s.pos]
	}
	return 0
}

// fail notes a mistake at the next byte, or that the input breaks off. There is no more after it.
func (s *Scanner) fail() {
	switch {
	case s.err != nil:
	case s.pos == len(s.buf):
		s.err = io.ErrUnexpectedEOF
	default:
		s.err = &SyntaxError{Offset: s.Offset()}
		s.buf = s.buf[:s.pos]
	}
}

// BeginObject enters the object that comes next; any other value is a mistake. Key must be
// called until it returns false, and after each true the key's value must be read.
func (s *Scanner) BeginObject() { s.begin('{') }

// BeginArray enters the array that comes next; any other value is a mistake. Element must be
// called until it returns false, and after each true the element must be read.
func (s *Scanner) BeginArray() { s.begin('[') }

func (s *Scanner) begin(bracket byte) {
	if s.Kind() != bracket || s.depth == MaxDepth {
		s.fail()
		return
	}
	s.pos++
	s.depth++
	s.fresh = true
}

// Key returns the object's next key, cut to 256 bytes, or false after the last and after a
// mistake. The bytes are valid until the next call of the scanner, and are not checked to be
// UTF-8.
func (s *Scanner) Key() ([]byte, bool) { return s.key(maxKey) }

// key is Key with another limit. A limit of 0 costs no copy.
func (s *Scanner) key(limit int) ([]byte, bool) {
	switch s.another('}') {
	case '"':
	case 0:
		return nil, false
	default:
		s.fail()
		return nil, false
	}
	key := s.str(limit)
	if s.Kind() != ':' {
		s.fail()
		return nil, false
	}
	s.pos++
	return key, true
}

// Element reports whether the array has another element. It is false after a mistake, too.
func (s *Scanner) Element() bool { return s.another(']') != 0 }

// another returns the first byte of a container's next value, 0 at its end. It reads the comma
// before a value, and takes none before the first and after the last.
func (s *Scanner) another(closing byte) byte {
	c := s.Kind()
	switch {
	case c == closing:
		s.pos++
		s.depth--
		s.fresh = false
		return 0
	case s.fresh:
		s.fresh = false
	case c == ',':
		s.pos++
		c = s.Kind()
	default:
		c = 0
	}
	if c == 0 {
		s.fail()
	}
	return c
}

// End makes sure that nothing but white space follows.
func (s *Scanner) End() {
	if s.err != nil {
		return
	}
	s.Kind()
	s.fail()
	if s.err == io.ErrUnexpectedEOF {
		s.err = nil
	}
}

// Text reads a value and returns it as text, cut to limit bytes: a string is itself, a number
// or a boolean as it is written, and anything else is empty. Invalid UTF-8, such as a character
// that was cut, is replaced by U+FFFD, which may make the text longer again. The text is a
// copy.
func (s *Scanner) Text(limit int) string {
	switch c := s.Kind(); {
	case c == '"':
		return owned(s.str(limit))
	case c == 't', c == 'f':
		return strconv.FormatBool(s.Bool())
	case isNumber(c):
		b := s.number()
		return string(b[:min(len(b), limit)])
	}
	s.Skip()
	return ""
}

// String is Text for strings only: anything else is read and empty.
func (s *Scanner) String(limit int) string {
	if s.Kind() != '"' {
		s.Skip()
		return ""
	}
	return owned(s.str(limit))
}

// owned returns a copy of b as valid UTF-8.
func owned(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), string(utf8.RuneError))
}

// Bool reads a value and returns whether it is true. Any other value is false.
func (s *Scanner) Bool() bool {
	is := s.Kind() == 't'
	s.Skip()
	return is
}

// Skip reads a value of any kind and forgets it.
func (s *Scanner) Skip() {
	switch c := s.Kind(); {
	case c == '"':
		s.str(0)
	case c == '{':
		for s.BeginObject(); ; s.Skip() {
			if _, ok := s.key(0); !ok {
				return
			}
		}
	case c == '[':
		for s.BeginArray(); s.Element(); {
			s.Skip()
		}
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	case isNumber(c):
		s.number()
	default:
		s.fail()
	}
}

// plainEnd returns where the bytes from i on that stand for themselves in a string end: at a
// quote, a backslash or a control character, or at the end of b. It looks at eight bytes at a
// time: x-ones*c has the top bit of a byte below c, if that byte's own is clear, and
// word^ones*c has a zero byte in each place of c.
func plainEnd(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		word := binary.LittleEndian.Uint64(b[i:])
		quote, slash := word^ones*'"', word^ones*'\\'
		found := ((word-ones*' ')&^word | (quote-ones)&^quote | (slash-ones)&^slash) & tops
		if found != 0 { // the lowest bit is right, those above it may not be
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// str reads a string and returns at most limit bytes of it, valid until the next call of the
// scanner. Without escapes they are a part of the input, else of scratch. The rest of the
// string is read and checked, but not copied. An escaped character is not cut: it is there as a
// whole or not at all.
func (s *Scanner) str(limit int) []byte {
	s.pos++ // the opening quote
	end := plainEnd(s.buf, s.pos)
	if end < len(s.buf) && s.buf[end] == '"' {
		out := s.buf[s.pos:min(end, s.pos+limit)]
		s.pos = end + 1
		return out
	}
	for out := s.scratch[:0]; ; end = plainEnd(s.buf, s.pos) {
		out = append(out, s.buf[s.pos:min(end, s.pos+limit-len(out))]...)
		s.pos = end
		switch s.next() {
		case '"':
			s.pos++
			s.scratch = out
			return out
		case '\\':
			s.pos++
		default:
			s.fail()
			return nil
		}
		if r := s.escaped(); len(out)+utf8.RuneLen(r) > limit {
			limit = len(out) // a character without room ends the string
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
}

// escapes are the characters that a byte behind a backslash stands for; 0 for bytes that may
// not be there.
var escapes = [256]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads the characters behind a backslash, and a second escape that completes the
// surrogate pair begun by the first. Half a pair is U+FFFD.
func (s *Scanner) escaped() rune {
	switch c := s.next(); {
	case escapes[c] != 0:
		s.pos++
		return escapes[c]
	case c == 'u':
		s.pos++
		first := s.hex()
		if !utf16.IsSurrogate(first) {
			return first
		}
		behind := s.pos
		if rest, ok := bytes.CutPrefix(s.buf[s.pos:], []byte(`\u`)); ok {
			s.pos = len(s.buf) - len(rest)
			if whole := utf16.DecodeRune(first, s.hex()); whole != utf8.RuneError || s.err != nil {
				return whole
			}
		}
		s.pos = behind
		return utf8.RuneError
	}
	s.fail()
	return 0
}

// hex reads the four digits of \u, of either case.
func (s *Scanner) hex() (r rune) {
	for range 4 {
		switch c := s.next(); {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			s.fail()
			return 0
		}
		s.pos++
	}
	return r
}

func isNumber(c byte) bool { return c == '-' || '0' <= c && c <= '9' }

// number reads a number and returns it, valid as long as the input. It reads as far as the
// bytes make a number: a digit behind a leading zero is left, and is then no separator.
func (s *Scanner) number() []byte {
	start := s.pos
	s.accept("-")
	if !s.accept("0") {
		s.digits()
	}
	if s.accept(".") {
		s.digits()
	}
	if s.accept("eE") {
		s.accept("+-")
		s.digits()
	}
	return s.buf[start:s.pos]
}

// accept reads the next byte if it is one of set.
func (s *Scanner) accept(set string) bool {
	if strings.IndexByte(set, s.next()) < 0 {
		return false
	}
	s.pos++
	return true
}

// digits reads digits, of which there must be one.
func (s *Scanner) digits() {
	start := s.pos
	for '0' <= s.next() && s.next() <= '9' {
		s.pos++
	}
	if s.pos == start {
		s.fail()
	}
}

// literal reads a word that begins with the next byte.
func (s *Scanner) literal(word string) {
	for i := range len(word) {
		if !s.accept(word[i : i+1]) {
			s.fail()
			return
		}
	}
}

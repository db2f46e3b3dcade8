// Package jsonscan reads JSON value by value, without allocations except for the
// strings that it returns, which are bounded copies. It is for the events of SDKs,
// which have fields of any type and of which little is used. [encoding/json] decodes
// everything else.
package jsonscan

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting of values, the same as in encoding/json.
const MaxDepth = 10_000

// maxKey is the maximum number of bytes returned of an object's key. No field of interest has
// a longer name.
const maxKey = 256

// SyntaxError means that the input is not JSON.
type SyntaxError struct {
	Offset int64 // of the first unexpected byte
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("jsonscan: invalid JSON at byte %d", e.Offset)
}

// Scanner reads JSON from bytes. After a mistake every method does nothing and returns zero
// values, and Err returns the mistake: a *SyntaxError or io.ErrUnexpectedEOF. So a caller may
// read to the end and check once. It is not safe for concurrent use.
//
// A method called for a value reads all of it, whatever its kind; only Kind reads nothing
// except white space. The time is linear in the input, and each value is read once.
type Scanner struct {
	buf     []byte // the input; cut at the first mistake, so that nothing after it is read
	pos     int    // index of the next byte
	depth   int    // number of open containers
	fresh   bool   // nothing has been read of the innermost container
	scratch []byte // buffer for strings with escapes, reused
	halves  int    // surrogates without their other half, in strings that were read
	err     error
}

// New returns a scanner of b. It only reads b, which must not change while the scanner or one
// of its keys is in use.
func New(b []byte) *Scanner { return &Scanner{buf: b} }

// Reset makes s a scanner of b and reuses its memory. Keys returned earlier become invalid.
func (s *Scanner) Reset(b []byte) { *s = Scanner{buf: b, scratch: s.scratch} }

// Err returns the first mistake, or nil. The end of the input is a mistake only if a value was
// expected.
func (s *Scanner) Err() error { return s.err }

// Halves returns how many surrogates without their other half the strings read so far contain. In
// texts and keys each became U+FFFD, so different strings may have become equal.
func (s *Scanner) Halves() int { return s.halves }

// Offset returns the number of bytes read: the position after the last value or, after Kind,
// before the next one.
func (s *Scanner) Offset() int64 { return int64(s.pos) }

// Kind returns the first byte of the next value without reading it. For valid input it is '{',
// '[', '"', 't', 'f', 'n', '-' or a digit. It is 0 at the end of the input, which is a
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

// next returns the next byte without reading it. At the end of the input it returns 0, a
// byte that is never valid.
func (s *Scanner) next() byte {
	if s.pos < len(s.buf) {
		return s.buf[s.pos]
	}
	return 0
}

// fail records a mistake at the next byte, or that the input ends too soon. Later mistakes are
// ignored.
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

// BeginObject enters the next value, which must be an object. Call Key until it returns
// false, and read the key's value after each true.
func (s *Scanner) BeginObject() { s.begin('{') }

// BeginArray enters the next value, which must be an array. Call Element until it returns
// false, and read the element after each true.
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

// Key returns the object's next key, cut to 256 bytes. It returns false after the last key
// and after a mistake. The bytes are valid until the scanner's next call, and are not
// checked to be UTF-8.
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

// Element reports whether the array has another element. It also returns false after a
// mistake.
func (s *Scanner) Element() bool { return s.another(']') != 0 }

// another returns the first byte of a container's next value, or 0 at its end. It reads the
// comma before a value, and accepts none before the first or after the last.
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

// End checks that nothing but white space follows.
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

// Text reads a value and returns it as text, cut to limit bytes: a string's content, a number
// or a boolean as written, and "" for anything else. Invalid UTF-8, such as a cut character, is
// replaced with U+FFFD, which may make the text longer than limit. The text is a copy.
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

// Skip reads a value of any kind and discards it.
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

// plainEnd returns where the literal bytes of a string, starting at i, end: at a quote, a
// backslash or a control character, or at the end of b.
func plainEnd(b []byte, i int) int {
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// str reads a string and returns at most limit bytes of it, valid until the scanner's next
// call. Without escapes they are part of the input, else of scratch. It reads and checks the
// rest of the string, but does not copy it. An escaped character is included whole or not at
// all.
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
			limit = len(out) // stop at a character that does not fit
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
}

// escapes maps the byte after a backslash to the character that it stands for, or 0 if it is
// not allowed.
var escapes = [256]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads the characters after a backslash, and a second escape that completes the
// surrogate pair begun by the first. Half a pair becomes U+FFFD.
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
		s.halves++
		return utf8.RuneError
	}
	s.fail()
	return 0
}

// hex reads the four digits of \u, in either case.
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

// number reads a number and returns its bytes, valid as long as the input. It stops where
// the bytes no longer form a number: a digit after a leading zero is left, and then is not
// a valid separator.
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

// digits reads digits, at least one.
func (s *Scanner) digits() {
	start := s.pos
	for '0' <= s.next() && s.next() <= '9' {
		s.pos++
	}
	if s.pos == start {
		s.fail()
	}
}

// literal reads a given word.
func (s *Scanner) literal(word string) {
	for i := range len(word) {
		if !s.accept(word[i : i+1]) {
			s.fail()
			return
		}
	}
}

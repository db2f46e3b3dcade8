// Package jsonscan reads JSON value by value, in constant memory: from bytes or
// from a stream, with a bound on every string it returns. encoding/json holds a
// whole value before it gives any of it, and its tokens are as long as a sender
// likes.
package jsonscan

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep values may nest, as in encoding/json.
const MaxDepth = 10_000

// maxKey is how many bytes of an object's key are returned.
const maxKey = 256

// SyntaxError says that the input is not JSON.
type SyntaxError struct {
	Offset int64 // of the first byte that does not fit
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("jsonscan: invalid JSON at byte %d", e.Offset)
}

// Scanner reads JSON. After a mistake every method does nothing and returns
// zero values, and Err returns the mistake: a *SyntaxError, io.ErrUnexpectedEOF
// or the error of the reader. It is not safe for concurrent use.
type Scanner struct {
	src     io.Reader // nil when everything is in buf
	buf     []byte
	pos     int   // in buf
	before  int64 // bytes that were in buf before
	depth   int
	fresh   bool // nothing was read yet of the container that began last
	scratch []byte
	tee     io.Writer
	teeFrom int // in buf
	err     error
}

// New returns a scanner of b.
func New(b []byte) *Scanner { return &Scanner{buf: b} }

// Reset makes s a scanner of b, in the memory that it has.
func (s *Scanner) Reset(b []byte) { *s = Scanner{buf: b, scratch: s.scratch} }

// NewReader returns a scanner of the first n bytes of the window and of what
// comes from r, which is read through the window.
func NewReader(r io.Reader, window []byte, n int) *Scanner {
	return &Scanner{src: r, buf: window[:n:len(window)]}
}

// Err returns the first mistake, nil before any.
func (s *Scanner) Err() error { return s.err }

// Offset returns how many bytes were read.
func (s *Scanner) Offset() int64 { return s.before + int64(s.pos) }

// Tee has everything that is read from here on written to w, until EndTee. It
// replaces another writer.
func (s *Scanner) Tee(w io.Writer) { s.tee, s.teeFrom = w, s.pos }

// EndTee writes what was read and not yet written, and ends writing.
func (s *Scanner) EndTee() {
	s.flushTee()
	s.tee = nil
}

func (s *Scanner) flushTee() {
	if s.tee != nil {
		_, _ = s.tee.Write(s.buf[s.teeFrom:s.pos])
		s.teeFrom = 0
	}
}

// Kind returns the first byte of the next value without reading it: one of
// '{', '[', '"', 't', 'f', 'n', '-' and digits where it is valid.
func (s *Scanner) Kind() byte {
	for s.pos < len(s.buf) || s.more() {
		switch c := s.buf[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// BeginObject enters the object that comes next. Key must be called until it
// returns false, and after each true the key's value must be read.
func (s *Scanner) BeginObject() { s.begin('{') }

// BeginArray enters the array that comes next. Element must be called until it
// returns false, and after each true the element must be read.
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

// Key returns the object's next key, cut to 256 bytes, or false after the last.
// The bytes are valid until the next call of the scanner.
func (s *Scanner) Key() ([]byte, bool) { return s.key(maxKey) }

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
	if s.pos == len(s.buf) || s.buf[s.pos] != ':' { // looking for it may read over the key
		s.scratch = append(s.scratch[:0], key...)
		key = s.scratch
		if s.Kind() != ':' {
			s.fail()
			return nil, false
		}
	}
	s.pos++
	return key, true
}

// Element reports whether the array has another element.
func (s *Scanner) Element() bool { return s.another(']') != 0 }

// another returns the first byte of what is next in a container, 0 at its end.
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
	if s.Kind(); s.err == nil {
		s.fail()
	} else if s.err == io.ErrUnexpectedEOF {
		s.err = nil
	}
}

// Text reads a value and returns it as text of at most limit bytes, the rest is
// cut off: a string is itself, a number or a boolean as it is written, and
// anything else is empty. What is not UTF-8 is replaced.
func (s *Scanner) Text(limit int) string {
	switch c := s.Kind(); {
	case c == '"':
		return owned(s.str(limit))
	case c == 't', c == 'f':
		return strconv.FormatBool(s.Bool())
	case c == '-', '0' <= c && c <= '9':
		return string(s.number(limit))
	}
	s.Skip()
	return ""
}

// String is Text for strings only: anything else is empty.
func (s *Scanner) String(limit int) string {
	if s.Kind() != '"' {
		s.Skip()
		return ""
	}
	return owned(s.str(limit))
}

// AppendString appends what String returns. It does not allocate where dst has room.
func (s *Scanner) AppendString(dst []byte, limit int) []byte {
	if s.Kind() != '"' {
		s.Skip()
		return dst
	}
	b := s.str(limit)
	if utf8.Valid(b) {
		return append(dst, b...)
	}
	return append(dst, owned(b)...)
}

func owned(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), string(utf8.RuneError))
}

// Bool reads a value and returns whether it is true.
func (s *Scanner) Bool() bool {
	is := s.Kind() == 't'
	s.Skip()
	return is
}

// Float reads a value and returns it if it is a number that a float64 holds.
func (s *Scanner) Float() (float64, bool) {
	if c := s.Kind(); c != '-' && (c < '0' || '9' < c) {
		s.Skip()
		return 0, false
	}
	f, err := strconv.ParseFloat(string(s.number(maxNumber)), 64)
	return f, err == nil
}

// maxNumber is how many bytes of a number are looked at.
const maxNumber = 400

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
	case c == '-', '0' <= c && c <= '9':
		s.number(0)
	default:
		s.fail()
	}
}

// more makes sure that there is a byte at pos.
func (s *Scanner) more() bool {
	if s.err != nil {
		return false
	}
	for s.pos == len(s.buf) {
		if s.src == nil {
			s.err = io.ErrUnexpectedEOF
			return false
		}
		s.flushTee()
		s.before += int64(s.pos)
		n, err := s.src.Read(s.buf[:cap(s.buf)])
		s.buf, s.pos = s.buf[:n], 0
		if n == 0 && err != nil {
			if s.err = err; err == io.EOF {
				s.err = io.ErrUnexpectedEOF
			}
			return false
		}
	}
	return true
}

func (s *Scanner) fail() {
	if s.err == nil {
		s.err = &SyntaxError{Offset: s.Offset()}
		s.buf = s.buf[:s.pos] // there is no more
	}
}

// plain are the bytes that stand for themselves in a string.
var plain = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return table
}()

// plainRun returns where the plain bytes from pos on end, in buf.
func (s *Scanner) plainRun() int {
	for i, c := range s.buf[s.pos:] {
		if !plain[c] {
			return s.pos + i
		}
	}
	return len(s.buf)
}

// str reads a string and returns at most limit bytes of it, valid until the
// next call of the scanner.
func (s *Scanner) str(limit int) []byte {
	s.pos++ // the opening quote
	if whole := s.plainRun(); whole < len(s.buf) && s.buf[whole] == '"' {
		out := s.buf[s.pos:min(whole, s.pos+limit)]
		s.pos = whole + 1
		return out
	}
	out := s.scratch[:0]
	var last escape
	for s.more() {
		i := s.plainRun()
		out = append(out, s.buf[s.pos:min(i, s.pos+limit-len(out))]...)
		s.pos = i
		if i == len(s.buf) {
			continue
		}
		switch s.buf[i] {
		case '"':
			s.pos++
			s.scratch = out
			return out
		case '\\':
			s.pos++
			out, limit, last = last.next(s.escaped(), out, limit)
		default:
			s.fail()
		}
	}
	return nil
}

// escape is an escaped character and where it ends in what was read.
type escape struct {
	r   rune
	end int
}

// next appends the escaped character r. Half a surrogate pair is appended as
// U+FFFD, which the other half replaces when it follows at once. What there is
// no room for ends the string: the limit returned is what it has.
func (e escape) next(r rune, out []byte, limit int) ([]byte, int, escape) {
	if whole := utf16.DecodeRune(e.r, r); whole != utf8.RuneError && e.end == len(out) {
		out, r = out[:len(out)-utf8.RuneLen(utf8.RuneError)], whole
	}
	size := utf8.RuneLen(r)
	if size < 0 { // half a pair
		size = utf8.RuneLen(utf8.RuneError)
	}
	if len(out)+size > limit {
		return out, len(out), escape{}
	}
	return utf8.AppendRune(out, r), limit, escape{r, len(out) + size}
}

var escapes = [256]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads what stands behind a backslash.
func (s *Scanner) escaped() rune {
	if !s.more() {
		return 0
	}
	c := s.buf[s.pos]
	switch {
	case escapes[c] != 0:
		s.pos++
		return escapes[c]
	case c == 'u':
		s.pos++
		return s.hex()
	}
	s.fail()
	return 0
}

func (s *Scanner) hex() (r rune) {
	for range 4 {
		if !s.more() {
			return 0
		}
		switch c := s.buf[s.pos]; {
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

// number reads a number and returns at most limit bytes of it, valid until the next
// call of the scanner.
func (s *Scanner) number(limit int) []byte {
	s.scratch = s.scratch[:0]
	at := numberBegins
	for s.more() {
		rest := s.buf[s.pos:]
		n := 0
		for n < len(rest) {
			next := numberParts[at][rest[n]]
			if next == numberEnds {
				break
			}
			at = next
			n++
		}
		s.pos += n
		read := rest[:min(n, limit-len(s.scratch))]
		if s.pos < len(s.buf) {
			if !at.mayEnd() {
				s.fail()
			}
			if len(s.scratch) == 0 {
				return read
			}
			s.scratch = append(s.scratch, read...)
			return s.scratch
		}
		s.scratch = append(s.scratch, read...)
	}
	if s.err == io.ErrUnexpectedEOF && s.depth == 0 && at.mayEnd() {
		s.err = nil // the number is all there is
	}
	return s.scratch
}

// numberPart is where in a number a reader of it is.
type numberPart byte

const (
	numberEnds numberPart = iota // before the byte
	numberBegins
	afterMinus
	afterZero
	inWhole
	afterPoint
	inFraction
	afterE
	afterSign
	inExponent
)

// numberParts are the next parts, by part and byte.
var numberParts = func() (table [inExponent + 1][256]numberPart) {
	for part := range table {
		for c := range table[part] {
			table[part][c] = numberPart(part).next(byte(c))
		}
	}
	return table
}()

// next returns where in the number it is after c.
func (p numberPart) next(c byte) numberPart {
	isDigit := '0' <= c && c <= '9'
	switch p {
	case numberBegins, afterMinus:
		switch {
		case c == '-' && p == numberBegins:
			return afterMinus
		case c == '0':
			return afterZero
		case isDigit:
			return inWhole
		}
	case inWhole, afterZero:
		switch {
		case isDigit && p == inWhole:
			return inWhole
		case c == '.':
			return afterPoint
		case c|' ' == 'e':
			return afterE
		}
	case afterPoint, inFraction:
		switch {
		case isDigit:
			return inFraction
		case c|' ' == 'e' && p == inFraction:
			return afterE
		}
	case afterE, afterSign, inExponent:
		switch {
		case isDigit:
			return inExponent
		case p == afterE && (c == '+' || c == '-'):
			return afterSign
		}
	}
	return numberEnds
}

// mayEnd reports whether a number can end there.
func (p numberPart) mayEnd() bool {
	return p == afterZero || p == inWhole || p == inFraction || p == inExponent
}

func (s *Scanner) literal(word string) {
	for i := range len(word) {
		if !s.more() {
			return
		}
		if s.buf[s.pos] != word[i] {
			s.fail()
			return
		}
		s.pos++
	}
}

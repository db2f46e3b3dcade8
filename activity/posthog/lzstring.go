package posthog

import (
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// maxEntries bounds the dictionary of an lzReader, whose entries take 12 bytes.
// The default limits of bodies let half of them through.
const maxEntries = 1 << 20

var errLZ = httpx.BadRequest("The lz-string data of the request body is damaged.")

// isLZ64 reports whether text is base64 of JSON compressed by lz-string: its
// first ten bits hold the opening bracket. Neither JSON nor gzip has such base64.
func isLZ64(text []byte) bool {
	if len(text) < 2 || text[0] != 'N' {
		return false
	}
	object, array := '4' <= text[1] && text[1] <= '7', 'o' <= text[1] && text[1] <= 'r'
	return object || array
}

// lzReader undoes compressToBase64 of the JavaScript library lz-string while it
// is read, and hands out UTF-8. Its errors are answers. Its memory grows with the compressed text only:
// what an entry of the dictionary stands for is an earlier one and a character.
type lzReader struct {
	src   io.ByteReader
	bits  byte // the last base64 digit
	left  uint // how many of its bits are unread
	width uint // of a code, in bits

	entries []lzEntry
	last    uint32 // the entry that was handed out last, 0 for none
	units   []uint16
	out     []byte
	err     error
}

// lzEntry is a run of UTF-16 units.
type lzEntry struct {
	before      uint32 // the entry with all but the last unit, 0 for none
	first, unit uint16
	length      uint32
}

// Codes that are not entries.
const (
	lzUnit8 = iota
	lzUnit16
	lzEnd
)

func newLZReader(base64 io.ByteReader) *lzReader {
	return &lzReader{src: base64, width: 2, entries: make([]lzEntry, lzEnd+1, 256)}
}

func (r *lzReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.err = r.step()
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// step reads a code and puts what it stands for into out.
func (r *lzReader) step() error {
	code, err := r.read(r.width)
	if err != nil {
		return err
	}
	switch {
	case code == lzEnd:
		r.flush(true)
		return io.EOF
	case code <= lzUnit16:
		unit, err := r.read(8 << code)
		if err != nil {
			return err
		}
		code = uint32(len(r.entries))
		r.entries = append(r.entries, lzEntry{first: uint16(unit), unit: uint16(unit), length: 1})
		if r.last == 0 { // the first unit widens codes once, and adds no other entry
			r.width, r.last = 3, code
			r.emit(code)
			return nil
		}
		r.widen()
	case r.last == 0 || code > uint32(len(r.entries)):
		return errLZ
	}
	if len(r.entries) >= maxEntries {
		return errLZ
	}
	last := r.entries[r.last]
	next := lzEntry{before: r.last, first: last.first, unit: last.first, length: last.length + 1}
	if code < uint32(len(r.entries)) {
		next.unit = r.entries[code].first
	}
	r.entries = append(r.entries, next)
	r.emit(code)
	r.last = code
	r.widen()
	return nil
}

// widen makes codes as wide as the dictionary needs.
func (r *lzReader) widen() {
	if len(r.entries) == 1<<r.width {
		r.width++
	}
}

// emit appends the units of an entry, and hands them out.
func (r *lzReader) emit(code uint32) {
	n := len(r.units)
	end := n + int(r.entries[code].length)
	for len(r.units) < end {
		r.units = append(r.units, 0)
	}
	for i := end - 1; i >= n; i-- {
		r.units[i], code = r.entries[code].unit, r.entries[code].before
	}
	r.flush(false)
}

// flush writes the units as UTF-8. Half a character waits for its other half.
func (r *lzReader) flush(all bool) {
	r.out = r.out[:0]
	units := r.units
	for len(units) > 0 {
		c, size := rune(units[0]), 1
		if utf16.IsSurrogate(c) {
			if len(units) < 2 && !all {
				break
			}
			c = utf8.RuneError
			if len(units) > 1 {
				if pair := utf16.DecodeRune(rune(units[0]), rune(units[1])); pair != utf8.RuneError {
					c, size = pair, 2
				}
			}
		}
		r.out, units = utf8.AppendRune(r.out, c), units[size:]
	}
	r.units = append(r.units[:0], units...)
}

// read reads a number of n bits, the lowest first.
func (r *lzReader) read(n uint) (v uint32, err error) {
	for i := range n {
		if r.left == 0 {
			c, err := r.src.ReadByte()
			if err == io.EOF {
				err = errLZ
			}
			if err != nil {
				return 0, err
			}
			digit := base64Digit(c)
			if digit < 0 {
				return 0, errLZ
			}
			r.bits, r.left = byte(digit), 6
		}
		r.left--
		v |= uint32(r.bits>>r.left&1) << i
	}
	return v, nil
}

// base64Digit returns the value of a digit, -1 for other bytes. Some senders
// forget to escape the plus sign in a form.
func base64Digit(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case '0' <= c && c <= '9':
		return int(c-'0') + 52
	case c == '+' || c == ' ' || c == '-':
		return 62
	case c == '/' || c == '_':
		return 63
	case c == '=':
		return 0
	}
	return -1
}

package intake

import (
	"unicode/utf16"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// posthog-js-lite compresses with lz-string, a dictionary coder like LZ78 over UTF-16 units.
// The text is a string of codes in base64 digits. Codes 0 and 1 are followed by a new unit of 8
// or 16 bits, which is entered as a run of its own, 2 ends the text, and the others name
// entries. Each code after the first also enters the run before it, longer by the first unit of
// its own run. Codes grow by a bit when the number of entries reaches the width.

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

// Codes that are not entries of the dictionary.
const (
	lzUnit8 = iota
	lzUnit16
	lzEnd
)

// lzEntry is a run of UTF-16 units that stands in the output, by offsets; end is behind the
// last unit.
type lzEntry struct{ start, end uint32 }

// unpackLZ64 undoes compressToBase64 of the JavaScript library lz-string, without copying
// entries: each stands in the output already, as the run written last and the unit behind it.
// More than limit units, or limit bytes as UTF-8, are refused as soon as a run exceeds them: a
// short text can stand for a long one. For the same reason there must be room for more than
// smallBody units.
func (u *unpacker) unpackLZ64(text []byte) ([]byte, error) {
	bits := lzBits{text: text}
	entries := make([]lzEntry, lzEnd+1, 256)
	var out []uint16
	var last lzEntry
	for width := uint(2); ; {
		code, ok := bits.read(width)
		switch {
		case !ok:
			return nil, errLZ
		case code == lzEnd:
			return appendUTF8(make([]byte, 0, len(out)), out, u.limit)
		}
		next := lzEntry{start: uint32(len(out))}
		switch {
		case code <= lzUnit16:
			unit, ok := bits.read(8 << code)
			if !ok {
				return nil, errLZ
			}
			out = append(out, uint16(unit))
			entries = append(entries, lzEntry{next.start, next.start + 1})
		case last.end == 0 || code > uint32(len(entries)):
			return nil, errLZ
		default:
			run := lzEntry{last.start, last.end + 1} // one that is about to be entered
			if code < uint32(len(entries)) {
				run = entries[code]
			}
			for i := run.start; i < run.end; i++ { // it may overlap what it appends
				out = append(out, out[i])
			}
		}
		if err := u.takes(len(out)); err != nil {
			return nil, err
		}
		next.end = uint32(len(out))
		switch {
		case last.end == 0:
			width = 3 // the first unit widens codes once, and adds no other entry
		default:
			if code <= lzUnit16 && len(entries) == 1<<width {
				width++
			}
			entries = append(entries, lzEntry{last.start, last.end + 1})
			if len(entries) == 1<<width {
				width++
			}
		}
		last = next
	}
}

// takes reports whether so many units may be unpacked, and then a run that is one longer.
func (u *unpacker) takes(units int) error {
	switch {
	case int64(units) > u.limit:
		return unpackedTooLarge(u.limit)
	case units > smallBody/2:
		return u.room()
	}
	return nil
}

// appendUTF8 appends UTF-16 as UTF-8, at most limit bytes. Half a character becomes
// U+FFFD.
func appendUTF8(dst []byte, units []uint16, limit int64) ([]byte, error) {
	for i := 0; i < len(units); i++ {
		c := rune(units[i])
		if utf16.IsSurrogate(c) {
			c = utf8.RuneError
			if i+1 < len(units) {
				if pair := utf16.DecodeRune(rune(units[i]), rune(units[i+1])); pair != utf8.RuneError {
					c = pair
					i++
				}
			}
		}
		if dst = utf8.AppendRune(dst, c); int64(len(dst)) > limit {
			return nil, unpackedTooLarge(limit)
		}
	}
	return dst, nil
}

// lzBits reads numbers from base64 digits.
type lzBits struct {
	text  []byte
	digit int8 // the last that was read
	left  uint // how many of its bits are unread
}

// read reads a number of n bits, the lowest first; false if the digits end, or another byte
// comes, before the last of them.
func (b *lzBits) read(n uint) (v uint32, ok bool) {
	for i := range n {
		if b.left == 0 {
			if len(b.text) == 0 || lzDigits[b.text[0]] < 0 {
				return 0, false
			}
			b.digit, b.left, b.text = lzDigits[b.text[0]], 6, b.text[1:]
		}
		b.left--
		v |= uint32(b.digit>>b.left&1) << i
	}
	return v, true
}

// lzDigits are the values of base64 digits in any alphabet, -1 for other bytes. A plus
// sign that was not escaped in a form is a space.
var lzDigits = func() (values [256]int8) {
	for c := range values {
		values[c] = -1
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		values[c] = int8(i)
	}
	values[' '], values['-'], values['_'], values['='] = 62, 62, 63, 0
	return values
}()

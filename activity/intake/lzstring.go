package intake

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// posthog-js-lite compresses with lz-string, a dictionary coder like LZ78 over UTF-16 units. The
// text is a sequence of codes in base64 digits. Codes 0 and 1 precede a new unit of 8 or 16 bits,
// which becomes an entry of its own; 2 ends the text; all others refer to entries. Each code after
// the first also adds an entry: the previous run, extended by the first unit of the code's own run.
// Codes grow by a bit when the number of entries reaches the width.

var errLZ = httpx.BadRequest("The lz-string data of the request body is damaged.")

// isLZ64 reports whether text is the base64 of JSON compressed by lz-string, whose first ten bits
// contain the opening bracket. The base64 of plain JSON or gzip never begins so.
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

// lzEntry is a run of UTF-16 units in the output: the offsets of its first unit and after its last.
type lzEntry struct{ start, end uint32 }

// unpackLZ64 is the inverse of compressToBase64 of the JavaScript library lz-string. Entries are not
// copied: each is in the output already, as the run written last and the unit after it. A short
// text can expand to a long one, so output beyond limit units, or limit bytes as UTF-8, is refused
// as soon as a run exceeds it, and output beyond smallBody units needs room.
func (u *unpacker) unpackLZ64(text []byte) ([]byte, error) {
	digits := bytes.TrimRight(text, "=")
	packed, _ := decodeBase64(slices.Concat(digits, []byte("AAA"))) // zeros, which complete the last byte
	bits := lzBits{bytes: packed, end: min(6*len(digits), 8*len(packed))}
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
			run := lzEntry{last.start, last.end + 1} // the entry to be added
			if code < uint32(len(entries)) {
				run = entries[code]
			}
			for i := run.start; i < run.end; i++ { // the run may overlap its copy
				out = append(out, out[i])
			}
		}
		if err := u.takes(len(out)); err != nil {
			return nil, err
		}
		next.end = uint32(len(out))
		if last.end == 0 {
			width = 3 // the first unit widens codes once, and adds no other entry
		} else {
			if len(entries) == 1<<width {
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

// takes checks that so many units, and then a run longer by one, may be unpacked.
func (u *unpacker) takes(units int) error {
	switch {
	case int64(units) > u.limit:
		return unpackedTooLarge(u.limit)
	case units > smallBody/2:
		return u.room()
	}
	return nil
}

// appendUTF8 appends UTF-16 as UTF-8, at most limit bytes. An unpaired surrogate becomes U+FFFD.
func appendUTF8(dst []byte, units []uint16, limit int64) ([]byte, error) {
	for i := 0; i < len(units); i++ {
		c := rune(units[i])
		if i+1 < len(units) {
			if pair := utf16.DecodeRune(c, rune(units[i+1])); pair != utf8.RuneError {
				c = pair
				i++
			}
		}
		if dst = utf8.AppendRune(dst, c); int64(len(dst)) > limit { // half a pair is appended as U+FFFD
			return nil, unpackedTooLarge(limit)
		}
	}
	return dst, nil
}

// lzBits reads numbers from the bits of bytes, the highest bit of each first.
type lzBits struct {
	bytes   []byte
	at, end int // of the bits, the next one and the number
}

// read reads a number of n bits, the lowest first; false if the bits end before the last of them.
func (b *lzBits) read(n uint) (v uint32, ok bool) {
	for i := range n {
		if b.at == b.end {
			return 0, false
		}
		v |= uint32(b.bytes[b.at/8]>>(7-b.at%8)&1) << i
		b.at++
	}
	return v, true
}

package agent

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/liveactivity/liveactivity/activity/recent"
)

// A cursor is opaque but no secret: it marks the point up to which an answer was complete, and
// gives no access. The checksum detects cursors that were cut or mistyped, which would otherwise
// leave out actions silently; the digest detects a cursor of another product.

// A cursor is base64 of a version, a position, a digest of the product, and a checksum. No
// number begins like its version.
const (
	cursorVersion = 1
	cursorHead    = 1 + 8 + 8 + 4
	cursorLength  = cursorHead + 4
)

// NewCursor returns the cursor of a position among a product's arrivals.
func NewCursor(productID string, p recent.Position) string {
	of := digest(productID)
	var made [cursorLength]byte
	b := append(made[:0], cursorVersion)
	b = binary.BigEndian.AppendUint64(b, p.Milli)
	b = binary.BigEndian.AppendUint64(b, p.Seq)
	b = append(b, of[:]...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// parseCursor returns the parts of a cursor, and false for anything else.
func parseCursor(cursor string) (p recent.Position, of [4]byte, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) != cursorLength || b[0] != cursorVersion ||
		binary.BigEndian.Uint32(b[cursorHead:]) != crc32.ChecksumIEEE(b[:cursorHead]) {
		return p, of, false
	}
	return recent.Position{Milli: binary.BigEndian.Uint64(b[1:]), Seq: binary.BigEndian.Uint64(b[9:])},
		[4]byte(b[17:]), true
}

// digest returns a few bytes that distinguish products.
func digest(productID string) [4]byte {
	sum := sha256.Sum256([]byte(productID))
	return [4]byte(sum[:])
}

package sessions

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
)

// Bounds of the number of sessions in a [Listing].
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// MaxPrefix is the length of the longest valid prefix in bytes. No identifier is longer.
const MaxPrefix = 1024

// Query selects sessions.
type Query struct {
	Limit  int    // sessions in the listing; DefaultLimit for one below 1, at most MaxLimit
	After  string // Listing.Next of the one before; empty for the first
	Prefix string // the start of the email address, user ID or session ID, in any case
}

// limit returns the number of sessions to list.
func (q Query) limit() int {
	if q.Limit < 1 {
		return DefaultLimit
	}
	return min(q.Limit, MaxLimit)
}

// check returns the place after which the query continues; for the first listing, one before all
// sessions. Its error is a *[activity.QueryError].
func (q Query) check() (after place, err error) {
	switch {
	case len(q.Prefix) > MaxPrefix:
		return place{}, &activity.QueryError{Param: "q", Problem: "must be at most 1024 bytes long"}
	case !utf8.ValidString(q.Prefix) || strings.ContainsRune(q.Prefix, 0):
		return place{}, &activity.QueryError{Param: "q", Problem: "must be UTF-8 text without NUL"}
	case q.After == "":
		return place{last: math.MaxInt64}, nil
	}
	after, ok := parseCursor(q.After)
	if !ok {
		return place{}, &activity.QueryError{Param: "after", Problem: "must be the next of an earlier answer"}
	}
	return after, nil
}

// A cursor is the base64 of a version, the place's time and ID, and a checksum. The checksum detects
// mistakes, not forgeries, which would reveal nothing that a listing does not. Sizes are in bytes.
const (
	cursorVersion = 1
	cursorHead    = 1 + 8
	cursorSum     = 4
	maxCursor     = 4 << 10 // bytes of base64
)

var cursorEncoding = base64.RawURLEncoding

// cursor encodes the place for use in a query.
func (p place) cursor() string {
	b := append(binary.BigEndian.AppendUint64([]byte{cursorVersion}, uint64(p.last)), p.id...)
	return cursorEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// parseCursor is the inverse of cursor. It reports false for anything else.
func parseCursor(cursor string) (p place, ok bool) {
	if len(cursor) > maxCursor {
		return place{}, false
	}
	b, err := cursorEncoding.DecodeString(cursor)
	if err != nil || len(b) < cursorHead+cursorSum {
		return place{}, false
	}
	p = place{last: int64(binary.BigEndian.Uint64(b[1:])), id: string(b[cursorHead : len(b)-cursorSum])}
	return p, p.cursor() == cursor
}

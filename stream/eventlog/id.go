package eventlog

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ID orders the entries of a product's log. It is the time of the append in
// milliseconds since the epoch and a sequence number within that millisecond:
// the format of Redis Streams. The stream sends it as the event id. IDs strictly
// increase, even across restarts, as long as the clock is not set back by more than
// the server's downtime.
type ID struct {
	Milli uint64
	Seq   uint64
}

// String returns the ID as "milliseconds-number".
func (id ID) String() string { return string(id.append(nil)) }

func (id ID) append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, id.Milli, 10)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, id.Seq, 10)
}

// ParseID parses the text form of an ID: two decimal numbers of 64 bits, separated by a
// hyphen.
func ParseID(s string) (ID, error) {
	milli, seq, ok := strings.Cut(s, "-")
	if !ok {
		return ID{}, fmt.Errorf("eventlog: id without a hyphen")
	}
	var id ID
	var err error
	if id.Milli, err = strconv.ParseUint(milli, 10, 64); err != nil {
		return ID{}, fmt.Errorf("eventlog: id with a bad time: %w", err)
	}
	if id.Seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
		return ID{}, fmt.Errorf("eventlog: id with a bad number: %w", err)
	}
	return id, nil
}

// MarshalText implements [encoding.TextMarshaler] with String.
func (id ID) MarshalText() ([]byte, error) { return id.append(nil), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] with ParseID.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}

// Compare returns -1, 0 or 1 if id comes before, equals, or comes after other.
func (id ID) Compare(other ID) int {
	if c := cmp.Compare(id.Milli, other.Milli); c != 0 {
		return c
	}
	return cmp.Compare(id.Seq, other.Seq)
}

// Earlier returns the earlier of two IDs.
func Earlier(a, b ID) ID {
	if b.Compare(a) < 0 {
		return b
	}
	return a
}

// Later returns the later of two IDs.
func Later(a, b ID) ID {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// Time returns when the entry was appended, to the millisecond. It may be in the future: IDs
// grow even after a clock was set back.
func (id ID) Time() time.Time { return time.UnixMilli(int64(min(id.Milli, math.MaxInt64))) }

// IDAt returns the ID directly before all entries appended at t or later.
func IDAt(t time.Time) ID {
	milli := t.UnixMilli()
	if milli <= 0 {
		return ID{}
	}
	return ID{Milli: uint64(milli) - 1, Seq: math.MaxUint64}
}

// Previous returns the ID directly before id; the zero ID returns itself.
func (id ID) Previous() ID {
	switch {
	case id.Seq > 0:
		return ID{Milli: id.Milli, Seq: id.Seq - 1}
	case id.Milli > 0:
		return ID{Milli: id.Milli - 1, Seq: math.MaxUint64}
	}
	return ID{}
}

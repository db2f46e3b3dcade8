package recent

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/segmentio/encoding/json" // several times as fast as the standard library here

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// Defaults of the specification.
const (
	DefaultMaxEvents = 50        // actions kept per user
	DefaultMaxBytes  = 192 << 20 // of a product's activity in memory
)

// Store has the newest actions of every user of every product. Its methods are safe for concurrent
// use.
//
// Actions are stored by session, ordered by start even if they arrive late; see [Held]. A user's
// actions outside sessions form a session of that user. An action changes nothing if the session has
// its ID already, if it is older than the retention, or if it is older than everything in a full
// store. An action belongs to its own user ID, unless the session identifies that visitor later; see
// [feed.Identity]. It ends at the start of the session's next action, or at its own start if
// there is none or the next one belongs to another user. Engines must pass the suite in
// [github.com/liveactivity/liveactivity/activity/activitytest].
type Store interface {
	// Recent returns at most limit of the newest actions of a user, or of all users in a session,
	// oldest first, and none for an unknown subject. It never returns an action that is older than
	// the retention or, for a user, that belongs to another one. The snapshot is consistent and
	// includes everything appended before the call. The caller owns the records.
	Recent(ctx context.Context, productID string, of Subject, limit int) (Snapshot, error)

	// Sessions returns the IDs of the sessions that identified the user, or have actions that belong
	// to the user or were appended with the user's ID, each once and in any order, and the user's actions
	// outside sessions, oldest first. These are all of the user's actions, except in sessions that are
	// older than the newest sessions of the user, of which there are as many as actions are kept
	// of a user. Actions of the sessions may have expired.
	Sessions(ctx context.Context, productID, userID string) (ids []string, outside Records, err error)
}

// Subject is a user or, if UserID is empty, a session.
type Subject struct{ UserID, SessionID string }

// Snapshot is the result of [Store.Recent].
type Snapshot struct {
	Records

	// Upto is the position of the product's last arrival, zero for none: everything that arrives
	// later has a higher position, and nothing in the snapshot does.
	Upto Position
}

// Record is an action in an engine's store. It is encoded once, on arrival, so a lookup only copies
// bytes.
type Record struct {
	Session string // the action's session; empty if none
	User    string // the owner, empty if unknown; set by Recent
	As      string // the user ID that it was appended with; set likewise
	Start   int64  // microseconds since the epoch
	End     int64  // microseconds since the epoch, set by Recent

	// Arrived is the position of the action's arrival. Since is the position from which it
	// belongs to User; it is later if the session identified its visitor afterwards.
	Arrived, Since Position

	// JSON is the beginning of the action's JSON: the texts, the raw URL and, if different,
	// the canonical URL.
	JSON string
}

// maxSeconds is the largest valid time in epoch seconds, in the year 5138.
const maxSeconds = 1e11

// NewRecord encodes an action of a session. The record ends at its start.
func NewRecord(session string, a activity.Action) (Record, error) {
	var most [1 << 10]byte // most actions do not allocate
	encoded, err := appendRecord(most[:0], &a)
	if err != nil {
		return Record{}, err
	}
	start := a.Start().UnixMicro()
	return Record{Session: session, Start: start, End: start, JSON: string(encoded)}, nil
}

// appendRecord appends the JSON of an action's [Record].
func appendRecord(dst []byte, a *activity.Action) ([]byte, error) {
	if !(math.Abs(a.TimestampStart) <= maxSeconds) {
		return dst, fmt.Errorf("recent: encode action: invalid timestamp %g", a.TimestampStart)
	}
	dst = jsontext.AppendField(dst, `{"type":`, a.Type)
	dst = jsontext.AppendField(dst, `,"title":`, a.Title)
	dst = jsontext.AppendField(dst, jsontext.DescriptionField, a.Description)
	if len(a.Properties) > 0 {
		before := `,"properties":{`
		for _, name := range slices.Sorted(maps.Keys(a.Properties)) {
			dst = jsontext.AppendField(dst, before, name)
			dst = jsontext.AppendField(dst, ":", a.Properties[name])
			before = ","
		}
		dst = append(dst, '}')
	}
	before := jsontext.MarksField
	for _, mark := range a.Marks {
		dst = jsontext.AppendField(dst, before, mark)
		before = ","
	}
	if len(a.Marks) > 0 {
		dst = append(dst, ']')
	}
	dst = jsontext.AppendField(dst, jsontext.RawURLField, a.RawURL)
	if a.CanonicalURL != a.RawURL {
		dst = jsontext.AppendField(dst, jsontext.CanonicalURLField, a.CanonicalURL)
	}
	return dst, nil
}

// appendJSON appends the record's action object with an index. If the record's JSON ends with the raw
// URL, the canonical URL is the same.
func (r *Record) appendJSON(dst []byte, index int) []byte {
	dst = append(dst, r.JSON...)
	if url := jsontext.LastString(r.JSON); strings.HasSuffix(r.JSON[:len(r.JSON)-len(url)], jsontext.RawURLField) {
		dst = append(append(dst, jsontext.CanonicalURLField...), url...)
	}
	dst = append(dst, `,"timestamp_start":`...)
	dst = jsontext.AppendSeconds(dst, r.Start)
	dst = append(dst, `,"timestamp_end":`...)
	dst = jsontext.AppendSeconds(dst, r.End)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	return append(dst, '}')
}

// Records are the newest actions of a user or a session, oldest first.
type Records []Record

// noPage is the page of an action without one.
const noPage = `:""`

// page returns the canonical URL at the end of the record's JSON. The colon before the string
// prevents a match with the end of a longer one.
func (r *Record) page() string {
	return r.JSON[max(0, len(r.JSON)-len(jsontext.LastString(r.JSON))-1):]
}

// Stay returns the newest action, preferably one with a page, the time at which its session reached that
// page, and the start of the session's first action, in microseconds since the epoch; nil and zero for none.
func (r Records) Stay() (on *Record, came, first int64) {
	isHere := true
	for i := range slices.Backward(r) {
		a, page := &r[i], r[i].page()
		if on == nil || on.page() == noPage && page != noPage {
			on = a
		}
		if a.Session != on.Session {
			continue
		}
		if isHere = isHere && (page == on.page() || page == noPage); isHere && page == on.page() {
			came = a.Start
		}
		first = a.Start
	}
	return on, came, first
}

// AppendJSON appends the JSON array of the actions, indexed from zero.
func (r Records) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i := range r {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r[i].appendJSON(dst, i)
	}
	return append(dst, ']')
}

// Actions decodes the actions, indexed from zero. IDs are not stored, so they are empty. The result
// is never nil.
func (r Records) Actions() ([]activity.Action, error) {
	actions, buf := make([]activity.Action, len(r)), []byte(nil)
	for i := range r {
		buf = r[i].appendJSON(buf[:0], i)
		if err := json.Unmarshal(buf, &actions[i]); err != nil {
			return nil, fmt.Errorf("recent: decode record: %w", err)
		}
	}
	return actions, nil
}

// isMarked reports whether the action has marks.
func (r *Record) isMarked() bool {
	before, _, _ := strings.Cut(r.JSON, jsontext.RawURLField) // which may be long
	return strings.Contains(before, jsontext.MarksField)
}

// takesPlace reports whether the record, which is marked, is a version of the click of.
func (r *Record) takesPlace(of *Record) bool {
	object := func(json string) string { object, _, _ := strings.Cut(json, jsontext.DescriptionField); return object }
	return r.Start == of.Start && r.As == of.As && object(r.JSON) == object(of.JSON)
}

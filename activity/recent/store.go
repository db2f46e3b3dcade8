package recent

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/segmentio/encoding/json" // several times as fast as the standard library here

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/buffers"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// Defaults of the specification.
const (
	DefaultMaxEvents = 50        // actions kept per user
	DefaultMaxBytes  = 192 << 20 // of what a product's users did, in memory
)

// Store has the newest actions of every user of every product, for lookups. Its
// methods are safe for concurrent use.
//
// Actions are kept by session, in order of their start, however late they come:
// see [Held]. A user's actions outside any session form a session of that user. An
// action whose ID the session already has, one older than the retention, and one
// older than everything in a full memory change nothing. An action is the user's
// whose id it carries, unless the session said later who that is: see [activity.Identity].
// It ends where the session's next one starts, and where it starts itself while
// there is none or the next one is not the same user's. An engine passes the suite
// in [github.com/liveactivity/liveactivity/activity/activitytest].
type Store interface {
	// Recent returns the user's newest actions, at most limit of them, oldest
	// first, and none for a user it does not know. It never returns an action
	// that is older than the retention or that belongs to another user.
	Recent(ctx context.Context, productID, userID string, limit int) (Records, error)

	// Session returns the session's newest actions, whoever's they are, at most
	// limit of them, oldest first, and none for a session it does not know.
	Session(ctx context.Context, productID, sessionID string, limit int) (Records, error)

	// Sessions returns the IDs of the sessions in which there are actions of the user, or others'
	// that were appended with the user's ID, each once and in any order, and the user's actions
	// outside any session, oldest first. No action that is kept of the user is elsewhere, unless its
	// session is older than so many others of the user as actions are kept. Actions of the sessions
	// may have expired.
	Sessions(ctx context.Context, productID, userID string) (ids []string, outside Records, err error)

	// Snapshot returns everything that Recent can return for the subject's user, or
	// Session for its session, and the position that it is complete up to: anything
	// that arrives later, and nothing in it, has a higher one. The snapshot is of one
	// instant, at which the store had everything appended before the call.
	Snapshot(ctx context.Context, productID string, of Subject) (Snapshot, error)
}

// Subject is a user or, where UserID is empty, a session.
type Subject struct{ UserID, SessionID string }

// Snapshot is the result of [Store.Snapshot].
type Snapshot struct {
	Records
	Upto Position // zero where nothing is known to have arrived
}

// Record is an action as an engine keeps it: encoded once when it arrives, so
// that a lookup copies bytes and nothing else.
type Record struct {
	Session string // the session it was part of, empty when unknown
	User    string // whose it is, empty when unknown; set by Recent and Session
	As      string // the user id that it was appended with; set likewise
	Start   int64  // microseconds since the epoch
	End     int64  // microseconds since the epoch, set by Recent and Session

	// Arrived is where the action stands in the order of arrival, and Since from where on
	// it is the user's, which is later where the session named its user afterwards.
	Arrived, Since Position

	// JSON is the beginning of the action's JSON: the texts, the raw URL and,
	// unless that is the same, the canonical URL.
	JSON string
}

// maxSeconds is the largest epoch second that is taken for a time, in the year 5138.
const maxSeconds = 1e11

// NewRecord encodes an action of a session. The record ends where it starts.
func NewRecord(session string, a activity.Action) (_ Record, err error) {
	buf := buffers.Get()
	defer buffers.Put(buf)
	if *buf, err = appendRecord((*buf)[:0], &a); err != nil {
		return Record{}, err
	}
	start := a.Start().UnixMicro()
	return Record{Session: session, Start: start, End: start, JSON: string(*buf)}, nil
}

// appendRecord appends the JSON of an action's [Record].
func appendRecord(dst []byte, a *activity.Action) ([]byte, error) {
	if !(math.Abs(a.TimestampStart) <= maxSeconds) {
		return dst, fmt.Errorf("recent: encode action: invalid timestamp %g", a.TimestampStart)
	}
	dst = jsontext.AppendField(a.AppendHead(dst), jsontext.RawURLField, a.RawURL)
	if a.CanonicalURL != a.RawURL {
		dst = jsontext.AppendField(dst, jsontext.CanonicalURLField, a.CanonicalURL)
	}
	return dst, nil
}

// appendJSON appends the record's action object, with its index in the answer. A record whose
// JSON ends with the raw URL has the same canonical one.
func (r Record) appendJSON(dst []byte, index int) []byte {
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

// Stay returns when the session of the newest action came to the page that it is on, and
// when the session's first action started, in microseconds since the epoch; zero where there
// are no actions.
func (r Records) Stay() (came, first int64) {
	if len(r) == 0 {
		return 0, 0
	}
	last := &r[len(r)-1]
	// The colon before the string makes the end of a longer one no match.
	page := last.JSON[max(0, len(last.JSON)-len(jsontext.LastString(last.JSON))-1):]
	isHere := true
	for i := range slices.Backward(r) {
		a := &r[i]
		if a.Session != last.Session {
			continue
		}
		if isHere = isHere && strings.HasSuffix(a.JSON, page); isHere {
			came = a.Start
		}
		first = a.Start
	}
	return came, first
}

// AppendJSON appends the JSON array of the actions, indexed from zero.
func (r Records) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i, record := range r {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = record.appendJSON(dst, i)
	}
	return append(dst, ']')
}

// Actions decodes the actions, indexed from zero. Their ID is empty: it is not
// kept. The result is never nil.
func (r Records) Actions() ([]activity.Action, error) {
	actions, buf := make([]activity.Action, len(r)), []byte(nil)
	for i, record := range r {
		buf = record.appendJSON(buf[:0], i)
		if err := json.Unmarshal(buf, &actions[i]); err != nil {
			return nil, fmt.Errorf("recent: decode record: %w", err)
		}
	}
	return actions, nil
}

// takesPlace reports whether the record is the click before it, with marks.
func (r *Record) takesPlace(of *Record) bool {
	object := func(json string) string { object, _, _ := strings.Cut(json, jsontext.DescriptionField); return object }
	return r.Start == of.Start && r.As == of.As && strings.Contains(r.JSON, jsontext.MarksField) &&
		object(r.JSON) == object(of.JSON)
}

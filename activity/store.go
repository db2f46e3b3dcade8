package activity

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Defaults of the specification.
const (
	DefaultTTL       = 4 * time.Hour // how long an action is kept
	DefaultMaxEvents = 50            // actions kept per user
	DefaultMaxBytes  = 192 << 20     // of what a product's users did, in memory
)

// Store keeps the newest actions of every user of every product. Its methods
// are safe for concurrent use. An engine passes the suite in
// [github.com/liveactivity/liveactivity/activity/activitytest].
type Store interface {
	// Add files the batch's actions under the user id that each carries.
	// Actions may come late: they are kept in order of their start. An action
	// whose ID the user already has, one older than the retention, and one
	// older than everything in a full memory change nothing. Actions without
	// a user id only count as the session's next action. Add may be repeated
	// after an error.
	Add(ctx context.Context, b Batch) error

	// Recent returns the user's newest actions, at most limit of them, oldest
	// first, and none for a user it does not know. It never returns an action
	// that is older than the retention or that belongs to another user.
	Recent(ctx context.Context, productID, userID string, limit int) (Recent, error)
}

// Record is an action as an engine keeps it: encoded once when it arrives, so
// that a lookup copies bytes and nothing else.
type Record struct {
	Session string // the session it was part of, empty when unknown
	Start   int64  // microseconds since the epoch
	End     int64  // microseconds since the epoch, set by Recent
	JSON    string // the action's JSON up to the value of timestamp_end
}

// maxSeconds is the largest epoch second that is taken for a time, in the year 5138.
const maxSeconds = 1e11

// NewRecord encodes an action of a session. The record ends where it starts.
func NewRecord(session string, a Action) (Record, error) {
	if !(math.Abs(a.TimestampStart) <= maxSeconds) {
		return Record{}, fmt.Errorf("activity: encode action: invalid timestamp %g", a.TimestampStart)
	}
	start := micros(a.TimestampStart)
	var text string
	err := marshal(struct {
		Type         string `json:"type"`
		Title        string `json:"title"`
		Description  string `json:"description"`
		RawURL       string `json:"raw_url"`
		CanonicalURL string `json:"canonical_url"`
	}{a.Type, a.Title, a.Description, a.RawURL, a.CanonicalURL}, func(json []byte) {
		json = append(json[:len(json)-1], `,"timestamp_start":`...)
		json = appendSeconds(json, start)
		text = string(append(json, `,"timestamp_end":`...))
	})
	if err != nil {
		return Record{}, fmt.Errorf("activity: encode action: %w", err)
	}
	return Record{Session: session, Start: start, End: start, JSON: text}, nil
}

// appendJSON appends the record's action object.
func (r Record) appendJSON(dst []byte, index int) []byte {
	dst = append(dst, r.JSON...)
	dst = appendSeconds(dst, r.End)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	return append(dst, '}')
}

// appendSeconds appends microseconds as decimal seconds, without trailing zeros.
func appendSeconds(dst []byte, micros int64) []byte {
	if micros < 0 {
		dst, micros = append(dst, '-'), -micros
	}
	dst = strconv.AppendInt(dst, micros/1e6, 10)
	fraction := micros % 1e6
	if fraction == 0 {
		return dst
	}
	dst = append(dst, '.')
	for scale := int64(1e5); fraction > 0; scale /= 10 {
		dst = append(dst, byte('0'+fraction/scale))
		fraction %= scale
	}
	return dst
}

// Recent is a user's newest actions, oldest first.
type Recent []Record

// AppendJSON appends the JSON array of the actions, indexed from zero.
func (r Recent) AppendJSON(dst []byte) []byte {
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
func (r Recent) Actions() ([]Action, error) {
	actions := make([]Action, len(r))
	for i, record := range r {
		if err := json.Unmarshal(record.appendJSON(nil, i), &actions[i]); err != nil {
			return nil, fmt.Errorf("activity: decode record: %w", err)
		}
	}
	return actions, nil
}

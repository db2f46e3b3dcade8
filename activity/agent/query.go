package agent

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Bounds of the text, in characters.
const (
	MinChars     = 200
	MaxChars     = 20_000
	DefaultChars = 4000
)

// Query asks for the context of a person, by exactly one of the first four fields.
type Query struct {
	UserID         string
	Email          string // in upper or lower case
	SessionID      string // that session alone
	ConversationID string // of a help desk
	Desk           string // of the conversation, if several desks have that ID

	Limit int // how many of the newest actions; the maximum if it is below 1 or too large
	// Cursor, from an earlier answer about the product, leaves out earlier arrivals; Since
	// leaves out earlier actions. At most one of them is set.
	Cursor string
	Since  time.Time

	MaxChars int // of the text, from MinChars to MaxChars; DefaultChars for zero
}

// parameters of an endpoint. The first four name a person.
var parameters = [...]string{"user_id", "email", "session_id", "conversation_id", "desk", "limit", "since", "max_chars"}

// ParseQuery returns the query of an endpoint's parameters: the fields of [Query] in snake case,
// where since is a cursor or epoch seconds. Others are ignored. The query has been checked. The
// error is a *[activity.QueryError] about the first mistake.
func ParseQuery(values url.Values) (q Query, err error) {
	for _, name := range parameters {
		if len(values[name]) > 1 {
			return Query{}, &activity.QueryError{Param: name, Problem: "must be given once"}
		}
	}
	for i, to := range [...]*string{&q.UserID, &q.Email, &q.SessionID, &q.ConversationID, &q.Desk} {
		name := parameters[i]
		if *to = values.Get(name); values.Has(name) && *to == "" {
			return Query{}, &activity.QueryError{Param: name, Problem: "must not be empty"}
		}
	}
	var ok bool
	if q.Limit, ok = httpx.Int(values, "limit"); !ok {
		return Query{}, &activity.QueryError{Param: "limit", Problem: "must be an integer"}
	}
	if q.MaxChars, ok = httpx.Int(values, "max_chars"); !ok || q.MaxChars == 0 && values.Has("max_chars") {
		return Query{}, &activity.QueryError{Param: "max_chars", Problem: charsProblem}
	}
	q.Email = httpx.Email(values)
	q.parseSince(values.Get("since"))
	return q, q.Check()
}

// parseSince takes a number for a time, and anything else for a cursor, which is never a number.
func (q *Query) parseSince(since string) {
	const most = 1e11 // in the year 5138
	if seconds, err := strconv.ParseFloat(since, 64); err == nil && math.Abs(seconds) <= most {
		q.Since = time.UnixMicro(int64(math.Round(seconds * 1e6)))
		return
	}
	q.Cursor = since
}

// charsProblem is the mistake in a number of characters.
var charsProblem = fmt.Sprintf("must be an integer from %d to %d", MinChars, MaxChars)

// Check returns the first mistake in the query, a *[activity.QueryError]. It does not detect a
// cursor of another product: see [Query.After].
func (q *Query) Check() error {
	given := 0
	for i, value := range [...]string{q.UserID, q.Email, q.SessionID, q.ConversationID} {
		if value != "" {
			given++
		}
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return &activity.QueryError{Param: parameters[i], Problem: "must be UTF-8 text without NUL"}
		}
	}
	switch {
	case given != 1:
		return &activity.QueryError{Param: "user_id, email, session_id or conversation_id",
			Problem: "must be given, exactly one of them"}
	case q.Desk != "" && q.ConversationID == "":
		return &activity.QueryError{Param: "desk", Problem: "must be given together with conversation_id only"}
	case q.MaxChars != 0 && (q.MaxChars < MinChars || q.MaxChars > MaxChars):
		return &activity.QueryError{Param: "max_chars", Problem: charsProblem}
	case q.Cursor != "" && !q.Since.IsZero():
		return &activity.QueryError{Param: "since", Problem: "must be a cursor or a time, not both"}
	case q.Cursor != "":
		if _, _, ok := parseCursor(q.Cursor); !ok {
			return &activity.QueryError{Param: "since",
				Problem: "must be the cursor of an earlier answer, or a time in epoch seconds"}
		}
	}
	return nil
}

// After returns the position of the query's cursor, zero without one. The error for a
// cursor of another product is a *[activity.QueryError].
func (q *Query) After(productID string) (recent.Position, error) {
	if q.Cursor == "" {
		return recent.Position{}, nil
	}
	p, of, ok := parseCursor(q.Cursor)
	if !ok || of != digest(productID) {
		return p, &activity.QueryError{Param: "since", Problem: "must be the cursor of an answer about this product"}
	}
	return p, nil
}

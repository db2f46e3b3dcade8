package intake

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
)

// Bounds of IDs, in bytes. An event with a longer ID is malformed, since the beginning of an ID could
// be another user's.
const (
	MaxID      = 1024
	maxEscapes = 256 // of an ID in JSON, where it is repeated often
)

// Sound returns the recordable events of a program's own source, and counts the others. It removes
// invalid email addresses and IDs that many people share, and cleans actions. It does not modify its
// arguments; the result shares only strings with them.
func Sound(events []activity.Event) (sound []activity.Event, ignored Ignored) {
	sound = make([]activity.Event, 0, len(events))
	for _, e := range events {
		if e.UserID = UnsharedID(e.UserID); e.UserID == "" {
			e.Identified, e.Anonymous = false, ""
		}
		e.SessionID, e.Email = UnsharedID(e.SessionID), FirstEmail(e.Email)
		e.Anonymous, e.Visitor = ifUsable(UnsharedID(e.Anonymous)), ifUsable(UnsharedID(e.Visitor))
		if reason := ReasonToIgnore(&e); reason != "" {
			ignored.add(reason, 1)
			continue
		}
		if e.Action != nil {
			clean := e.Action.Clean()
			e.Action = &clean
		}
		sound = append(sound, e)
	}
	return sound, ignored
}

// ReasonToIgnore returns the reason for ignoring an event that is complete except for its time, or "".
// An event is ignored if an ID is unusable, if its action has neither user nor session, or if it has
// neither an action nor an identity to learn.
func ReasonToIgnore(e *activity.Event) (reason string) {
	switch {
	case e.ID == "" || len(e.ID) > MaxID || !utf8.ValidString(e.ID),
		IsUnusable(e.SessionID), IsUnusable(e.UserID):
		return ReasonMalformed
	case e.Action != nil && e.SessionID == "" && e.UserID == "":
		return ReasonNobody
	case e.Action != nil, e.SessionID != "" && (e.UserID != "" || e.Email != ""), e.UserID != "" && e.Email != "":
		return ""
	}
	return ReasonNothing
}

// Who returns an event in the session of a visitor, with the user ID or else the visitor's ID as its
// user. Either ID may be empty.
func Who(id, userID, visitor string, emails ...string) activity.Event {
	userID, visitor = UnsharedID(Trimmed(userID)), UnsharedID(Trimmed(visitor))
	return activity.Event{ID: id, UserID: cmp.Or(userID, visitor), Visitor: visitor, Identified: userID != "",
		SessionID: visitor, Email: FirstEmail(emails...)}
}

// ifUsable returns id, or "" if it is unusable.
func ifUsable(id string) string {
	if IsUnusable(id) {
		return ""
	}
	return id
}

// IsUnusable reports whether the ID of a session or a user is too long, or is not UTF-8.
func IsUnusable(id string) bool {
	return len(id) > MaxID || escapes(id) > maxEscapes || !utf8.ValidString(id)
}

// escapes returns the largest number of bytes that escaping adds to an ID in JSON. Encoders escape
// different characters; it counts those of all encoders.
func escapes(id string) (n int) {
	for _, r := range id {
		switch {
		case r == '"', r == '\\':
			n++
		case r < ' ':
			n += len(`\u0000`) - 1
		case r == '\u0085', r == '\u2028', r == '\u2029':
			n += len(`\u0085`) - utf8.RuneLen(r)
		}
	}
	return n
}

// Trimmed returns a copy of s without surrounding white space. A text that may have been cut is
// returned unchanged, which is too long for an ID: the beginning of an ID could be another user's.
func Trimmed(s string) string {
	if t := strings.TrimSpace(s); len(t) != len(s) && len(s) <= MaxText-utf8.UTFMax {
		return strings.Clone(t)
	}
	return s
}

// FirstEmail returns the first candidate that could be an email address, or "".
func FirstEmail(candidates ...string) string {
	for _, candidate := range candidates {
		if candidate = Trimmed(candidate); IsEmail(candidate) {
			return candidate
		}
	}
	return ""
}

// IDs that many people share, because a program sent the name of a value instead of the value. The
// lists are PostHog's own of IDs that it never merges: one without regard to case, one exact.
var (
	nobodyInAnyCase = []string{"anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email",
		"undefined", "true", "false"}
	nobody = []string{"[object Object]", "NaN", "None", "none", "null", "0", uuid.Nil.String()}
)

// UnsharedID returns the ID of a user or a session, or "" if it is blank or is shared by many people,
// including the source's own list of shared IDs. The comparison ignores surrounding quotation marks
// and white space, but the result is unchanged.
func UnsharedID(id string, shared ...string) string {
	inner := strings.TrimSpace(id)
	if n := len(inner); n > 2 && (inner[0] == '"' || inner[0] == '\'') && inner[0] == inner[n-1] {
		inner = strings.TrimSpace(inner[1 : n-1])
	}
	if inner == "" || slices.Contains(shared, inner) || slices.Contains(nobody, inner) ||
		slices.Contains(nobodyInAnyCase, strings.ToLower(inner)) {
		return ""
	}
	return id
}

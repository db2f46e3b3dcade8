package intake

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
)

// Longest IDs taken over, in bytes. An event with a longer one is malformed: a part of
// an ID could be another user's.
const (
	MaxID      = 1024
	maxEscapes = 256 // by how much an ID is longer in JSON, in which it stands again and again
)

// Sound returns the events of a program's own source that may be recorded, and how many may
// not. Invalid addresses and IDs that many people share are removed, and actions are cleaned.
// It does not change the events that it is given, nor their actions: the result shares the
// strings only.
func Sound(events []activity.Event) (sound []activity.Event, ignored int) {
	sound = make([]activity.Event, 0, len(events))
	for _, e := range events {
		if e.UserID = UserID(e.UserID); e.UserID == "" {
			e.Identified, e.Anonymous = false, ""
		}
		e.Email, e.Anonymous, e.Visitor = FirstEmail(e.Email), kept(UserID(e.Anonymous)), kept(UserID(e.Visitor))
		if Finish(&e) != "" || !utf8.ValidString(e.ID+e.SessionID+e.UserID+e.Anonymous) {
			ignored++
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

// Finish returns the reason for ignoring an event that is complete but for its time,
// "" for none: an ID that is too long, an action of nobody, or no action and nothing
// that a session or a user could learn from it.
func Finish(e *activity.Event) (reason string) {
	switch {
	case e.ID == "" || len(e.ID) > MaxID || IsLongID(e.SessionID) || IsLongID(e.UserID):
		return ReasonMalformed
	case e.Action != nil && e.SessionID == "" && e.UserID == "":
		return ReasonNobody
	case e.Action != nil, e.SessionID != "" && (e.UserID != "" || e.Email != ""), e.UserID != "" && e.Email != "":
		return ""
	}
	return ReasonNothing
}

// Who returns an event of a user, whose ID is the visitor's unless the event states one, in the
// session of the visitor. Either may be empty.
func Who(id, userID, visitor string, emails ...string) activity.Event {
	userID, visitor = UserID(Trimmed(userID)), UserID(Trimmed(visitor))
	return activity.Event{ID: id, UserID: cmp.Or(userID, visitor), Visitor: visitor, Identified: userID != "",
		SessionID: visitor, Email: FirstEmail(emails...)}
}

// kept returns an ID, or "" for one that is too long.
func kept(id string) string {
	if IsLongID(id) {
		return ""
	}
	return id
}

// IsLongID reports whether the ID of a session or a user is too long.
func IsLongID(id string) bool { return len(id) > MaxID || escapes(id) > maxEscapes }

// escapes returns by how many bytes an ID is longer in JSON, at most. Encoders differ in the
// characters they escape; each that one of them escapes is counted.
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

// Trimmed returns s without white space around it, as a copy, so the white space is not kept in
// memory. A text that may have been cut stays as it is, which is too long for an ID: a part of
// one ID could be another user's.
func Trimmed(s string) string {
	if t := strings.TrimSpace(s); len(t) != len(s) && len(s) <= MaxText-utf8.UTFMax {
		return strings.Clone(t)
	}
	return s
}

// FirstEmail returns the first candidate that may be an email address, or "".
func FirstEmail(candidates ...string) string {
	for _, candidate := range candidates {
		if candidate = Trimmed(candidate); IsEmail(candidate) {
			return candidate
		}
	}
	return ""
}

// IDs that stand for many people: a program sent the name of a value instead of
// the value. They are those that PostHog itself never merges with others, in any
// case of letters and exactly as they stand here.
var (
	nobodyInAnyCase = Words("anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email",
		"undefined", "true", "false")
	nobody = Words("[object Object]", "NaN", "None", "none", "null", "0", uuid.Nil.String())
)

// UserID returns the user ID that an ID stands for: the ID itself, or "" for a blank one and
// one that many people share, among them the source's own. For that comparison alone, quotation
// marks and white space around it are ignored: the result is id as it was given.
func UserID(id string, shared ...string) string {
	inner := strings.TrimSpace(id)
	if n := len(inner); n > 2 && (inner[0] == '"' || inner[0] == '\'') && inner[0] == inner[n-1] {
		inner = strings.TrimSpace(inner[1 : n-1])
	}
	if inner == "" || slices.Contains(shared, inner) ||
		nobody[inner] || nobodyInAnyCase[strings.ToLower(inner)] {
		return ""
	}
	return id
}

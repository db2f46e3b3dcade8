package sessions

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
)

// Session is a session in a listing. UserID and Email belong to the last action and are empty while
// unknown. The caller fills in the last two fields, which a Memory does not know.
type Session struct {
	SessionID    string  `json:"session_id"`
	UserID       string  `json:"user_id" jsonschema:"Empty while unknown."`
	Email        string  `json:"email" jsonschema:"Empty while unknown."`
	Page         string  `json:"page" jsonschema:"The page that the user is on, in words."` // see activity.PageName
	CanonicalURL string  `json:"canonical_url" jsonschema:"The page's URL with identifiers replaced by :id."`
	LastAction   string  `json:"last_action" jsonschema:"The user's newest action."` // a sentence
	FirstSeen    float64 `json:"first_seen" jsonschema:"Epoch seconds."`
	LastSeen     float64 `json:"last_seen" jsonschema:"Epoch seconds."`
	Actions      int     `json:"actions" jsonschema:"Number of the session's actions so far."` // with those no longer kept

	ConversationID string `json:"conversation_id,omitempty" jsonschema:"The help-desk conversation of the session."`
	State          string `json:"state,omitempty" jsonschema:"State of the proactive assistance in that conversation."`
}

// Listing is one page of the list of sessions.
type Listing struct {
	Sessions []Session `json:"sessions" jsonschema:"The session seen last first."` // never nil

	// Next is Query.After of the next listing; nil at the end.
	Next *string `json:"next" jsonschema:"Pass it as after to continue; null at the end."`
}

// session is the state of a session. userID and email are from the batch or the identity added last, lastAction is the
// newest action, and canonicalURL the page of the newest one that has a page.
type session struct {
	place
	userID, email string
	canonicalURL  string
	lastAction    string
	onPage        int64 // start of the newest action with a page, in microseconds since the epoch
	first         int64 // start of its first action, in microseconds since the epoch
	actions       int
}

// place is the position of a session in a list.
type place struct {
	last int64 // start of its newest action, in microseconds since the epoch
	id   string
}

// isBefore reports whether p comes first in a list.
func (p place) isBefore(other place) bool {
	if p.last != other.last {
		return p.last > other.last
	}
	return p.id < other.id
}

// take updates the session from the newest batch of the log. Its actions need not be the newest, since
// senders' clocks differ.
func (s *session) take(b *activity.Batch) {
	a := &b.Actions[len(b.Actions)-1]
	s.first, s.actions = min(s.first, micros(&b.Actions[0])), max(s.actions, a.Index+1)
	s.userID, s.email = b.UserID, b.Email
	if last := micros(a); last >= s.last {
		s.last, s.lastAction = last, a.Sentence()
	}
	for i := range b.Actions {
		if a := &b.Actions[i]; a.CanonicalURL != "" && micros(a) >= s.onPage {
			s.canonicalURL, s.onPage = a.CanonicalURL, micros(a)
		}
	}
}

// micros returns the start of an action in microseconds since the epoch.
func micros(a *activity.BatchAction) int64 { return a.Start().UnixMicro() }

// bytes returns the memory of the session, without the overhead of the cache.
func (s *session) bytes() int64 {
	const inOrder = 16 // a pointer in a node of a tree that is at least half full
	size := int64(inOrder)
	for _, text := range []string{s.id, s.userID, s.email, s.canonicalURL, s.lastAction} {
		size += fair.Size(len(text))
	}
	return size
}

// row returns the session as in a listing.
func (s *session) row() Session {
	return Session{
		SessionID: s.id, UserID: s.userID, Email: s.email,
		Page: activity.PageName(s.canonicalURL), CanonicalURL: s.canonicalURL, LastAction: s.lastAction,
		FirstSeen: seconds(s.first), LastSeen: seconds(s.last), Actions: s.actions,
	}
}

// seconds converts microseconds since the epoch to seconds.
func seconds(micros int64) float64 { return activity.Seconds(time.UnixMicro(micros)) }

// matches reports whether an identifier of the session begins with a prefix of the given number of
// characters.
func (s *session) matches(prefix string, characters int) bool {
	return prefix == "" || hasPrefixFold(s.email, prefix, characters) ||
		hasPrefixFold(s.userID, prefix, characters) || hasPrefixFold(s.id, prefix, characters)
}

// hasPrefixFold reports whether s begins with a prefix of the given number of characters, without
// regard to case. Equal characters may differ in bytes.
func hasPrefixFold(s, prefix string, characters int) bool {
	end := 0
	for range characters {
		_, size := utf8.DecodeRuneInString(s[end:])
		if size == 0 {
			return false
		}
		end += size
	}
	return strings.EqualFold(s[:end], prefix)
}

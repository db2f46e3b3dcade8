package activity

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Session is what is known of a session beyond its actions.
type Session struct {
	UserID string // of the session's newest event that carried one
	Email  string // of the session's newest event that carried one
	// ConversationID is set once the session is linked to a help-desk
	// conversation.
	ConversationID string
	// Actions counts the session's actions: the next one's index.
	Actions int

	userAt, emailAt time.Time // of the events the identity came from
	seenAt          time.Time // when the session was last updated
}

// Learn takes over the identity an event carries, unless something newer is
// known. An event that carries none changes nothing.
func (s *Session) Learn(e Event) {
	if e.UserID != "" && !e.Time.Before(s.userAt) {
		s.UserID, s.userAt = e.UserID, e.Time
	}
	if e.Email != "" && !e.Time.Before(s.emailAt) {
		s.Email, s.emailAt = e.Email, e.Time
	}
}

// Directory remembers the sessions of all products for as long as their
// actions are kept, at most a given number of them: the least recently seen
// are forgotten first. It is safe for concurrent use; changes to one session
// are atomic.
type Directory struct {
	ttl time.Duration

	mu       sync.Mutex
	sessions *simplelru.LRU[memoryKey, Session]
}

// NewDirectory returns an empty directory of at most maxSessions sessions
// (2 × DefaultMaxUsers for zero), each kept for ttl (DefaultTTL for zero)
// after it was last updated.
func NewDirectory(maxSessions int, ttl time.Duration) *Directory {
	if maxSessions <= 0 {
		maxSessions = 2 * DefaultMaxUsers
	}
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	d := &Directory{ttl: ttl}
	d.sessions, _ = simplelru.NewLRU[memoryKey, Session](maxSessions, nil) // fails only for a size below one
	return d
}

// Get returns what is known of a session.
func (d *Directory) Get(productID, sessionID string) (Session, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.get(memoryKey{productID, sessionID})
}

// Update changes a session, which starts out empty, and returns the result.
// The function runs under the directory's lock and must be quick.
func (d *Directory) Update(productID, sessionID string, change func(*Session)) Session {
	key := memoryKey{productID, sessionID}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, _ := d.get(key)
	change(&s)
	s.seenAt = time.Now()
	d.sessions.Add(key, s)
	return s
}

func (d *Directory) get(key memoryKey) (Session, bool) {
	s, ok := d.sessions.Get(key)
	if !ok || time.Since(s.seenAt) > d.ttl {
		return Session{}, false
	}
	return s, true
}

// Expire frees the sessions that are no longer kept.
func (d *Directory) Expire() {
	expireEach(&d.mu, d.sessions, func(s Session) bool { return time.Since(s.seenAt) > d.ttl })
}

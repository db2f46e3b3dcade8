package activity

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Session is what is known of a session beyond its actions.
type Session struct {
	// UserID is that of the session's newest event that carried one.
	UserID string
	// Email is that of the session's newest event that carried one, unless
	// the session went over from one identified user to another since;
	// without one, the e-mail address last known of the user.
	Email string
	// ConversationID is set once the session is linked to a help-desk
	// conversation.
	ConversationID string
	// Actions counts the session's actions: the next one's index.
	Actions int

	toldEmail       string // whoever it belongs to
	userBy, emailBy teller
	seenAt          time.Time // when the session was last updated
}

// Learn takes over the identity an event carries, unless something newer is
// known. An event that carries none changes nothing.
func (s *Session) Learn(e Event) {
	by := teller{at: e.Time}
	if e.Identified {
		by.identified = e.UserID
	}
	if e.UserID != "" && !e.Time.Before(s.userBy.at) {
		s.UserID, s.userBy = e.UserID, by
	}
	if e.Email != "" && !e.Time.Before(s.emailBy.at) {
		s.toldEmail, s.emailBy = e.Email, by
	}
	s.Email = s.toldEmail
	if s.userBy.identified != "" && s.emailBy.identified != "" && s.userBy.identified != s.emailBy.identified {
		s.Email = ""
	}
}

// teller is the event that something is known from.
type teller struct {
	at         time.Time
	identified string // its user id, empty unless that is identified
}

// contact is what is known of a user in whatever session.
type contact struct {
	email  string
	at     time.Time // of the event it came from
	seenAt time.Time // when it was last told
}

// Directory remembers who the sessions of all products belong to, and the
// e-mail addresses of users, for as long as their actions are kept. It holds a
// bounded number of each: the least recently seen are forgotten first. It is
// safe for concurrent use; changes to one session are atomic.
type Directory struct {
	ttl time.Duration

	mu       sync.Mutex
	sessions *simplelru.LRU[memoryKey, Session]
	users    *simplelru.LRU[memoryKey, contact]
}

// NewDirectory returns an empty directory of at most maxSessions sessions, and
// as many users (2 × DefaultMaxUsers for zero), each kept for ttl (DefaultTTL
// for zero) after it was last heard of.
func NewDirectory(maxSessions int, ttl time.Duration) *Directory {
	if maxSessions <= 0 {
		maxSessions = 2 * DefaultMaxUsers
	}
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	d := &Directory{ttl: ttl}
	// NewLRU fails only for a size below one.
	d.sessions, _ = simplelru.NewLRU[memoryKey, Session](maxSessions, nil)
	d.users, _ = simplelru.NewLRU[memoryKey, contact](maxSessions, nil)
	return d
}

// Get returns what is known of a session.
func (d *Directory) Get(productID, sessionID string) (Session, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.get(memoryKey{productID, sessionID})
	return d.resolved(productID, s), ok
}

// Learn takes over the identity that events of one session carry, and returns
// what is known of the session then. Without a session id, what is learned is
// the users' alone.
func (d *Directory) Learn(productID, sessionID string, events []Event) Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		if e.UserID != "" && e.Email != "" {
			d.meet(memoryKey{productID, e.UserID}, e)
		}
	}
	s := d.update(productID, sessionID, func(s *Session) {
		for _, e := range events {
			s.Learn(e)
		}
	})
	return d.resolved(productID, s)
}

// Update changes a session, which starts out empty, and returns the result.
// The function runs under the directory's lock and must be quick.
func (d *Directory) Update(productID, sessionID string, change func(*Session)) Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.resolved(productID, d.update(productID, sessionID, change))
}

func (d *Directory) update(productID, sessionID string, change func(*Session)) Session {
	key := memoryKey{productID, sessionID}
	var s Session
	if sessionID != "" {
		s, _ = d.get(key)
	}
	change(&s)
	if s.seenAt = time.Now(); sessionID != "" {
		d.sessions.Add(key, s)
	}
	return s
}

func (d *Directory) get(key memoryKey) (Session, bool) {
	s, ok := d.sessions.Get(key)
	if !ok || time.Since(s.seenAt) > d.ttl {
		return Session{}, false
	}
	return s, true
}

// meet remembers a user's e-mail address, unless a newer one is known.
func (d *Directory) meet(key memoryKey, e Event) {
	known, ok := d.users.Get(key)
	if !ok || !e.Time.Before(known.at) {
		known.email, known.at = e.Email, e.Time
	}
	known.seenAt = time.Now()
	d.users.Add(key, known)
}

// resolved returns the session with its user's e-mail address where it has
// none of its own.
func (d *Directory) resolved(productID string, s Session) Session {
	if s.Email != "" || s.UserID == "" {
		return s
	}
	if known, ok := d.users.Get(memoryKey{productID, s.UserID}); ok && time.Since(known.seenAt) <= d.ttl {
		s.Email = known.email
	}
	return s
}

// Expire frees what is no longer kept.
func (d *Directory) Expire() {
	expireEach(&d.mu, d.sessions, func(s Session) bool { return time.Since(s.seenAt) > d.ttl })
	expireEach(&d.mu, d.users, func(c contact) bool { return time.Since(c.seenAt) > d.ttl })
}

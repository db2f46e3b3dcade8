// Package directory knows who a session belongs to: its user, the user's address, whose word
// that is, and the conversation that the session is linked to.
//
// A [Directory] keeps this in documents of package
// [github.com/liveactivity/liveactivity/activity/document]. A recorder of events opens
// a [Book] for them, lets it learn, and writes its changes together with the actions:
//
//	dir, err := directory.New(docs, 0)
//	book := dir.Book("acme")
//	err = book.Open(ctx, events)
//	settled, expired := book.Settle("session_1", events)
//	session, err := book.Learn(ctx, "session_1", settled)
//	version, err := docs.Write(ctx, "acme", book.Changes()...)
//
// A [Finder] finds the session of an event that has none.
package directory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Session is a session's identity, link and counts: everything but its actions.
type Session struct {
	// UserID comes from the session's newest event that carried one, among the events
	// of the highest standing.
	UserID string
	// Email comes from the session's newest event that carried one, among the events of
	// the highest standing, unless the session went over from one identified user to
	// another since; without one, or where a higher standing is known of it, the email
	// address last known of the user.
	Email string
	// Standing belongs to UserID, EmailStanding to Email: Claimed while they are empty.
	// An address that is known of the user stands no higher than the user.
	Standing, EmailStanding activity.Standing
	// Desk and ConversationID are set once the session is linked to a
	// conversation of a help desk, until another identified user appears; see Link.
	Desk, ConversationID string
	// Actions counts the session's actions: the next one's index.
	Actions int

	identified      []string // other users that events of the session identified, the newest
	clock           clock
	noticed         *noticed // nil for nothing
	past            *past    // nil for nothing
	statedEmail     string   // whichever user it belongs to
	statedStanding  activity.Standing
	userBy, emailBy provenance
	linkedUser      string // that the link is of; empty until one is known
	linkedEmail     string // that the session was linked by while linkedUser was empty
	former          *formerLink
}

// Learn takes over the identity an event carries, unless something newer is
// known, or something of a higher standing. An event that carries none changes
// nothing.
func (s *Session) Learn(e activity.Event) {
	by := provenance{At: e.Time.UTC()}
	if e.Identified || e.UserID != "" && s.hasIdentified(e.UserID) { // which not every event says again
		by.Identified = e.UserID
	}
	if s.linkedUser == e.Anonymous && s.Names(&e) {
		s.linkedUser = e.UserID
	}
	before := s.userBy.Identified
	if e.UserID != "" && overrides(&e, e.Standing, s.Standing, s.userBy.At) {
		s.UserID, s.Standing, s.userBy = e.UserID, e.Standing, by
	}
	s.addIdentified(before)
	if e.Email != "" {
		s.state(Statement{e.UserID, e.Email})
	}
	if e.Standing >= s.Standing { // claims cannot crowd out those of a higher standing
		s.addIdentified(by.Identified)
		if by.Identified == s.UserID { // by an earlier event that comes late
			s.userBy.Identified = s.UserID
		}
	}
	isAnothers := e.UserID != "" && e.UserID != s.UserID && e.Standing < s.Standing
	if e.Email != "" && !isAnothers && overrides(&e, e.EmailStanding, s.statedStanding, s.emailBy.At) {
		s.statedEmail, s.statedStanding, s.emailBy = e.Email, e.EmailStanding, by
	}
	s.setEmail()
	s.keepLink()
}

// maxIdentified is how many identified users are remembered of a session.
const maxIdentified = 8

// addIdentified remembers an identified user of the session, and forgets the oldest beyond
// maxIdentified. It shares no memory with copies of the session.
func (s *Session) addIdentified(userID string) {
	if userID != "" && !s.hasIdentified(userID) {
		s.identified = addNewest(s.identified, userID, maxIdentified)
	}
}

// addNewest returns the list with an element that it may have, and without the oldest beyond
// most.
func addNewest[T comparable](list []T, one T, most int) []T {
	if slices.Contains(list, one) {
		return list
	}
	list = append(slices.Clip(list), one)
	return list[max(0, len(list)-most):]
}

// Statement is an email address that an event of a session stated, with the event's user ID,
// which may be empty.
type Statement struct {
	UserID string `json:"user_id,omitempty"`
	Email  string `json:"email"`
}

// maxStated is how many statements are remembered of a session.
const maxStated = 8

// past is the part of a session that only erasures and exports need. Copies of the session share
// it, so it is never changed: see amendPast.
type past struct {
	Stated  []Statement  `json:"stated,omitempty"`
	Earlier []formerLink `json:"earlier,omitempty"` // links before the former, and links that gave way, the newest last
}

// remembered returns a session's past, which must not be changed.
func (s *Session) remembered() past {
	if s.past == nil {
		return past{}
	}
	return *s.past
}

// amendPast replaces the session's past by a changed copy. The function must not change the
// elements of its lists.
func (s *Session) amendPast(change func(*past)) {
	p := s.remembered()
	if change(&p); len(p.Stated)+len(p.Earlier) == 0 {
		s.past = nil
		return
	}
	s.past = &p
}

// state remembers a statement.
func (s *Session) state(said Statement) {
	if !slices.Contains(s.remembered().Stated, said) {
		s.amendPast(func(p *past) { p.Stated = addNewest(p.Stated, said, maxStated) })
	}
}

// hasIdentified reports whether an event of the session identified the user.
func (s *Session) hasIdentified(userID string) bool {
	return userID == s.userBy.Identified || slices.Contains(s.identified, userID)
}

// Names reports whether the event identifies an anonymous visitor of the session. An
// identified user's actions are nobody else's, and an event that stands lower than
// the session's user says nothing about its visitor.
func (s *Session) Names(e *activity.Event) bool {
	return e.SessionID != "" && e.Standing >= s.Standing &&
		e.UserID != "" && e.Anonymous != "" && e.Anonymous != e.UserID && !s.hasIdentified(e.Anonymous)
}

// maxAhead is the longest time by which knowledge may be later than now: the clocks
// of servers differ a little.
const maxAhead = time.Second

// overrides reports whether the event's value, of a standing, takes the place of a
// known value of another standing, from an event at that time. The higher standing
// counts, whenever it was; at the same standing the later event does. A time that has
// not come yet is from a clock that was ahead, and gives way.
func overrides(e *activity.Event, standing, known activity.Standing, at time.Time) bool {
	return standing > known || standing == known && (!e.Time.Before(at) || at.Sub(arrival(e)) > maxAhead)
}

// setEmail sets the address to the stated one, or to none where that is another identified
// user's.
func (s *Session) setEmail() {
	s.Email, s.EmailStanding = s.statedEmail, s.statedStanding
	if s.userBy.Identified != "" && s.emailBy.Identified != "" && s.userBy.Identified != s.emailBy.Identified {
		s.Email, s.EmailStanding = "", activity.Claimed
	}
}

// provenance is the event that something is known from. The zero value is of no event.
type provenance struct {
	At         time.Time
	Identified string // its user id, empty unless that is identified
}

// Directory remembers the users of the sessions of all products, the email
// addresses of users, and the sessions of email addresses, for as long as
// their actions are kept. It keeps them as documents and nothing by itself, so
// directories over one store are one directory. It is safe for concurrent use.
type Directory struct {
	docs document.Store
	ttl  time.Duration
}

// New returns the directory in docs. A session is kept for ttl
// ([activity.DefaultTTL] for zero) after it was last heard of. New reports all
// invalid arguments at once.
func New(docs document.Store, ttl time.Duration) (*Directory, error) {
	wrong := options.Mistakes{Package: "directory"}
	wrong.Require(docs != nil, "docs", "must not be nil")
	ttl = options.Default(&wrong, "ttl", ttl, activity.DefaultTTL)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return &Directory{docs: docs, ttl: ttl}, nil
}

// Session returns a session, and false for an unknown one.
func (d *Directory) Session(ctx context.Context, productID, sessionID string) (Session, bool, error) {
	b := d.Book(productID)
	if err := b.load(ctx, ofSession(sessionID)); err != nil {
		return Session{}, false, err
	}
	p := b.stored[ofSession(sessionID)]
	s, err := b.resolved(ctx, p.session)
	return s, p.doc.Exists() && !p.damaged, err
}

// Sessions returns each of the sessions, in this order, as its own events described
// it: without an address that only its user has. An unknown one is the zero value. It
// reads them all at once.
func (d *Directory) Sessions(ctx context.Context, productID string, sessionIDs ...string) ([]Session, error) {
	docs, err := d.read(ctx, productID, ofSession, sessionIDs)
	known := make([]Session, len(docs))
	for i, p := range docs {
		known[i] = p.session
	}
	return known, err
}

// read returns the documents of subjects of one kind, in their order. It reads them all at
// once.
func (d *Directory) read(
	ctx context.Context, productID string, of func(id string) documentKey, ids []string,
) ([]*storedDocument, error) {
	b, keys := d.Book(productID), keysOf(of, ids)
	if err := b.load(ctx, keys...); err != nil {
		return nil, err
	}
	docs := make([]*storedDocument, len(keys))
	for i, key := range keys {
		docs[i] = b.stored[key]
	}
	return docs, nil
}

// facts is read for users or email addresses.
func (d *Directory) facts(
	ctx context.Context, productID string, of func(id string) documentKey, ids []string,
) ([]string, error) {
	docs, err := d.read(ctx, productID, of, ids)
	facts := make([]string, len(docs))
	for i, p := range docs {
		facts[i] = p.fact.is
	}
	return facts, err
}

// SessionOf returns the session in which an email address was last seen, among those
// where its standing was highest. Upper and lower case are the same, and no session has an empty address.
func (d *Directory) SessionOf(ctx context.Context, productID, email string) (sessionID string, ok bool, err error) {
	sessionIDs, err := d.SessionsOf(ctx, productID, email)
	if err != nil {
		return "", false, err
	}
	return sessionIDs[0], sessionIDs[0] != "", nil
}

// SessionsOf is [Directory.SessionOf] of each address, in their order; "" for none. It
// reads them all at once.
func (d *Directory) SessionsOf(ctx context.Context, productID string, emails ...string) ([]string, error) {
	return d.facts(ctx, productID, ofEmail, emails)
}

// EmailsOf returns the newest address of each user, in their order, of the highest standing
// there is; "" for none. It reads them all at once.
func (d *Directory) EmailsOf(ctx context.Context, productID string, userIDs ...string) ([]string, error) {
	return d.facts(ctx, productID, ofUser, userIDs)
}

// Amendment is a change of a session together with other documents of its
// product, all or nothing.
type Amendment struct {
	Session Session             // to be changed
	Known   bool                // whether anything was known of the session
	Docs    []document.Document // as they were read, in the order of their names
	Changes []document.Change   // of further documents

	// Write makes the changes instead of the store's Write, such as by an append
	// to a log; nil for the store.
	Write func(ctx context.Context, changes ...document.Change) error
}

// Amend reads a session and the named documents at once and makes the changes that
// the function asks for. On a concurrent change of any of them it starts again. If
// the function returns an error nothing is changed, and Amend returns that error.
func (d *Directory) Amend(
	ctx context.Context, productID, sessionID string, names []string, change func(*Amendment) error,
) error {
	return document.Retry(ctx, func() error {
		docs, err := d.docs.Get(ctx, productID, append([]string{ofSession(sessionID).documentName()}, names...)...)
		if err != nil {
			return fmt.Errorf("directory: read: %w", err)
		}
		b := d.Book(productID)
		p := &storedDocument{kind: sessionKind}
		p.set(docs[0])
		a := Amendment{Session: p.session, Known: p.doc.Exists() && !p.damaged, Docs: docs[1:]}
		if err := change(&a); err != nil {
			return err
		}
		p.session = a.Session
		if sessionID != "" { // which is no session
			b.change(p)
		}
		changes := append(b.Changes(), a.Changes...)
		if a.Write != nil {
			return a.Write(ctx, changes...)
		}
		_, err = d.docs.Write(ctx, productID, changes...)
		return err
	})
}

// Book returns a book of a product that is about nothing yet.
func (d *Directory) Book(productID string) *Book {
	return &Book{dir: d, productID: productID}
}

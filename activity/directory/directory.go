// Package directory maps sessions to their users: the user's ID and email address, the standing
// of each, and the conversation that the session is linked to.
//
// A [Directory] stores this as documents of package
// [github.com/liveactivity/liveactivity/activity/document]. A recorder opens a [Book] for a
// batch of events, updates it from them, and writes its changes together with the actions:
//
//	dir, err := directory.New(docs, 0)
//	book := dir.Book("acme")
//	err = book.Open(ctx, events)
//	settled, expired := book.Settle("session_1", events)
//	session, err := book.Learn(ctx, "session_1", settled)
//	version, err := docs.Write(ctx, "acme", book.Changes()...)
//
// [Directory.Find] finds a session for an event without one.
package directory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Session is the state of a session except for its actions.
type Session struct {
	// UserID is from the newest event that carried a user ID, among the session's events of
	// the highest standing.
	UserID string `json:"user_id,omitempty"`
	// Email is from the newest event that carried an address, among the session's events of
	// the highest standing, unless another identified user has appeared since. If there is
	// none, or the user's last known address has a higher standing, it is the latter.
	Email string `json:"-"`
	// Standing applies to UserID and EmailStanding to Email; both are Claimed while the value is
	// empty. An address known from the user has at most the standing of UserID.
	Standing      activity.Standing `json:"standing,omitempty"`
	EmailStanding activity.Standing `json:"-"`
	// Desk and ConversationID are set while the session is linked to a conversation of a
	// help desk. The link ends when another identified user appears; see Link.
	Desk           string `json:"desk,omitempty"`
	ConversationID string `json:"conversation_id,omitempty"`
	// Actions is the number of the session's actions, and so the index of the next one.
	Actions int `json:"actions,omitempty"`

	state
}

// state is the rest of a session, which only this package uses. It is exported for its JSON, which
// is the stored one. Times are microseconds since the epoch; zero means unknown.
type state struct {
	Others         []string          `json:"identified,omitempty"` // other users that were identified; the newest last
	OthersAt       map[string]int64  `json:"others_at,omitempty"`  // last events of Others, and of others in Past.Stated
	Clock          clock             `json:"clock,omitzero"`
	Servers        clock             `json:"servers,omitzero"` // of the events that the service placed
	Noticed        noticed           `json:"noticed,omitzero"`
	Past           past              `json:"past,omitzero"`
	StatedEmail    string            `json:"email,omitempty"` // the address stated last, of any user
	StatedStanding activity.Standing `json:"email_standing,omitempty"`
	UserBy         provenance        `json:"user_by,omitzero"`
	EmailBy        provenance        `json:"email_by,omitzero"`
	LinkUser       string            `json:"linked_user,omitempty"`  // whose link it is; empty until one is known
	LinkEmail      string            `json:"linked_email,omitempty"` // that the link was made by, while LinkUser is empty
	Former         *formerLink       `json:"former,omitempty"`
}

// Learn updates the session from the identity in an event, unless a newer one of the same
// standing, or one of a higher standing, is known. An event without an identity changes nothing.
func (s *Session) Learn(e activity.Event) {
	by := provenance{At: e.Time.UnixMicro()}
	if e.Identified || s.hasIdentified(e.UserID) { // not every event repeats it
		by.Identified = e.UserID
	}
	if s.LinkUser == e.Anonymous && s.Names(&e) {
		s.LinkUser = e.UserID
	}
	before := s.UserBy.Identified
	if e.UserID != "" && overrides(&e, e.Standing, s.Standing, s.UserBy.At) {
		s.UserID, s.Standing, s.UserBy = e.UserID, e.Standing, by
	}
	s.addIdentified(before)
	if e.Email != "" {
		s.Past.Stated = addNewest(s.Past.Stated, Statement{e.UserID, e.Email}, maxStated)
	}
	if e.Standing >= s.Standing { // claims cannot crowd out those of a higher standing
		s.addIdentified(by.Identified)
		if by.Identified == s.UserID { // by an earlier event that arrived late
			s.UserBy.Identified = s.UserID
		}
	}
	if i := slices.Index(s.Others, s.UserBy.Identified); i >= 0 { // who was there before is there again
		s.Others = slices.Delete(slices.Clone(s.Others), i, i+1)
	}
	isAnothers := e.UserID != "" && e.UserID != s.UserID && e.Standing < s.Standing
	if e.Email != "" && !isAnothers && overrides(&e, e.EmailStanding, s.StatedStanding, s.EmailBy.At) {
		s.StatedEmail, s.StatedStanding, s.EmailBy = e.Email, e.EmailStanding, by
	}
	s.setEmail()
	s.keepLink()
}

// newest returns the time of the newest event, in microseconds since the epoch; zero before the first.
func (s *Session) newest() int64 { return max(s.Clock.newest(), s.Servers.newest()) }

// maxIdentified is the number of other identified users that a session remembers.
const maxIdentified = 8

// addIdentified adds an identified user, and drops the oldest beyond maxIdentified. The list is
// copied, so copies of the session are unaffected.
func (s *Session) addIdentified(userID string) {
	if userID != "" && !s.hasIdentified(userID) {
		s.Others = addNewest(s.Others, userID, maxIdentified)
	}
}

// expireOthers forgets the other users, identified or with an address, without an event for as long as
// actions are kept: an erasure of theirs would no longer find the session.
func (s *Session) expireOthers(e *activity.Event, ttl time.Duration) {
	at, last, gone := e.Time.UnixMicro(), map[string]int64(nil), []string(nil)
	check := func(id string) {
		known, isKnown := s.OthersAt[id]
		switch {
		case id == "", id == s.UserID, s.UserID == "": // nobody's link would go with any user
			return
		case id == e.UserID, !isKnown:
			known = max(known, at)
		case at-known > ttl.Microseconds():
			gone = append(gone, id)
			return
		}
		if last == nil {
			last = map[string]int64{}
		}
		last[id] = known
	}
	for _, id := range s.Others {
		check(id)
	}
	for _, said := range s.Past.Stated {
		check(said.UserID)
	}
	if s.OthersAt = last; len(gone) > 0 {
		s.forget(Person{UserIDs: gone})
	}
}

// addNewest returns the list with the element appended, unless the list has it, and without the
// oldest elements beyond most.
func addNewest[T comparable](list []T, one T, most int) []T {
	if slices.Contains(list, one) {
		return list
	}
	list = append(slices.Clip(list), one)
	return list[max(0, len(list)-most):]
}

// Statement is an email address that an event of the session stated, with the event's user ID,
// which may be empty.
type Statement struct {
	UserID string `json:"user_id,omitempty"`
	Email  string `json:"email"`
}

// maxStated is the number of statements that a session remembers.
const maxStated = 8

// past is the part of a session that only erasures and exports need. Copies of a session share its
// lists, so they are replaced, not modified.
type past struct {
	Stated  []Statement  `json:"stated,omitempty"`
	Earlier []formerLink `json:"earlier,omitempty"` // links before the former, and links that gave way, the newest last
}

// hasIdentified reports whether an event of the session identified the user.
func (s *Session) hasIdentified(userID string) bool {
	return userID == s.UserBy.Identified || slices.Contains(s.Others, userID)
}

// Identified returns the session's identified users, at most the newest maxIdentified and the
// present one. The caller owns the slice.
func (s *Session) Identified() []string {
	all := slices.Clone(s.Others)
	if user := s.UserBy.Identified; user != "" {
		all = append(all, user)
	}
	return all
}

// Addressee returns the user of the session's address: the identified user who stated it, even while a
// visitor is there, or else the session's user.
func (s *Session) Addressee() string {
	if owner := s.EmailBy.Identified; owner != "" && strings.EqualFold(s.Email, s.StatedEmail) {
		return owner
	}
	return s.UserID
}

// Stated returns the newest addresses that the session's own events stated, each with its user ID.
// The caller owns the slice.
func (s *Session) Stated() []Statement {
	all := slices.Clone(s.Past.Stated)
	isIt := func(said Statement) bool { return said.Email == s.StatedEmail }
	if s.StatedEmail != "" && !slices.ContainsFunc(all, isIt) { // others' claims came later
		all = append(all, Statement{s.EmailBy.Identified, s.StatedEmail})
	}
	return all
}

// Names reports whether the event identifies an anonymous visitor of the session. The actions of
// an identified user cannot be given to another, and an event of a lower standing than the
// session's user cannot name its visitor.
func (s *Session) Names(e *activity.Event) bool {
	return e.SessionID != "" && e.Standing >= s.Standing &&
		e.UserID != "" && e.Anonymous != "" && e.Anonymous != e.UserID && !s.hasIdentified(e.Anonymous)
}

// maxAhead is the most by which the time of a fact may be in the future, since the clocks of
// servers differ slightly.
const maxAhead = time.Second

// overrides reports whether an event's value with the given standing replaces a known value with
// another standing and time. The higher standing wins regardless of time; at the same standing
// the later event wins. A known time in the future is from a clock that was ahead, and loses.
func overrides(e *activity.Event, standing, known activity.Standing, at int64) bool {
	isAhead := at-arrival(e).UnixMicro() > maxAhead.Microseconds()
	return standing > known || standing == known && (e.Time.UnixMicro() >= at || isAhead)
}

// setEmail sets Email to the stated address, or to none if its identified user is not the last one of the
// session.
func (s *Session) setEmail() {
	s.Email, s.EmailStanding = s.StatedEmail, s.StatedStanding
	last := s.UserBy.Identified
	if n := len(s.Others); last == "" && n > 0 { // a visitor is there now
		last = s.Others[n-1]
	}
	if last != "" && s.EmailBy.Identified != "" && last != s.EmailBy.Identified {
		s.Email, s.EmailStanding = "", activity.Claimed
	}
}

// provenance describes the event that stated a value. The zero value is no event. IsUser is set in
// the stored form only.
type provenance struct {
	At         int64  `json:"at,omitempty"`         // microseconds since the epoch
	IsUser     bool   `json:"is_user,omitempty"`    // the session's user is the identified one
	Identified string `json:"identified,omitempty"` // the event's user ID; empty unless identified
}

// Directory maps the sessions of all products to their users, users to email addresses, and email
// addresses to sessions, for as long as actions are kept. All of its state is in documents, so
// directories over one store are interchangeable. It is safe for concurrent use.
type Directory struct {
	docs document.Store
	ttl  time.Duration
}

// New returns the directory stored in docs. A session is kept for ttl ([activity.DefaultTTL] if
// zero) after its last event. New reports all invalid arguments together.
func New(docs document.Store, ttl time.Duration) (*Directory, error) {
	wrong := options.Mistakes{Package: "directory"}
	wrong.Require(docs != nil, "docs", "must not be nil")
	ttl = options.Default(&wrong, "ttl", ttl, activity.DefaultTTL)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return &Directory{docs: docs, ttl: ttl}, nil
}

// Session returns a session. It reports false if the session is unknown.
func (d *Directory) Session(ctx context.Context, productID, sessionID string) (Session, bool, error) {
	b := d.Book(productID)
	if err := b.load(ctx, ofSession(sessionID)); err != nil {
		return Session{}, false, err
	}
	p := b.stored[ofSession(sessionID)]
	s, err := b.resolved(ctx, p.session)
	return s, p.doc.Exists() && !p.damaged, err
}

// Sessions returns the sessions, in the order of their IDs, as their own events described them:
// without addresses known only from their users. An unknown session is the zero value. The store
// is read once.
func (d *Directory) Sessions(ctx context.Context, productID string, sessionIDs ...string) ([]Session, error) {
	docs, err := d.read(ctx, productID, ofSession, sessionIDs)
	known := make([]Session, len(docs))
	for i, p := range docs {
		known[i] = p.session
	}
	return known, err
}

// read returns the documents of subjects of one kind, in the order of their IDs. The store is
// read once.
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

// EmailsOf returns each user's newest address of the highest standing, in the order of the users;
// "" for none. The store is read once.
func (d *Directory) EmailsOf(ctx context.Context, productID string, userIDs ...string) ([]string, error) {
	docs, err := d.read(ctx, productID, ofUser, userIDs)
	emails := make([]string, len(docs))
	for i, p := range docs {
		emails[i] = p.fact.Email
	}
	return emails, err
}

// Amendment is an atomic change of a session and other documents of its product.
type Amendment struct {
	Session Session             // to be changed
	Known   bool                // whether anything was known of the session
	Docs    []document.Document // as they were read, in the order of their names
	Changes []document.Change   // of further documents

	// Write replaces the store's Write, for example by an append to a log; nil means the
	// store's.
	Write func(ctx context.Context, changes ...document.Change) error
}

// Amend reads a session and the named documents together, and writes the changes that the
// function makes. If any of them changed concurrently, it starts again. If the function returns
// an error, nothing is written and Amend returns that error.
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

// Book returns an empty book for a product.
func (d *Directory) Book(productID string) *Book {
	return &Book{dir: d, productID: productID}
}

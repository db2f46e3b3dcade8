package activity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Session is what is known of a session beyond its actions.
type Session struct {
	// UserID is that of the session's newest event that carried one.
	UserID string
	// Email is that of the session's newest event that carried one, unless
	// the session went over from one identified user to another since;
	// without one, the e-mail address last known of the user.
	Email string
	// Desk and ConversationID are set once the session is linked to a
	// conversation of a help desk.
	Desk, ConversationID string
	// Actions counts the session's actions: the next one's index.
	Actions int

	clock           clock
	statedEmail     string // whichever user it belongs to
	userBy, emailBy provenance
}

// Learn takes over the identity an event carries, unless something newer is
// known. An event that carries none changes nothing.
func (s *Session) Learn(e Event) {
	by := provenance{At: e.Time}
	if e.Identified {
		by.Identified = e.UserID
	}
	if e.UserID != "" && e.supersedes(s.userBy.At) {
		s.UserID, s.userBy = e.UserID, by
	}
	if e.Email != "" && e.supersedes(s.emailBy.At) {
		s.statedEmail, s.emailBy = e.Email, by
	}
	s.setEmail()
}

// maxAhead is by how much what is known may be later than now: the clocks of
// servers differ a little.
const maxAhead = time.Second

// supersedes reports whether the event takes the place of what is known from
// another one: unless that happened later. What is known from a time that has
// not come yet is from a clock that was ahead, and gives way.
func (e Event) supersedes(at time.Time) bool {
	return !e.Time.Before(at) || at.Sub(e.received()) > maxAhead
}

func (s *Session) setEmail() {
	s.Email = s.statedEmail
	if s.userBy.Identified != "" && s.emailBy.Identified != "" && s.userBy.Identified != s.emailBy.Identified {
		s.Email = ""
	}
}

// provenance is the event that something is known from.
type provenance struct {
	At         time.Time `json:"at,omitzero"`
	Identified string    `json:"identified,omitempty"` // its user id, empty unless that is identified
}

// sessionDocument is a session as it is kept.
type sessionDocument struct {
	UserID         string     `json:"user_id,omitempty"`
	UserBy         provenance `json:"user_by,omitzero"`
	Email          string     `json:"email,omitempty"`
	EmailBy        provenance `json:"email_by,omitzero"`
	Desk           string     `json:"desk,omitempty"`
	ConversationID string     `json:"conversation_id,omitempty"`
	Actions        int        `json:"actions,omitempty"`
	Clock          clock      `json:"clock,omitzero"`
}

func (s Session) document() sessionDocument {
	return sessionDocument{s.UserID, s.userBy, s.statedEmail, s.emailBy, s.Desk, s.ConversationID, s.Actions, s.clock}
}

func (d sessionDocument) session() Session {
	s := Session{UserID: d.UserID, userBy: d.UserBy, statedEmail: d.Email, emailBy: d.EmailBy, Desk: d.Desk, ConversationID: d.ConversationID, Actions: d.Actions, clock: d.Clock}
	s.setEmail()
	return s
}

// contact is what is known of a user in any session.
type contact struct {
	Email string    `json:"email"`
	At    time.Time `json:"at"` // of the event it came from
}

// holder is the session that an e-mail address was last seen in.
type holder struct {
	SessionID string    `json:"session_id"`
	At        time.Time `json:"at"` // of the event that carried the address
}

// Directory remembers who the sessions of all products belong to, the e-mail
// addresses of users, and the sessions of e-mail addresses, for as long as
// their actions are kept. It keeps them as documents and nothing by itself, so
// directories over one store are one directory. It is safe for concurrent use.
type Directory struct {
	docs document.Store
	ttl  time.Duration
}

// NewDirectory returns the directory in docs. A session is kept for ttl
// (DefaultTTL for zero) after it was last heard of. NewDirectory reports all
// invalid arguments at once.
func NewDirectory(docs document.Store, ttl time.Duration) (*Directory, error) {
	wrong := options.Mistakes{Package: "activity"}
	wrong.Require(docs != nil, "docs", "must not be nil")
	ttl = options.Default(&wrong, "ttl", ttl, DefaultTTL)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return &Directory{docs: docs, ttl: ttl}, nil
}

// Prefixes of the documents' names.
const (
	sessionPrefix = "session/"
	userPrefix    = "user/"
	emailPrefix   = "email/"
)

// documentKey is what a document is about: an id, by the prefix of its kind.
type documentKey struct{ prefix, id string }

func ofSession(id string) documentKey  { return documentKey{sessionPrefix, id} }
func ofUser(id string) documentKey     { return documentKey{userPrefix, id} }
func ofEmail(email string) documentKey { return documentKey{emailPrefix, strings.ToLower(email)} }

// documentName returns the name of the document. An id that makes a name too
// long goes by its digest, and so does one that looks like that.
func (k documentKey) documentName() string {
	const digested = "sha256/"
	if len(k.prefix)+len(k.id) <= document.MaxName && !strings.HasPrefix(k.id, digested) {
		return k.prefix + k.id
	}
	sum := sha256.Sum256([]byte(k.id))
	return k.prefix + digested + hex.EncodeToString(sum[:])
}

// Session returns what is known of a session, and whether anything is.
func (d *Directory) Session(ctx context.Context, productID, sessionID string) (Session, bool, error) {
	b := d.book(productID)
	if err := b.load(ctx, ofSession(sessionID)); err != nil {
		return Session{}, false, err
	}
	p := b.stored[ofSession(sessionID)]
	s, err := b.resolved(ctx, p.session)
	return s, p.doc.Exists() && !p.damaged, err
}

// Sessions returns for each of the sessions, in this order, what its own events
// said; nothing for one that is unknown. It reads them all at once, and not what is
// known of their users.
func (d *Directory) Sessions(ctx context.Context, productID string, sessionIDs ...string) ([]Session, error) {
	b := d.book(productID)
	keys := make([]documentKey, len(sessionIDs))
	for i, id := range sessionIDs {
		keys[i] = ofSession(id)
	}
	if err := b.load(ctx, keys...); err != nil {
		return nil, err
	}
	known := make([]Session, len(sessionIDs))
	for i, key := range keys {
		known[i] = b.stored[key].session
	}
	return known, nil
}

// SessionOf returns the session in which an e-mail address was last seen. Upper
// and lower case are the same, and no session has an empty address.
func (d *Directory) SessionOf(ctx context.Context, productID, email string) (sessionID string, ok bool, err error) {
	sessionIDs, err := d.SessionsOf(ctx, productID, email)
	if err != nil {
		return "", false, err
	}
	return sessionIDs[0], sessionIDs[0] != "", nil
}

// SessionsOf returns for each of the addresses, in this order, what SessionOf
// does; "" for none. It reads them all at once.
func (d *Directory) SessionsOf(ctx context.Context, productID string, emails ...string) ([]string, error) {
	b := d.book(productID)
	keys := make([]documentKey, len(emails))
	for i, email := range emails {
		keys[i] = ofEmail(email)
	}
	if err := b.load(ctx, keys...); err != nil {
		return nil, err
	}
	sessionIDs := make([]string, len(emails))
	for i, email := range emails {
		if email != "" {
			sessionIDs[i] = b.stored[keys[i]].holder.SessionID
		}
	}
	return sessionIDs, nil
}

// Update changes a session, which starts out empty, and returns the result.
// On a concurrent change the function is called again.
func (d *Directory) Update(ctx context.Context, productID, sessionID string, change func(*Session)) (Session, error) {
	return d.UpdateWith(ctx, productID, sessionID, func(s *Session) ([]document.Change, error) {
		change(s)
		return nil, nil
	})
}

// UpdateWith changes a session like Update and, in the same call of the store,
// the documents that the function returns changes of. It is called again on a
// concurrent change of any of them, so it must read them itself each time. If
// it returns an error nothing is changed, and UpdateWith returns that error.
func (d *Directory) UpdateWith(ctx context.Context, productID, sessionID string, change func(*Session) ([]document.Change, error)) (Session, error) {
	for {
		b := d.book(productID)
		if err := b.load(ctx, ofSession(sessionID)); err != nil {
			return Session{}, err
		}
		s := b.session(sessionID)
		with, err := change(&s)
		if err != nil {
			return Session{}, err
		}
		b.keep(sessionID, s)
		err = b.write(ctx, with...)
		var conflict *document.ConflictError
		if errors.As(err, &conflict) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return Session{}, err
		}
		return b.resolved(ctx, s)
	}
}

// Open returns the part of the directory that these events are about.
func (d *Directory) Open(ctx context.Context, productID string, events []Event) (*Book, error) {
	b := d.book(productID)
	var keys []documentKey
	for _, e := range events {
		if e.SessionID != "" {
			keys = append(keys, ofSession(e.SessionID))
		}
		if e.UserID != "" {
			keys = append(keys, ofUser(e.UserID))
		}
		if e.Email != "" && e.SessionID != "" {
			keys = append(keys, ofEmail(e.Email))
		}
	}
	return b, b.load(ctx, keys...)
}

func (d *Directory) book(productID string) *Book {
	return &Book{dir: d, productID: productID}
}

// Book is the part of a directory that some events are about, as it was read.
// What is learned goes into the book alone; the directory has it once
// [Book.Changes] are written, which fails with *[document.ConflictError] when
// another caller changed a document in the meantime. It is for one goroutine.
type Book struct {
	dir       *Directory
	productID string
	stored    map[documentKey]*storedDocument
	changed   []*storedDocument
}

// storedDocument is one document of a book, and what it says or shall say.
type storedDocument struct {
	doc     document.Document
	read    bool
	damaged bool // what the document says cannot be read
	changed bool

	// What it is about, by the prefix of its name.
	session Session
	contact contact
	holder  holder
}

// decode reads the document. One that cannot be decoded is treated as missing: it
// will be written anew.
func (p *storedDocument) decode() error {
	switch {
	case !p.doc.Exists():
		return nil
	case strings.HasPrefix(p.doc.Name, userPrefix):
		return json.Unmarshal(p.doc.Value, &p.contact)
	case strings.HasPrefix(p.doc.Name, emailPrefix):
		return json.Unmarshal(p.doc.Value, &p.holder)
	}
	var s sessionDocument
	err := json.Unmarshal(p.doc.Value, &s)
	p.session = s.session()
	return err
}

// change returns what makes the document say what was learned, for ttl.
func (p *storedDocument) change(ttl time.Duration) (document.Change, error) {
	var said any = p.session.document()
	switch {
	case strings.HasPrefix(p.doc.Name, userPrefix):
		said = p.contact
	case strings.HasPrefix(p.doc.Name, emailPrefix):
		said = p.holder
	}
	value, err := json.Marshal(said)
	return document.Put(p.doc, value, ttl), err
}

// load reads those of the documents that the book does not have.
func (b *Book) load(ctx context.Context, keys ...documentKey) error {
	if b.stored == nil {
		b.stored = make(map[documentKey]*storedDocument, len(keys))
	}
	var names []string
	var missing []*storedDocument
	for _, key := range keys {
		if b.stored[key] == nil {
			p := &storedDocument{}
			b.stored[key] = p
			names, missing = append(names, key.documentName()), append(missing, p)
		}
	}
	if missing == nil {
		return nil
	}
	docs, err := b.dir.docs.Get(ctx, b.productID, names...)
	if err != nil {
		maps.DeleteFunc(b.stored, func(_ documentKey, p *storedDocument) bool { return !p.read })
		return fmt.Errorf("activity: read directory: %w", err)
	}
	for i, p := range missing {
		*p = storedDocument{doc: docs[i], read: true}
		if p.decode() != nil {
			*p = storedDocument{doc: docs[i], read: true, damaged: true}
		}
	}
	return nil
}

func (b *Book) change(p *storedDocument) {
	if !p.changed {
		p.changed = true
		b.changed = append(b.changed, p)
	}
}

// session returns what is known of a session. An invalid session has nothing.
func (b *Book) session(id string) Session {
	if id == "" {
		return Session{}
	}
	return b.stored[ofSession(id)].session
}

func (b *Book) keep(sessionID string, s Session) {
	if sessionID == "" {
		return
	}
	p := b.stored[ofSession(sessionID)]
	p.session = s
	b.change(p)
}

// Settle gives events of one session their times, by what is known of its
// clock, and returns them in order; see [Sink]. It leaves out the events that
// had expired when they arrived, and returns how many those are. Without a
// session id the events are one request's. The events must be among those that
// the book was opened for.
func (b *Book) Settle(sessionID string, events []Event) (settled []Event, expired int) {
	s := b.session(sessionID)
	if settled, expired = s.clock.settle(events, b.dir.ttl); len(settled) > 0 {
		b.keep(sessionID, s)
	}
	return settled, expired
}

// Learn takes over the identity that events of one session carry, and returns
// what is known of the session then. Without a session id, what is learned is
// the users' alone. The events must be among those that the book was opened for;
// further events need not be, and only the session learns from them.
func (b *Book) Learn(ctx context.Context, sessionID string, events []Event, further ...Event) (Session, error) {
	s := b.session(sessionID)
	for _, e := range events {
		e.Time = e.Time.UTC()
		s.Learn(e)
		if e.Email == "" {
			continue
		}
		if e.UserID != "" {
			b.meet(e)
		}
		if sessionID != "" {
			b.find(e)
		}
	}
	for _, e := range further {
		s.Learn(e)
	}
	b.keep(sessionID, s)
	return b.resolved(ctx, s)
}

// Count adds to the number of the session's actions.
func (b *Book) Count(sessionID string, actions int) {
	s := b.session(sessionID)
	s.Actions += actions
	b.keep(sessionID, s)
}

// meet remembers a user's e-mail address, unless a newer one is known.
func (b *Book) meet(e Event) {
	p := b.stored[ofUser(e.UserID)]
	if !e.supersedes(p.contact.At) {
		return
	}
	p.contact = contact{Email: e.Email, At: e.Time}
	b.change(p)
}

// find remembers the session that an e-mail address was seen in, unless it was
// seen elsewhere later.
func (b *Book) find(e Event) {
	p := b.stored[ofEmail(e.Email)]
	if !e.supersedes(p.holder.At) {
		return
	}
	p.holder = holder{SessionID: e.SessionID, At: e.Time}
	b.change(p)
}

// resolved returns the session with its user's e-mail address where it has
// none of its own.
func (b *Book) resolved(ctx context.Context, s Session) (Session, error) {
	if s.Email != "" || s.UserID == "" {
		return s, nil
	}
	if err := b.load(ctx, ofUser(s.UserID)); err != nil {
		return Session{}, err
	}
	s.Email = b.stored[ofUser(s.UserID)].contact.Email
	return s, nil
}

// Changes are what makes the directory know what the book has learned. It
// fails for events at times that no calendar has.
func (b *Book) Changes() ([]document.Change, error) {
	changes := make([]document.Change, len(b.changed))
	for i, p := range b.changed {
		var err error
		if changes[i], err = p.change(b.dir.ttl); err != nil {
			return nil, fmt.Errorf("activity: encode directory: %w", err)
		}
	}
	return changes, nil
}

// write makes the directory know what the book has learned, together with other
// changes.
func (b *Book) write(ctx context.Context, with ...document.Change) error {
	changes, err := b.Changes()
	if err != nil {
		return err
	}
	_, err = b.dir.docs.Write(ctx, b.productID, append(changes, with...)...)
	return err
}

package directory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// Book is the part of a directory that some events are about, as it was read. Only the book
// learns; the directory knows it once [Book.Changes] are written, which fails with
// *[document.ConflictError] when another caller changed a document in the meantime. A Book is
// for one goroutine.
//
// changed has the documents of stored to write, each once, in the order in which they changed
// first.
type Book struct {
	dir       *Directory
	productID string
	stored    map[documentKey]*storedDocument
	changed   []*storedDocument
	made      []storedDocument // memory of the documents that Open reads, for the next Open
	settled   []activity.Event // memory of what Settle returns, likewise
	keys      []documentKey    // memory of Open, likewise

	verifiedOnly bool
}

// VerifiedOnly makes Learn withhold claimed identities: it takes the user id and the
// email address out of an event, unless the session knows them at a higher standing.
// Anyone can send a user's id as an anonymous visitor's, so nothing tells the two apart,
// and no claimed id is kept at all: such an event is of its session and of no user. The
// session's actions become a user's by an event of a higher standing.
func (b *Book) VerifiedOnly() { b.verifiedOnly = true }

// withhold is VerifiedOnly for an event of the session. An anonymous id is withheld like
// the actions that have it.
func (s *Session) withhold(e *activity.Event) {
	if e.Standing == activity.Claimed && !(s.Standing > activity.Claimed && e.UserID == s.UserID) {
		e.UserID, e.Anonymous, e.Identified = "", "", false
	}
	isKnown := s.statedStanding > activity.Claimed && strings.EqualFold(e.Email, s.statedEmail)
	if e.EmailStanding == activity.Claimed && !isKnown {
		e.Email = ""
	}
}

// Reset makes the book one of a product that is about nothing yet, as
// [Directory.Book] returns it, in the memory of the former one. Events that Settle
// returned before are no longer valid.
func (b *Book) Reset(productID string) {
	b.forget()
	b.productID, b.verifiedOnly = productID, false
}

// forget lets go of everything that the book is about, and keeps its memory.
func (b *Book) forget() {
	clear(b.stored)
	clear(b.changed)
	clear(b.made)
	clear(b.settled)
	clear(b.keys)
	b.changed, b.made, b.settled, b.keys = b.changed[:0], b.made[:0], b.settled[:0], b.keys[:0]
}

// Open begins the book anew, about other events. Events that Settle returned before
// are no longer valid.
func (b *Book) Open(ctx context.Context, events []activity.Event) error {
	b.forget()
	b.keys = slices.Grow(b.keys, 3*len(events))
	for i := range events {
		e := &events[i]
		if e.SessionID != "" {
			b.keys = append(b.keys, ofSession(e.SessionID))
		}
		if e.UserID != "" {
			b.keys = append(b.keys, ofUser(e.UserID))
		}
		if e.Email != "" && e.SessionID != "" {
			b.keys = append(b.keys, ofEmail(e.Email))
		}
	}
	return b.load(ctx, b.keys...)
}

// documentKind is the kind of subject that a document has.
type documentKind uint8

const (
	sessionKind documentKind = iota
	userKind
	emailKind
)

// prefixes begin the names of documents of each kind.
var prefixes = [...]string{sessionKind: "session/", userKind: "user/", emailKind: "email/"}

// documentKey is the subject of a document: an ID of a kind.
type documentKey struct {
	kind documentKind
	id   string
}

// ofSession, ofUser and ofEmail return the keys of a session, of a user and of an address,
// whose case does not matter.
func ofSession(id string) documentKey  { return documentKey{sessionKind, id} }
func ofUser(id string) documentKey     { return documentKey{userKind, id} }
func ofEmail(email string) documentKey { return documentKey{emailKind, strings.ToLower(email)} }

// keysOf returns the keys of subjects of one kind, in their order.
func keysOf(of func(id string) documentKey, ids []string) []documentKey {
	keys := make([]documentKey, len(ids))
	for i, id := range ids {
		keys[i] = of(id)
	}
	return keys
}

// documentName returns the name of the document. An id that makes a name too
// long goes by its digest, and so does one that looks like that.
func (k documentKey) documentName() string {
	const digested = "sha256/"
	prefix := prefixes[k.kind]
	if len(prefix)+len(k.id) <= document.MaxName && !strings.HasPrefix(k.id, digested) {
		return prefix + k.id
	}
	sum := sha256.Sum256([]byte(k.id))
	return prefix + digested + hex.EncodeToString(sum[:])
}

// storedDocument is one document of a book: its content as read, and as learned
// since.
type storedDocument struct {
	doc     document.Document
	kind    documentKind
	read    bool
	damaged bool // the document cannot be decoded
	changed bool

	session Session // of a session
	fact    fact    // of a user the email address, of an email address the session it was last seen in
}

// fact is a known value, whose word it is, and when the event happened that stated it.
type fact struct {
	is       string
	standing activity.Standing
	at       time.Time
}

// load reads the documents that the book does not have yet, all at once. After an error the
// book has none of them.
func (b *Book) load(ctx context.Context, keys ...documentKey) error {
	if b.stored == nil {
		b.stored = make(map[documentKey]*storedDocument, len(keys))
	}
	names, missing := make([]string, 0, len(keys)), make([]*storedDocument, 0, len(keys))
	fresh := b.made[len(b.made):] // it must not grow: the book points into it
	if cap(fresh) < len(keys) {
		fresh = make([]storedDocument, 0, len(keys))
		b.made = fresh
	}
	for _, key := range keys {
		if b.stored[key] == nil {
			fresh = append(fresh, storedDocument{kind: key.kind})
			p := &fresh[len(fresh)-1]
			b.stored[key] = p
			names, missing = append(names, key.documentName()), append(missing, p)
		}
	}
	b.made = b.made[:len(b.made)+len(fresh)]
	if len(missing) == 0 {
		return nil
	}
	docs, err := b.dir.docs.Get(ctx, b.productID, names...)
	if err != nil {
		maps.DeleteFunc(b.stored, func(_ documentKey, p *storedDocument) bool { return !p.read })
		return fmt.Errorf("directory: read: %w", err)
	}
	for i, p := range missing {
		p.set(docs[i])
	}
	return nil
}

// change notes that a document, if there is one, is to be written.
func (b *Book) change(p *storedDocument) {
	if p != nil && !p.changed {
		p.changed = true
		b.changed = append(b.changed, p)
	}
}

// session returns the known state of a session, and its document. An invalid
// session has neither.
func (b *Book) session(id string) (*storedDocument, *Session) {
	if id == "" {
		return nil, &Session{}
	}
	p := b.stored[ofSession(id)]
	return p, &p.session
}

// Settle gives events of one session their times, by the session's clock, and
// returns them in order; see [activity.Sink]. It leaves out the events that had expired
// when they arrived, and returns the number of these. Without a
// session id the events are one request's. The events must be among those that
// the book was opened for.
func (b *Book) Settle(sessionID string, events []activity.Event) (settled []activity.Event, expired int) {
	p, s := b.session(sessionID)
	from := len(b.settled)
	b.settled, expired = s.clock.settle(b.settled, events, b.dir.ttl)
	if settled = slices.Clip(b.settled[from:]); len(settled) > 0 {
		b.change(p)
	}
	return settled, expired
}

// Learn takes over the identity that events of one session carry, and returns
// the session after it. Events without a session id change their users alone. The
// events must be among those that the book was opened for; further events need not
// be, and only the session learns from them. It withholds claims from the events; see
// VerifiedOnly.
func (b *Book) Learn(ctx context.Context, sessionID string, events []activity.Event,
	further ...activity.Event) (Session, error) {
	p, s := b.session(sessionID)
	for i := range events {
		e := &events[i]
		b.learn(s, e)
		if e.Email != "" && e.UserID != "" {
			b.note(ofUser(e.UserID), e.Email, min(e.Standing, e.EmailStanding), e)
		}
		if e.Email != "" && sessionID != "" {
			b.note(ofEmail(e.Email), e.SessionID, e.EmailStanding, e)
		}
	}
	for _, e := range further {
		b.learn(s, &e)
	}
	b.change(p)
	return b.resolved(ctx, *s)
}

// learn lets a session learn from an event, from which claims are withheld first.
func (b *Book) learn(s *Session, e *activity.Event) {
	if b.verifiedOnly {
		s.withhold(e)
	}
	s.tellApart(e)
	s.Learn(*e)
}

// Count adds to the number of the session's actions, from which the next indexes follow.
func (b *Book) Count(sessionID string, actions int) {
	p, s := b.session(sessionID)
	s.Actions += actions
	b.change(p)
}

// note remembers a fact of an event: a user's email address, or the session that an email
// address was seen in. A fact of a higher standing stays, and a newer one of the same; one that
// is said again at a lower standing is kept for longer. The book was opened for the subject.
func (b *Book) note(about documentKey, is string, standing activity.Standing, e *activity.Event) {
	switch p := b.stored[about]; {
	case overrides(e, standing, p.fact.standing, p.fact.at):
		p.fact = fact{is, standing, e.Time}
		b.change(p)
	case is == p.fact.is && standing < p.fact.standing:
		b.change(p)
	}
}

// resolved returns the session with its user's email address where it has none of its
// own, or one of a lower standing. That address stands no higher than the session's
// claim to be the user's.
func (b *Book) resolved(ctx context.Context, s Session) (Session, error) {
	if s.UserID == "" || s.Email != "" && s.EmailStanding >= s.Standing {
		return s, nil
	}
	user := ofUser(s.UserID)
	if b.stored[user] == nil {
		if err := b.load(ctx, user); err != nil {
			return Session{}, err
		}
	}
	known := &b.stored[user].fact
	standing := min(known.standing, s.Standing)
	if s.Email == "" || standing > s.EmailStanding {
		s.Email, s.EmailStanding = known.is, standing
	}
	return s, nil
}

// Changes returns the changes of documents that take the book's knowledge into the directory.
// All but linked sessions yield. The book stays as it is: after a refusal, open it anew.
func (b *Book) Changes() []document.Change {
	changes := make([]document.Change, len(b.changed))
	for i, p := range b.changed {
		changes[i] = document.Put(p.doc, p.value(), b.dir.ttl)
		changes[i].Yields = p.kind != sessionKind || p.session.ConversationID == ""
	}
	return changes
}

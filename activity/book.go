package activity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
)

// Book is the part of a directory that some events are about, as it was read.
// What is learned goes into the book alone; the directory has it once
// [Book.Changes] are written, which fails with *[document.ConflictError] when
// another caller changed a document in the meantime. It is for one goroutine.
type Book struct {
	dir       *Directory
	productID string
	stored    map[documentKey]*storedDocument
	changed   []*storedDocument
	memory    bookMemory
}

// bookMemory is what a book is written in, used again by the next [Book.Open].
type bookMemory struct {
	documents []storedDocument
	sessions  []Session
	settled   []Event
	keys      []documentKey
	changes   []document.Change
	values    []byte // of the changes, one behind the other
	reader    documentReader
}

// Open begins the book anew, in the same memory: about other events. What its
// methods returned before is no longer valid.
func (b *Book) Open(ctx context.Context, events []Event) error {
	m := &b.memory
	clear(b.stored)
	clear(m.settled)
	b.changed, m.documents, m.sessions, m.settled, m.keys = b.changed[:0], m.documents[:0], m.sessions[:0], m.settled[:0], m.keys[:0]
	for i := range events {
		e := &events[i]
		if e.SessionID != "" {
			m.keys = append(m.keys, ofSession(e.SessionID))
		}
		if e.UserID != "" {
			m.keys = append(m.keys, ofUser(e.UserID))
		}
		if e.Email != "" && e.SessionID != "" {
			m.keys = append(m.keys, ofEmail(e.Email))
		}
	}
	return b.load(ctx, m.keys...)
}

// document returns an empty document of the kind.
func (m *bookMemory) document(kind documentKind) *storedDocument {
	m.documents = append(m.documents, storedDocument{kind: kind})
	p := &m.documents[len(m.documents)-1]
	if kind == sessionKind {
		m.sessions = append(m.sessions, Session{})
		p.session = &m.sessions[len(m.sessions)-1]
	}
	return p
}

// documentKind is what a document is about.
type documentKind uint8

const (
	sessionKind documentKind = iota
	userKind
	emailKind
)

// prefixes are what the names of documents of a kind begin with.
var prefixes = [...]string{sessionKind: "session/", userKind: "user/", emailKind: "email/"}

// documentKey is what a document is about: an id of a kind.
type documentKey struct {
	kind documentKind
	id   string
}

func ofSession(id string) documentKey  { return documentKey{sessionKind, id} }
func ofUser(id string) documentKey     { return documentKey{userKind, id} }
func ofEmail(email string) documentKey { return documentKey{emailKind, strings.ToLower(email)} }

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

// storedDocument is one document of a book, and what it says or shall say.
type storedDocument struct {
	doc     document.Document
	kind    documentKind
	read    bool
	damaged bool // what the document says cannot be read
	changed bool

	session *Session // of a session, else nil
	fact    fact     // of a user the e-mail address, of an e-mail address the session it was last seen in
}

// fact is what is known, and when the event happened that it is known from.
type fact struct {
	is string
	at time.Time
}

// set takes over what a document read says: nothing, if it cannot be decoded. It
// will then be written anew.
func (p *storedDocument) set(doc document.Document, r *documentReader) {
	p.doc, p.read = doc, true
	if !doc.Exists() {
		return
	}
	var s Session
	var f fact
	r.begin(doc.Value)
	switch p.kind {
	case sessionKind:
		r.session(&s)
	case userKind:
		r.fact(&f, "email")
	case emailKind:
		r.fact(&f, "session_id")
	}
	if p.damaged = r.end() != nil; p.damaged {
		return
	}
	if p.fact = f; p.kind == sessionKind {
		*p.session = s
	}
}

// appendValue appends the JSON of what was learned.
func (p *storedDocument) appendValue(dst []byte) []byte {
	switch p.kind {
	case sessionKind:
		return p.session.appendDocument(dst)
	case userKind:
		dst = appendField(dst, `{"email":`, p.fact.is)
	case emailKind:
		dst = appendField(dst, `{"session_id":`, p.fact.is)
	}
	return append(appendMoment(dst, `,"at":`, p.fact.at), '}')
}

// appendDocument appends the JSON that a session is kept as; see
// documentReader.session.
func (s *Session) appendDocument(dst []byte) []byte {
	start := len(dst)
	text := func(before, value string) {
		if value != "" {
			dst = appendField(dst, before, value)
		}
	}
	text(`,"user_id":`, s.UserID)
	dst = s.userBy.append(dst, `,"user_by":`, s.UserID)
	text(`,"email":`, s.statedEmail)
	dst = s.emailBy.append(dst, `,"email_by":`, s.UserID)
	text(`,"desk":`, s.Desk)
	text(`,"conversation_id":`, s.ConversationID)
	if s.Actions != 0 {
		dst = append(dst, `,"actions":`...)
		dst = strconv.AppendInt(dst, int64(s.Actions), 10)
	}
	dst = s.clock.append(dst, `,"clock":`)
	return closeObject(dst, start)
}

// append appends a member of a JSON object, unless nothing is known. The session's
// user, whom it usually names, it does not repeat: ids may be long.
func (p provenance) append(dst []byte, before, userID string) []byte {
	if p == (provenance{}) {
		return dst
	}
	dst = append(dst, before...)
	start := len(dst)
	if !p.At.IsZero() {
		dst = appendMoment(dst, `,"at":`, p.At)
	}
	switch p.Identified {
	case "":
	case userID:
		dst = append(dst, `,"is_user":true`...)
	default:
		dst = appendField(dst, `,"identified":`, p.Identified)
	}
	return closeObject(dst, start)
}

// closeObject makes a JSON object of the members that dst has from start on,
// each behind a comma.
func closeObject(dst []byte, start int) []byte {
	if len(dst) == start {
		return append(dst, `{}`...)
	}
	dst[start] = '{'
	return append(dst, '}')
}

// appendMoment appends a member of a JSON object that is a time: microseconds since
// the epoch.
func appendMoment(dst []byte, before string, t time.Time) []byte {
	return strconv.AppendInt(append(dst, before...), t.UnixMicro(), 10)
}

// load reads those of the documents that the book does not have.
func (b *Book) load(ctx context.Context, keys ...documentKey) error {
	if b.stored == nil {
		b.stored = make(map[documentKey]*storedDocument, len(keys))
	}
	names, missing := make([]string, 0, len(keys)), make([]*storedDocument, 0, len(keys))
	b.memory.documents = slices.Grow(b.memory.documents, len(keys))
	for _, key := range keys {
		if b.stored[key] == nil {
			p := b.memory.document(key.kind)
			b.stored[key] = p
			names, missing = append(names, key.documentName()), append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	docs, err := b.dir.docs.Get(ctx, b.productID, names...)
	if err != nil {
		maps.DeleteFunc(b.stored, func(_ documentKey, p *storedDocument) bool { return !p.read })
		return fmt.Errorf("activity: read directory: %w", err)
	}
	for i, p := range missing {
		p.set(docs[i], &b.memory.reader)
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

// session returns what is known of a session, and its document. An invalid
// session has neither.
func (b *Book) session(id string) (*storedDocument, *Session) {
	if id == "" {
		return nil, &Session{}
	}
	p := b.stored[ofSession(id)]
	return p, p.session
}

// Settle gives events of one session their times, by what is known of its
// clock, and returns them in order; see [Sink]. It leaves out the events that
// had expired when they arrived, and returns how many those are. Without a
// session id the events are one request's. The events must be among those that
// the book was opened for.
func (b *Book) Settle(sessionID string, events []Event) (settled []Event, expired int) {
	p, s := b.session(sessionID)
	from := len(b.memory.settled)
	b.memory.settled, expired = s.clock.settle(b.memory.settled, events, b.dir.ttl)
	if settled = b.memory.settled[from:]; len(settled) > 0 {
		b.change(p)
	}
	return slices.Clip(settled), expired
}

// Learn takes over the identity that events of one session carry, and returns
// what is known of the session then. Without a session id, what is learned is
// the users' alone. The events must be among those that the book was opened for;
// further events need not be, and only the session learns from them.
func (b *Book) Learn(ctx context.Context, sessionID string, events []Event, further ...Event) (Session, error) {
	p, s := b.session(sessionID)
	for _, e := range events {
		e.Time = e.Time.UTC()
		s.Learn(e)
		if e.Email == "" {
			continue
		}
		if e.UserID != "" {
			b.note(ofUser(e.UserID), e.Email, e)
		}
		if sessionID != "" {
			b.note(ofEmail(e.Email), e.SessionID, e)
		}
	}
	for _, e := range further {
		s.Learn(e)
	}
	b.change(p)
	return b.resolved(ctx, *s)
}

// Count adds to the number of the session's actions.
func (b *Book) Count(sessionID string, actions int) {
	p, s := b.session(sessionID)
	s.Actions += actions
	b.change(p)
}

// note remembers what an event says: a user's e-mail address, or the session that
// an e-mail address was seen in. A newer fact stays.
func (b *Book) note(about documentKey, is string, e Event) {
	if p := b.stored[about]; e.supersedes(p.fact.at) {
		p.fact = fact{is, e.Time}
		b.change(p)
	}
}

// resolved returns the session with its user's e-mail address where it has
// none of its own.
func (b *Book) resolved(ctx context.Context, s Session) (Session, error) {
	if s.Email != "" || s.UserID == "" {
		return s, nil
	}
	user := ofUser(s.UserID)
	if b.stored[user] == nil {
		if err := b.load(ctx, user); err != nil {
			return Session{}, err
		}
	}
	s.Email = b.stored[user].fact.is
	return s, nil
}

// Changes are what makes the directory know what the book has learned.
func (b *Book) Changes() []document.Change {
	changes := slices.Grow(b.memory.changes[:0], len(b.changed))
	values := slices.Grow(b.memory.values[:0], valueSize*len(b.changed))
	for _, p := range b.changed {
		start := len(values)
		values = p.appendValue(values)
		changes = append(changes, document.Put(p.doc, values[start:len(values):len(values)], b.dir.ttl))
	}
	b.memory.changes, b.memory.values = changes, values
	return changes
}

// valueSize is about how many bytes a document's value has.
const valueSize = 192

// write makes the directory know what the book has learned, together with other
// changes.
func (b *Book) write(ctx context.Context, with ...document.Change) error {
	_, err := b.dir.docs.Write(ctx, b.productID, append(b.Changes(), with...)...)
	return err
}

package directory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// Book is a snapshot of the directory's documents that a set of events refers to. Learning
// changes the book only; the directory follows once [Book.Changes] are written. That write fails
// with *[document.ConflictError] if another caller changed one of the documents since the book
// was opened. A Book is not safe for concurrent use.
//
// changed lists the documents to write, each once, in the order of their first change.
type Book struct {
	dir       *Directory
	productID string
	stored    map[documentKey]*storedDocument
	changed   []*storedDocument
	made      []storedDocument // backs stored; reused by the next Open
	settled   []activity.Event // backs the results of Settle; reused likewise
	keys      []documentKey    // scratch space of Open

	verifiedOnly bool
}

// VerifiedOnly makes Learn withhold claimed identities: it removes the user ID and the email
// address from an event unless the session already knows them at a higher standing. Anyone can
// send a user's ID as an anonymous visitor's, so the two cannot be told apart, and no claimed ID
// is stored at all: such an event belongs to its session and to no user. A later event of a
// higher standing gives the session's actions to a user.
func (b *Book) VerifiedOnly() { b.verifiedOnly = true }

// withhold applies VerifiedOnly to an event of the session. An anonymous ID is withheld as well.
func (s *Session) withhold(e *activity.Event) {
	if e.Standing == activity.Claimed && !(s.Standing > activity.Claimed && e.UserID == s.UserID) {
		e.UserID, e.Anonymous, e.Identified = "", "", false
	}
	isKnown := s.StatedStanding > activity.Claimed && strings.EqualFold(e.Email, s.StatedEmail)
	if e.EmailStanding == activity.Claimed && !isKnown {
		e.Email = ""
	}
}

// Reset empties the book for use with another product, as if [Directory.Book] had returned it,
// and reuses its memory. Events that Settle returned before are no longer valid.
func (b *Book) Reset(productID string) {
	b.forget()
	b.productID, b.verifiedOnly = productID, false
}

// forget empties the book and keeps its memory.
func (b *Book) forget() {
	clear(b.stored)
	clear(b.changed)
	clear(b.made)
	clear(b.settled)
	clear(b.keys)
	b.changed, b.made, b.settled, b.keys = b.changed[:0], b.made[:0], b.settled[:0], b.keys[:0]
}

// Open empties the book and reads the documents that the events refer to. Events that Settle
// returned before are no longer valid.
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
		if e.Email != "" && e.SessionID+e.UserID != "" {
			b.keys = append(b.keys, ofEmail(e.Email))
		}
		if e.Email != "" && e.UserID != "" && (e.SessionID == "" || e.Placed || isOwn(e.SessionID, e.UserID)) {
			b.keys = append(b.keys, ofOwned(e.UserID))
		}
	}
	return b.load(ctx, b.keys...)
}

// documentKind is the kind of a document's subject.
type documentKind uint8

const (
	sessionKind documentKind = iota
	userKind
	emailKind
	ownedKind // the addresses of which a user is or was the Owner; see fact
)

// prefixes are the first parts of document names, by kind.
var prefixes = [...]string{sessionKind: "session/", userKind: "user/", emailKind: "email/", ownedKind: "owned/"}

// documentKey identifies the subject of a document.
type documentKey struct {
	kind documentKind
	id   string
}

// ofSession, ofUser, ofEmail and ofOwned return the keys of a session, a user, an email address and a
// user's owned addresses. Addresses are compared without regard to case.
func ofSession(id string) documentKey  { return documentKey{sessionKind, id} }
func ofUser(id string) documentKey     { return documentKey{userKind, id} }
func ofEmail(email string) documentKey { return documentKey{emailKind, strings.ToLower(email)} }
func ofOwned(id string) documentKey    { return documentKey{ownedKind, id} }

// keysOf returns the keys of several subjects of one kind, in the order of their IDs.
func keysOf(of func(id string) documentKey, ids []string) []documentKey {
	keys := make([]documentKey, len(ids))
	for i, id := range ids {
		keys[i] = of(id)
	}
	return keys
}

// documentName returns the name of the document. An ID that would make the name too long, or
// that looks like a digest itself, is replaced by its digest.
func (k documentKey) documentName() string {
	const digested = "sha256/"
	prefix := prefixes[k.kind]
	if len(prefix)+len(k.id) <= document.MaxName && !strings.HasPrefix(k.id, digested) {
		return prefix + k.id
	}
	sum := sha256.Sum256([]byte(k.id))
	return prefix + digested + hex.EncodeToString(sum[:])
}

// storedDocument is one document of a book, with its decoded content.
type storedDocument struct {
	doc     document.Document
	kind    documentKind
	read    bool
	damaged bool // the document cannot be decoded
	changed bool

	session Session  // of a session
	acted   int64    // time of its newest event when it was read, in microseconds since the epoch
	fact    fact     // a user's email address, or an address's last session and user
	owned   []string // addresses of a user, in lower case: claimed ones, then the others, the newest last
}

// maxOwned is the number of addresses that an erasure of their user finds, maxUsers the number of users, and of
// sessions without actions, that an erasure of their address finds.
const maxOwned, maxUsers = 32, 8

// own adds an address of a user, or a user or a session of an address, to the known ones. Beyond most a claim is
// left out, and any other displaces a claim or else the oldest: anybody can claim addresses for a user.
func own(known []string, one string, standing activity.Standing, most int) []string {
	switch {
	case standing > activity.Claimed:
		return addNewest(slices.DeleteFunc(known, func(other string) bool { return other == one }), one, most)
	case !slices.Contains(known, one) && len(known) < most:
		return slices.Insert(known, 0, one)
	}
	return known
}

// fact is a known value, with the standing and the time of the event that stated it, and the stored
// JSON of a user or an email address. It has one of the first three fields, or else an Owner alone.
type fact struct {
	Email     string            `json:"email,omitempty"`      // of a user
	SessionID string            `json:"session_id,omitempty"` // of an email address
	UserID    string            `json:"user_id,omitempty"`    // of an Owner
	Owner     *fact             `json:"owner,omitempty"`      // the user that an address has without a session
	Users     []string          `json:"users,omitempty"`      // that stated an address: claimed ones, then the others
	Silent    []string          `json:"silent,omitempty"`     // likewise, sessions in which the user did nothing
	Standing  activity.Standing `json:"standing,omitempty"`
	OfUser    activity.Standing `json:"of_user,omitempty"` // of the user's ID
	At        int64             `json:"at,omitempty"`      // microseconds since the epoch
}

func (f *fact) value() string { return f.Email + f.SessionID + f.UserID }

// isEmpty reports whether nothing is known of an address.
func (f *fact) isEmpty() bool {
	return f.value() == "" && f.Owner == nil && len(f.Users)+len(f.Silent) == 0
}

// is reports whether the fact names the user. There may be no fact.
func (f *fact) is(userID string) bool { return f != nil && f.UserID == userID }

// users returns the users that stated an address, with its Owner: first if it found no room.
func (f *fact) users() []string {
	if f.Owner == nil || slices.Contains(f.Users, f.Owner.UserID) {
		return f.Users
	}
	return slices.Insert(slices.Clip(f.Users), 0, f.Owner.UserID)
}

// rank orders facts by standing. Among addresses of one standing, one that a signed user stated ranks above one
// that anybody stated for that user.
func (f *fact) rank() activity.Standing { return f.Standing<<4 | f.OfUser }

// isHearsay reports whether an address was stated for the session's user by a mere claim to be that user, and
// the session is no such claim. Then it is no address of the session: anybody can state their own.
func (f *fact) isHearsay(s *Session) bool {
	return max(f.OfUser, f.Standing) == activity.Claimed && s.Standing > activity.Claimed
}

// load reads the documents that the book lacks in one call to the store. After an error the book
// has none of them.
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

// change marks a document as changed; nil is ignored.
func (b *Book) change(p *storedDocument) {
	if p != nil && !p.changed {
		p.changed = true
		b.changed = append(b.changed, p)
	}
}

// session returns a session and its document: for an empty ID an empty session and nil.
func (b *Book) session(id string) (*storedDocument, *Session) {
	if id == "" {
		return nil, &Session{}
	}
	p := b.stored[ofSession(id)]
	return p, &p.session
}

// Settle corrects the times of events of one session by the clocks of their senders and returns the
// events in time order; see [activity.Sink]. Events that had already expired on arrival are left
// out and counted. Each event must have a Time. Without a session ID, the events must be those of one
// request. The book must have been opened for the events.
func (b *Book) Settle(sessionID string, events []activity.Event) (settled []activity.Event, expired int) {
	p, s := b.session(sessionID)
	from, earlier := len(b.settled), 0
	isPlaced := func(e activity.Event) bool { return e.Placed }
	if slices.ContainsFunc(events, isPlaced) {
		placed := slices.DeleteFunc(slices.Clone(events), func(e activity.Event) bool { return !e.Placed })
		events = slices.DeleteFunc(slices.Clone(events), isPlaced)
		b.settled, earlier = s.Servers.settle(b.settled, placed, b.dir.ttl)
	}
	b.settled, expired = s.Clock.settle(b.settled, events, b.dir.ttl)
	if settled = slices.Clip(b.settled[from:]); len(settled) > 0 {
		b.change(p)
	}
	slices.SortStableFunc(settled, func(a, b activity.Event) int { return a.Time.Compare(b.Time) })
	return settled, earlier + expired
}

// Learn updates the session from the identities in its events and returns the updated session.
// Events without a session ID update only their users. The book must have been opened for the
// events, but not for the further ones, from which only the session learns. With VerifiedOnly it
// removes claimed identities from the events.
func (b *Book) Learn(ctx context.Context, sessionID string, events []activity.Event,
	further ...activity.Event) (Session, error) {
	p, s := b.session(sessionID)
	for i := range events {
		e := &events[i]
		was := s.UserID
		inSession := b.learn(s, e)
		if e.SessionID+e.UserID == "" {
			continue
		}
		b.addSilent(e, events, s.Actions == 0 || was != e.UserID && !(was == e.Anonymous && s.Names(e)))
		if e.Email == "" {
			continue
		}
		standing := min(e.Standing, e.EmailStanding)
		if e.UserID != "" {
			b.note(ofUser(e.UserID), fact{Email: e.Email, Standing: standing, OfUser: e.Standing}, e)
		}
		p := b.stored[ofEmail(e.Email)]
		b.add(p, &p.fact.Users, e.UserID, standing)
		outside := sessionID == "" || isOwn(sessionID, e.UserID)
		if !outside {
			b.note(ofEmail(e.Email), fact{SessionID: e.SessionID, Standing: inSession}, e)
		}
		if e.UserID != "" && (outside || inSession < e.EmailStanding) {
			b.note(ofEmail(e.Email), fact{UserID: e.UserID, Standing: standing}, e)
			owned := b.stored[ofOwned(e.UserID)]
			owned.owned = own(owned.owned, strings.ToLower(e.Email), standing, maxOwned)
			b.change(owned)
		}
	}
	for _, e := range further {
		b.learn(s, &e)
	}
	if len(events)+len(further) > 0 {
		b.change(p)
	}
	known, err := b.resolved(ctx, *s)
	step := max(b.dir.ttl.Microseconds()/2, 1)
	if err == nil && p != nil && known.Email != "" && p.acted/step != s.newest()/step {
		err = b.renew(ctx, sessionID, known)
	}
	return known, err
}

// renew extends the lifetime of the facts that lead from a session's user to the address and from
// there to the session: SDKs state an address once, however long the session goes on.
func (b *Book) renew(ctx context.Context, sessionID string, s Session) error {
	keys := []documentKey{ofUser(s.UserID), ofEmail(s.Email), ofOwned(s.UserID)}
	if err := b.load(ctx, keys...); err != nil {
		return err
	}
	for _, key := range keys {
		if p := b.stored[key]; strings.EqualFold(p.fact.Email, s.Email) || p.fact.SessionID == sessionID ||
			p.fact.Owner.is(s.UserID) || slices.Contains(p.owned, strings.ToLower(s.Email)) {
			b.change(p)
		}
	}
	return nil
}

// learn updates a session from an event, after withholding claims where VerifiedOnly is set, and
// returns the standing of the event's address in the session. A placed event is learned at no higher
// standing than the session has: whoever claims a user's ID gets that user's placed events.
func (b *Book) learn(s *Session, e *activity.Event) (ofEmail activity.Standing) {
	if b.verifiedOnly {
		s.withhold(e)
	}
	said := *e
	if e.Placed && !isOwn(e.SessionID, e.UserID) {
		said.Standing, said.EmailStanding = min(e.Standing, s.Standing), min(e.EmailStanding, s.Standing)
	}
	s.tellApart(&said)
	e.Identified = said.Identified
	s.Learn(said)
	s.expireOthers(&said, b.dir.ttl)
	return said.EmailStanding
}

// Count adds to the session's number of actions, which determines the index of the next one.
func (b *Book) Count(sessionID string, actions int) {
	p, s := b.session(sessionID)
	s.Actions += actions
	b.change(p)
}

// note records a fact from an event: a user's email address, or the session or the user of an email
// address, which are known side by side. Only a fact of a higher standing, or a newer one of the same,
// replaces a known fact. Repeating a fact at a lower standing extends its lifetime. The book must have
// been opened for the subject.
func (b *Book) note(about documentKey, f fact, e *activity.Event) {
	f.At = e.Time.UnixMicro()
	p := b.stored[about]
	known := &p.fact
	if f.Owner, f.Users, f.Silent = known.Owner, known.Users, known.Silent; f.UserID != "" {
		known, f.Owner, f.Users, f.Silent = cmp.Or(known.Owner, &fact{}), nil, nil, nil
		p.fact.Owner = known
	}
	switch {
	case overrides(e, f.rank(), known.rank(), known.At):
		*known = f
		b.change(p)
	case f.value() == known.value() && f.rank() < known.rank():
		b.change(p)
	}
}

// addSilent adds the session of an event to the sessions of its user and its address if the user is new there and
// has no action in the request. An erasure finds such a session by nothing else.
func (b *Book) addSilent(e *activity.Event, request []activity.Event, isNew bool) {
	if !isNew || slices.ContainsFunc(request, func(other activity.Event) bool {
		return other.Action != nil && !other.IsMark() && (other.UserID == e.UserID || other.UserID == e.Anonymous)
	}) {
		return
	}
	if p := b.stored[ofUser(e.UserID)]; p != nil {
		b.add(p, &p.fact.Silent, e.SessionID, e.Standing)
	}
	if p := b.stored[ofEmail(e.Email)]; p != nil {
		b.add(p, &p.fact.Silent, e.SessionID, min(e.Standing, e.EmailStanding))
	}
}

// add adds a user or a session, unless it is empty, to one of the document's lists.
func (b *Book) add(p *storedDocument, known *[]string, one string, standing activity.Standing) {
	at := slices.Index(*known, one)
	if one == "" || at >= 0 && (standing == activity.Claimed || at == len(*known)-1) {
		return
	}
	if *known = own(*known, one, standing, maxUsers); slices.Contains(*known, one) {
		b.change(p)
	}
}

// resolved returns the session with its user's email address if the session has none of its own,
// or one of a lower standing. The standing of that address is limited to the standing of the
// session's user. A session that is more than a claim takes no address from a claim to be its user.
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
	if known.isHearsay(&s) {
		return s, nil
	}
	standing := min(known.Standing, s.Standing)
	if s.Email == "" || standing > s.EmailStanding {
		s.Email, s.EmailStanding = known.Email, standing
	}
	return s, nil
}

// Changes returns the document changes that store the book's updates. All documents yield
// except linked sessions; see [document.Change].Yields. Changes does not modify the book. After a
// conflict, open the book again.
func (b *Book) Changes() []document.Change {
	changes := make([]document.Change, len(b.changed))
	for i, p := range b.changed {
		changes[i] = document.Put(p.doc, p.value(), b.dir.ttl)
		changes[i].Yields = p.kind != sessionKind || p.session.ConversationID == ""
	}
	return changes
}

package connector

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// status is the outcome of a link.
type status string

// The outcomes, as the endpoints answer them.
const (
	linked        status = "linked"
	alreadyLinked status = "already_linked" // to the same conversation
	pending       status = "pending"        // waits for the session to appear
)

// linkedBy is the party that vouches for a link between a session and a conversation, the
// least trusted first.
type linkedBy int

const (
	byStranger linkedBy = iota // a stranger: anyone can pretend to be a page of the product
	bySigned                   // the session's user, whose identity the product has signed
	byWebhook                  // the desk
)

// errLinked reports a session that is linked to another conversation.
var errLinked = errors.New("connector: the session is linked to another conversation")

// errUnknownSession reports a link of a session that has not appeared, or that belongs to a
// person other than the contact.
var errUnknownSession = errors.New("connector: the session is unknown")

// errUnsigned reports a link whose proof does not sign the session's user.
var errUnsigned = errors.New("connector: the user of the session is not signed")

// errTooManySessions reports a link to a conversation that is full. It has MaxSessions linked by
// webhooks, as many by signed users, or MaxStrangers by strangers, or its document has no room.
var errTooManySessions = errors.New("connector: the conversation has too many sessions")

// Bounds of a link.
const (
	MaxSessions       = 64  // of a conversation, linked by webhooks, and as many by signed users
	maxConversationID = 256 // bytes
	// MaxWait is how long a link waits for its session to appear.
	MaxWait = 15 * time.Minute
)

// errNoChange ends an amendment that would change nothing.
var errNoChange = errors.New("connector: no change")

// linker links sessions to conversations. It stores links in documents and announces them by
// notices. It is safe for concurrent use.
//
// A link is stored in two documents: the session's in the directory, and the conversation's.
// They change together with the link's notice and the receipt of its webhook, all or nothing.
// For a contact without a session a third document is stored instead, the waiting link, which
// expires after MaxWait:
//
//	webhook, session known      link
//	webhook, no session yet     addWaiting ──▶ resolve, by the holder of the lease ──▶ link
//	page                        link; the page itself repeats it until the session is known
type linker struct {
	store    *store
	products Products
	links    *prometheus.CounterVec // by product, desk and result
}

// linkClaim is a request for a link.
type linkClaim struct {
	productID string
	Link

	by    linkedBy
	proof intake.Proof // of the session's user, where the link is bySigned
	// at is the moment of the link, which decides which earlier actions are
	// written; zero for now. That of a link that waits for the contact takes precedence.
	at time.Time
	// contact is the stated owner of the session, if any is stated.
	contact helpdesk.Contact
	// receipt is stored with the link; nil for none.
	receipt *receipt
}

// link links a session to a conversation. The first link of a session is final: a link to
// another conversation gets errLinked, while a repeated one succeeds. But a stranger's link
// gives way to one that is vouched for.
//
// The error is also errUnknownSession, errUnsigned, errTooManySessions, a *quotaError or
// storage's. After an error of storage the link may have been stored; after any other,
// nothing has changed. A claim whose receipt is stored already has no effect, and the
// status is the former answer.
func (l *linker) link(ctx context.Context, c linkClaim, sessionID string) (status, error) {
	product, _, err := l.products.Product(c.productID)
	if err != nil {
		return "", err
	}
	names := []string{c.documentName()}
	switch {
	case c.receipt != nil:
		names = append(names, c.receipt.names...)
	case c.by == byStranger:
		names = append(names, strangersName)
	}
	if c.contact != (helpdesk.Contact{}) {
		w := Waiting{Conversation: c.key(), Email: c.contact.Email, UserID: c.contact.UserID}
		names = append(names, w.documentName())
	}
	result := linked
	err = l.store.dir.Amend(ctx, c.productID, sessionID, names, func(a *directory.Amendment) (err error) {
		result, err = l.amend(ctx, c, a, sessionID, product)
		return err
	})
	if errors.Is(err, document.ErrInvalid) { // its document would be too long
		err = errTooManySessions
	}
	if errors.Is(err, errLinked) || errors.Is(err, errTooManySessions) {
		l.links.WithLabelValues(c.productID, c.Desk, "refused").Inc()
	}
	if err != nil && !errors.Is(err, errNoChange) {
		return "", err
	}
	if c.receipt != nil && c.receipt.was != "" {
		return c.receipt.was, nil
	}
	l.links.WithLabelValues(c.productID, c.Desk, string(result)).Inc()
	return result, nil
}

// amend links the session of an amendment, whose first document is the conversation's. The error
// is errNoChange if the amendment would change nothing. If another change of the documents comes
// first, amend is called again and starts over.
func (l *linker) amend(ctx context.Context, c linkClaim, a *directory.Amendment, sessionID string,
	product Product) (status, error) {
	s := &a.Session
	if c.receipt != nil && c.receipt.recall(a.Docs[1:1+len(c.receipt.names)]) {
		return "", errNoChange
	}
	if w, ok := decodeWaiting(a.Docs[len(a.Docs)-1].Value); ok { // an earlier webhook waits for the session
		c.at = w.At
	}
	if is, err := l.isOf(ctx, c, a, sessionID); err != nil || !is {
		return "", cmp.Or(err, errUnknownSession)
	}
	if c.by == byStranger && directory.IsOwn(sessionID) { // no page is in it, and its ID follows from the user's
		return "", errUnknownSession
	}
	if c.by == bySigned {
		if !c.proof.Signs(s.UserID, product.IdentitySecrets, l.store.now()) {
			return "", errUnsigned
		}
		c.contact.UserID = s.UserID
	}
	if s.ConversationID != "" && (s.Desk != c.Desk || s.ConversationID != c.ConversationID) {
		gives, err := l.givesWay(ctx, c, s, sessionID)
		if err != nil || !gives {
			return "", cmp.Or(err, errLinked)
		}
		s.GiveWay(l.store.now())
	}
	isNew := s.ConversationID == ""
	if isNew {
		s.Link(c.Desk, c.ConversationID, c.contact.Email, c.contact.UserID)
	}
	return l.join(ctx, c, a, sessionID, isNew, l.moment(c.at).Add(-product.Notes.PreLinkWindow))
}

// isOf reports whether the session of an amendment is known and belongs to the contact. A claim
// without a contact fits any session.
func (l *linker) isOf(ctx context.Context, c linkClaim, a *directory.Amendment, sessionID string) (bool, error) {
	if !a.Known || a.Session.IsOf(c.contact.Email, c.contact.UserID) {
		return a.Known, nil
	}
	full, _, err := l.store.dir.Session(ctx, c.productID, sessionID) // with the email address known for its user
	return full.UserID == a.Session.UserID && full.IsOf(c.contact.Email, c.contact.UserID), err
}

// join adds a session to the conversation of an amendment; isNew is false if the session has the
// link already. For a session that is new in the conversation, actions that started since from
// are written. One that was there before goes on from its cursor, for its new user.
func (l *linker) join(ctx context.Context, c linkClaim, a *directory.Amendment, sessionID string, isNew bool,
	from time.Time) (status, error) {
	r := recordOf(a.Docs[0]) // a document that cannot be read counts as empty
	result, n := linked, notice{Type: noticeType, Link: c.Link, SessionID: sessionID}
	user, _, _ := a.Session.LinkedUser(c.Desk, c.ConversationID)
	switch s := r.session(sessionID); {
	case s != nil && isNew: // its user is back, or another one is there
		if s.UserID != user {
			s.UserID = cmp.Or(s.UserID, formerUser(&a.Session, c))
			s.passTo(user)
		}
		s.vouch(c)
		s.LinkedAt, s.Others = a.Session.Actions, a.Session.OtherUsers()
	case s != nil && c.by <= s.by():
		return alreadyLinked, errNoChange
	case s != nil:
		s.vouch(c)
		result = alreadyLinked
	default:
		if err := l.makeRoom(ctx, c, &r); err != nil {
			return "", err
		}
		joined := session{ID: sessionID, Since: activity.Seconds(from),
			Cursor: cursor{After: eventlog.IDAt(from.Add(-clockSlack))}, UserID: user, LinkedAt: a.Session.Actions,
			Others: a.Session.OtherUsers()}
		joined.vouch(c)
		r.Sessions = append(r.Sessions, joined)
	}
	n.Stranger, n.Shared = r.session(sessionID).by() == byStranger, len(r.session(sessionID).Others) > 0
	put, _, err := l.store.change(&r)
	if err != nil {
		return "", err
	}
	a.Changes = []document.Change{put}
	switch {
	case c.receipt != nil:
		a.Changes = append(a.Changes, c.receipt.changes(result)...)
	case c.by == byStranger: // for it, any change is a new link
		counted, err := l.countStranger(a.Docs[1])
		if err != nil {
			return "", err
		}
		a.Changes = append(a.Changes, counted)
	}
	a.Write = func(ctx context.Context, changes ...document.Change) error {
		err := l.store.commit(ctx, c.productID, n, changes...)
		if c.receipt != nil && err == nil {
			c.receipt.stored = true
		}
		return err
	}
	return result, nil
}

// formerUser returns the user of the session's newest ended link to the claim's conversation,
// empty for none.
func formerUser(s *directory.Session, c linkClaim) string {
	user, _, _ := s.LinkedUser(c.Desk, c.ConversationID)
	for _, of := range s.Conversations() {
		if of.Desk == c.Desk && of.ID == c.ConversationID && of.UserID != user {
			return of.UserID
		}
	}
	return ""
}

// clockSlack is by how much the log's IDs may be behind the times of actions.
const clockSlack = time.Second

// moment returns the time of a link: its webhook's time if that is plausible, else now. A time
// in the future and one more than MaxWait ago are not.
func (l *linker) moment(at time.Time) time.Time {
	now := l.store.now()
	if at.After(now) || at.Before(now.Add(-MaxWait)) {
		return now
	}
	return at
}

// Waiting is a link whose session has not appeared.
type Waiting struct {
	Conversation string    `json:"conversation"` // the desk, a slash and the ID
	Email        string    `json:"email,omitempty"`
	UserID       string    `json:"user_id,omitempty"` // used for sessions without another email address
	At           time.Time `json:"at"`
}

// documentName returns the name of the link's document: a conversation has one for
// each contact that it waits for.
func (w Waiting) documentName() string {
	sum := sha256.Sum256([]byte(w.Conversation + "\x00" + strings.ToLower(w.Email) + "\x00" + w.UserID))
	return waitingPrefix + hex.EncodeToString(sum[:16])
}

// decodeWaiting decodes the document of a waiting link, and reports false for a damaged one.
func decodeWaiting(value []byte) (w Waiting, ok bool) {
	err := json.Unmarshal(value, &w)
	return w, err == nil && w.Conversation != ""
}

// linkContact links the session of a contact. For a contact without a session it stores a link
// that waits for one, for MaxWait. The status is ignored for an empty contact and for a
// conversation that has too many sessions, and already linked even if the link is to another
// conversation. Any error is storage's, and the call can be repeated.
func (l *linker) linkContact(ctx context.Context, c linkClaim, contact helpdesk.Contact) (status, error) {
	result, err := l.linkKnown(ctx, c, contact)
	if result != "" || err != nil {
		return result, err
	}
	return l.addWaiting(ctx, c, contact)
}

// linkKnown links the session that a contact has. The status is empty if there
// is none.
func (l *linker) linkKnown(ctx context.Context, c linkClaim, contact helpdesk.Contact) (status, error) {
	sessionID, err := l.sessionOf(ctx, c.productID, contact)
	if sessionID == "" || err != nil {
		return "", err
	}
	c.contact = contact
	return l.linkFound(ctx, c, sessionID)
}

// linkFound links a session that was found for a contact. A link that is refused is not an
// error, because a desk would only repeat it. The status is empty if the session is not the
// contact's.
func (l *linker) linkFound(ctx context.Context, c linkClaim, sessionID string) (status, error) {
	result, err := l.link(ctx, c, sessionID)
	switch {
	case errors.Is(err, errLinked):
		return alreadyLinked, nil
	case errors.Is(err, errTooManySessions):
		return ignored, nil
	case errors.Is(err, errUnknownSession): // it has just expired, or is another user's by now
		return "", nil
	}
	return result, err
}

// sessionOf returns the session in which a contact was last seen, empty for none.
// It looks by email address, or else by the app's own user ID unless that user is
// known by another address.
func (l *linker) sessionOf(ctx context.Context, productID string, contact helpdesk.Contact) (string, error) {
	if contact.Email != "" {
		sessionID, err := l.store.dir.SessionOf(ctx, l.store.log.Activity(), productID, contact.Email)
		if err != nil {
			return "", err
		}
		if sessionID != "" {
			return l.resumed(ctx, productID, sessionID, contact.Email)
		}
	}
	sessionID, session, err := l.newest(ctx, productID, contact.UserID)
	if contact.Email != "" && session.Email != "" && !strings.EqualFold(session.Email, contact.Email) {
		return "", err
	}
	return sessionID, err
}

// resumed returns the session to link in place of the one in which an address was last stated. SDKs
// do not state it again in their user's next session, so it is the user's newest session if the
// other one is at rest: it has no actions that would be written at the link, nor any of the last
// two minutes.
func (l *linker) resumed(ctx context.Context, productID, sessionID, email string) (string, error) {
	product, _, err := l.products.Product(productID)
	if err != nil {
		return "", err
	}
	found, err := l.store.log.Activity().Recent(ctx, productID, recent.Subject{SessionID: sessionID}, 1)
	recently := max(product.Notes.PreLinkWindow, DefaultNotes().PreLinkWindow)
	if err != nil || len(found.Records) == 0 ||
		l.store.now().Sub(time.UnixMicro(found.Records[0].Start)) <= recently {
		return sessionID, err
	}
	stated, _, err := l.store.dir.Session(ctx, productID, sessionID)
	if err != nil {
		return "", err
	}
	next, session, err := l.newest(ctx, productID, stated.UserID)
	if err != nil || !strings.EqualFold(session.Email, email) || session.EmailStanding < stated.EmailStanding {
		return sessionID, err
	}
	return next, nil
}

// newest returns the session of a user's newest action, among those of the highest standing that are still
// the user's, empty for none.
func (l *linker) newest(ctx context.Context, productID, userID string) (id string, s directory.Session, err error) {
	if userID == "" {
		return "", s, nil
	}
	ids, known, err := l.store.dir.Live(ctx, l.store.log.Activity(), productID, userID)
	best, highest := -1, -2
	for i := range known {
		rank := int(known[i].Standing)
		switch {
		case known[i].UserID == userID:
		case len(known[i].Identified()) == 0: // a visitor is there, who may be the user
			rank = -1
		default: // it is another user's by now
			continue
		}
		if rank > highest {
			best, highest = i, rank
		}
	}
	if err != nil || best < 0 {
		return "", s, err
	}
	s, _, err = l.store.dir.Session(ctx, productID, ids[best]) // with the address known for its user
	return ids[best], s, err
}

// addWaiting stores a link that waits for the contact's session. Repeating it changes nothing and
// does not extend the wait. The status is ignored for an empty contact.
func (l *linker) addWaiting(ctx context.Context, c linkClaim, contact helpdesk.Contact) (status, error) {
	if contact == (helpdesk.Contact{}) {
		return ignored, nil
	}
	w := Waiting{c.key(), contact.Email, contact.UserID, l.moment(c.at)}
	value, _ := json.Marshal(w) // of strings and a time that is near now: it never fails
	n := notice{Type: noticeType, Link: c.Link, Waiting: &w}
	err := l.store.commit(ctx, c.productID, n, document.Put(document.Document{Name: w.documentName()}, value, MaxWait))
	if document.IsConflict(err) {
		return pending, nil // it waits already
	}
	if err != nil {
		return "", fmt.Errorf("connector: store waiting link: %w", err)
	}
	l.links.WithLabelValues(c.productID, c.Desk, string(pending)).Inc()
	return pending, nil
}

// resolve links the sessions of waiting links if they have appeared, in the order of the
// links. It stops at the first error of storage; the next look handles the rest.
func (l *linker) resolve(ctx context.Context, productID string, links []Waiting) error {
	for _, w := range links {
		sessionID, err := l.sessionOf(ctx, productID, helpdesk.Contact{Email: w.Email, UserID: w.UserID})
		if sessionID != "" && err == nil {
			err = l.resolveOne(ctx, productID, w, sessionID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resolveOne links a session that a link has waited for and ends the wait, even if the session
// turns out to be linked elsewhere or the conversation to be full. The link comes first: after a
// crash in between, the wait goes on and the link is repeated. A wait whose document has expired
// or was erased links nothing.
func (l *linker) resolveOne(ctx context.Context, productID string, w Waiting, sessionID string) error {
	of := linkOf(w.Conversation)
	docs, err := l.store.docs.Get(ctx, productID, w.documentName())
	if err != nil {
		return err
	}
	change := document.Check(docs[0])
	if docs[0].Exists() {
		c := linkClaim{productID: productID, Link: of, by: byWebhook, at: w.At,
			contact: helpdesk.Contact{Email: w.Email, UserID: w.UserID}}
		if result, err := l.linkFound(ctx, c, sessionID); result == "" {
			return err
		}
		change = document.Delete(docs[0])
	}
	err = l.store.commit(ctx, productID, notice{Type: noticeType, Link: of, Gone: docs[0].Name}, change)
	if document.IsConflict(err) {
		return nil // left to the next look
	}
	return err
}

// Conversation returns the sessions of a conversation, in the order in which they were linked.
func (c *Connector) Conversation(ctx context.Context, productID string, of Link) (all []Linked, err error) {
	r, err := c.store.read(ctx, productID, of)
	for _, s := range r.Sessions {
		all = append(all, Linked{SessionID: s.ID, Trusted: r.trusts(&s), Summary: s.lastSummary()})
	}
	return all, err
}

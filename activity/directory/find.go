package directory

import (
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// Find returns the session for an event with a user but no session, such as an event from a
// company's servers. It is the session where the user was active in store within the retention, if
// there is exactly one that still belongs to the user and has no higher standing than the event.
// Otherwise it is a session of the user's own, one for each standing: in a session of both, claims would
// count as reported. It begins with an action: until then Find returns "" for an event without an action.
func (d *Directory) Find(
	ctx context.Context, store recent.Store, productID string, e *activity.Event) (sessionID string, err error,
) {
	live, known, err := d.Live(ctx, store, productID, e.UserID)
	if err != nil {
		return "", err
	}
	own := ownSession(e.UserID, e.Standing)
	hasOwn := e.Action != nil
	var theirs []int
	for i := range known {
		switch {
		case live[i] == own:
			hasOwn = true
		case known[i].UserID == e.UserID && !isOwn(live[i], e.UserID):
			theirs = append(theirs, i)
		}
	}
	if len(theirs) == 1 && e.Standing >= known[theirs[0]].Standing {
		return live[theirs[0]], nil
	}
	if hasOwn {
		return own, nil
	}
	return "", nil
}

// Live returns the sessions of a user's actions in store, the one of the newest action first. They may
// belong to other users by now.
func (d *Directory) Live(ctx context.Context, store recent.Store, productID, userID string) (
	ids []string, known []Session, err error) {
	found, err := store.Recent(ctx, productID, recent.Subject{UserID: userID}, math.MaxInt)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range slices.Backward(found.Records) {
		if r.Session != "" && !slices.Contains(ids, r.Session) {
			ids = append(ids, r.Session)
		}
	}
	known, err = d.Sessions(ctx, productID, ids...)
	return ids, known, err
}

// SessionOf returns the session where an email address was last seen, among those where its standing
// was highest. If events without a session, or in a user's own, stated it at a higher standing, or no
// other event did, the session is the one where their user acted last in store, among those that state
// no other address and have no lower standing; the user's own comes last. Without such a session it is
// the former. Case does not matter, and an empty address has none.
func (d *Directory) SessionOf(ctx context.Context, store recent.Store, productID, email string) (
	sessionID string, err error) {
	docs, err := d.read(ctx, productID, ofEmail, []string{email})
	if err != nil {
		return "", err
	}
	last, owner := docs[0].fact, docs[0].fact.Owner
	if owner == nil {
		return last.SessionID, nil
	}
	_, isLive, err := d.Session(ctx, productID, last.SessionID)
	if err != nil || isLive && last.Standing >= owner.Standing {
		return last.SessionID, err
	}
	ids, known, err := d.Live(ctx, store, productID, owner.UserID)
	for i, s := range known {
		switch {
		case s.UserID != owner.UserID, s.Standing < owner.Standing, s.Email != "" && !strings.EqualFold(s.Email, email):
		case !isOwn(ids[i], owner.UserID):
			return ids[i], nil
		case sessionID == "":
			sessionID = ids[i]
		}
	}
	if sessionID == "" && isLive {
		sessionID = last.SessionID
	}
	return sessionID, err
}

// LeadsOf returns a user's addresses, in lower case, and sessions that know the user, which may repeat. The
// addresses are the present one and those that events outside of any session stated last for this user: the
// newest 32, of which claims are the last to find room. The sessions are those where the user appeared without
// actions, and those that the addresses lead to.
func (d *Directory) LeadsOf(ctx context.Context, productID, userID string) (emails, sessionIDs []string, err error) {
	b, user, own := d.Book(productID), ofUser(userID), ofOwned(userID)
	if err := b.load(ctx, user, own); err != nil {
		return nil, nil, err
	}
	known, present := b.stored[user].fact, ofEmail(b.stored[user].fact.Email)
	addresses := keysOf(ofEmail, b.stored[own].owned)
	if present.id != "" && !slices.Contains(addresses, present) {
		addresses = append(addresses, present)
	}
	if err := b.load(ctx, addresses...); err != nil {
		return nil, nil, err
	}
	led := known.Silent
	for _, key := range addresses {
		if f := &b.stored[key].fact; key == present || f.Owner.is(userID) {
			emails, led = append(emails, key.id), append(led, f.sessions()...)
		}
	}
	if err := b.load(ctx, keysOf(ofSession, led)...); err != nil {
		return nil, nil, err
	}
	for _, id := range led {
		if b.stored[ofSession(id)].session.knows(userID) {
			sessionIDs = append(sessionIDs, id)
		}
	}
	return emails, sessionIDs, nil
}

// knows reports whether an event of the session was the user's.
func (s *Session) knows(userID string) bool {
	isTheirs := func(said Statement) bool { return said.UserID == userID }
	return s.UserID == userID || slices.Contains(s.Identified(), userID) || slices.ContainsFunc(s.Stated(), isTheirs)
}

// Leads returns sessions that stated an email address, the one where it was last seen, by its own standing, and
// those where its user had no actions then; and users that stated the address. Of both lists the claimed ones come
// first, then the others, the newest last. Claimed ones are the last to find room.
func (d *Directory) Leads(ctx context.Context, productID, email string) (sessionIDs, userIDs []string, err error) {
	docs, err := d.read(ctx, productID, ofEmail, []string{email})
	if err != nil {
		return nil, nil, err
	}
	f := &docs[0].fact
	return f.sessions(), f.users(), nil
}

// sessions returns the sessions that an address leads to.
func (f *fact) sessions() []string {
	if f.SessionID == "" || slices.Contains(f.Silent, f.SessionID) {
		return f.Silent
	}
	return append(slices.Clip(f.Silent), f.SessionID)
}

// ownPrefix begins the IDs of users' own sessions, and no others.
const ownPrefix = "liveactivity-user-"

// ownSession returns the ID of a user's own session for events of a standing, which is the same on
// every server. It does not reveal the user's ID, which may be claimed.
func ownSession(userID string, standing activity.Standing) string {
	sum := sha256.Sum256(append([]byte(userID), byte(standing)))
	return ownPrefix + uuid.UUID(sum[:len(uuid.UUID{})]).String()
}

// IsOwn reports whether a session ID has the form of a user's own session.
func IsOwn(sessionID string) bool { return strings.HasPrefix(sessionID, ownPrefix) }

// isOwn reports whether a session is the user's own, of any standing.
func isOwn(sessionID, userID string) bool {
	if !IsOwn(sessionID) {
		return false
	}
	for standing := activity.Claimed; standing <= activity.Signed; standing++ {
		if sessionID == ownSession(userID, standing) {
			return true
		}
	}
	return false
}

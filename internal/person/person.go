// Package person finds everything that is kept of one person, for an export and for an
// erasure.
package person

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A person is found from two sides. The directory knows users, addresses and sessions also
// after the actions have expired; the list of live sessions and the store of actions know the
// sessions in which a user acted. A session may be shared by several people on one machine, so
// a session of the person can hold actions of others. These are kept. They are named by the
// user ID that an action was appended with (As), not by the one that it counts for (User),
// because the log has only the first.

// Query names a person: by a user ID or an email address, the other being empty.
type Query struct{ UserID, Email string }

// People finds persons. It is safe for concurrent use. The export and the erasure of a person
// go by the same search.
type People struct {
	log       eventlog.Log
	dir       *directory.Directory
	connector *connector.Connector
	list      func(ctx context.Context, productID string, q sessions.Query) (sessions.Listing, error)
}

// New returns the people of a log whose sessions are remembered as dir does. The function
// list lists live sessions, everything that was accepted before its call included.
func New(log eventlog.Log, dir *directory.Directory, desks *connector.Connector,
	list func(ctx context.Context, productID string, q sessions.Query) (sessions.Listing, error),
) *People {
	return &People{log: log, dir: dir, connector: desks, list: list}
}

// found is a person: the user IDs and addresses, the sessions, and the actions outside any.
type found struct {
	userIDs, emails []string  // emails in lower case
	sessions        []session // by ID, each once
	others          []session // likewise, in which nothing is the person's but IDs of visitors, who were others
	outside         recent.Records
}

// session is a session in which the person acted, with the actions of everybody in it.
type session struct {
	id      string
	known   directory.Session
	kept    []string // the user IDs of others, as their actions were appended; sorted
	actions recent.Records
}

// isShared reports whether others acted in the session, too.
func (s *session) isShared() bool { return len(s.kept) > 0 }

// find finds a person: the sessions of the user ID or of all users with the address. The
// addresses of those users, and those that they stated in the sessions, are the person's, too,
// but no further users are looked for by them.
// The result has the ID or address itself, even if nothing is known of it.
func (p *People) find(ctx context.Context, productID string, q Query) (*found, error) {
	f := &found{}
	var ids []string
	var err error
	switch {
	case q.UserID != "":
		f.userIDs = []string{q.UserID}
	default:
		f.emails = []string{strings.ToLower(q.Email)}
		if ids, err = p.byEmail(ctx, productID, q.Email); err == nil {
			f.userIDs, err = p.usersOf(ctx, productID, q.Email, ids)
		}
	}
	for i := 0; i < len(f.userIDs) && err == nil; i++ {
		var more []string
		more, err = p.byUser(ctx, productID, f, f.userIDs[i])
		ids = append(ids, more...)
	}
	if err == nil {
		slices.Sort(ids)
		err = p.open(ctx, productID, f, slices.Compact(ids))
	}
	if err != nil {
		return nil, fmt.Errorf("person: %w", err)
	}
	return f, nil
}

// byEmail returns the sessions of an address: the live ones, and the one in which it was seen
// last. IDs may repeat.
func (p *People) byEmail(ctx context.Context, productID, email string) ([]string, error) {
	ids, err := p.listed(ctx, productID, email,
		func(s *sessions.Session) bool { return strings.EqualFold(s.Email, email) })
	if err != nil {
		return nil, err
	}
	if last, ok, err := p.dir.SessionOf(ctx, productID, email); err != nil || ok {
		return append(ids, last), err
	}
	return ids, nil
}

// usersOf returns the users of the sessions whose address it is, by the directory: others may
// have acted in the same sessions.
func (p *People) usersOf(ctx context.Context, productID, email string, ids []string) (users []string, err error) {
	known, err := p.dir.Sessions(ctx, productID, ids...)
	if err != nil {
		return nil, err
	}
	for i := range known {
		users = append(append(users, known[i].UserID), known[i].Identified()...)
	}
	slices.Sort(users)
	users = slices.DeleteFunc(slices.Compact(users), func(id string) bool { return id == "" })
	emails, err := p.dir.EmailsOf(ctx, productID, users...)
	if err != nil {
		return nil, err
	}
	var theirs []string
	for i, id := range users {
		if strings.EqualFold(emails[i], email) {
			theirs = append(theirs, id)
		}
	}
	return theirs, nil
}

// byUser returns the sessions of a user, which may repeat, and adds the user's address and
// actions outside any session to f. Where nothing is kept of what the user did in a session, the
// address may still lead there.
func (p *People) byUser(ctx context.Context, productID string, f *found, userID string) (ids []string, err error) {
	emails, err := p.dir.EmailsOf(ctx, productID, userID)
	if err != nil {
		return nil, err
	}
	f.addEmail(emails[0])
	ids, outside, err := p.log.Activity().Sessions(ctx, productID, userID)
	if err != nil {
		return nil, err
	}
	f.outside = append(f.outside, outside...)
	led, err := p.ledTo(ctx, productID, userID, emails[0])
	if err != nil {
		return nil, err
	}
	live, err := p.listed(ctx, productID, userID, func(s *sessions.Session) bool { return s.UserID == userID })
	return slices.Concat(ids, led, live), err
}

// ledTo returns the session in which an address was seen last, where it is one of the user's:
// anybody may state the address.
func (p *People) ledTo(ctx context.Context, productID, userID, email string) (ids []string, err error) {
	id, ok, err := p.dir.SessionOf(ctx, productID, email)
	if err != nil || !ok {
		return nil, err
	}
	known, err := p.dir.Sessions(ctx, productID, id)
	if err != nil || known[0].UserID != userID && !slices.Contains(known[0].Identified(), userID) {
		return nil, err
	}
	return []string{id}, nil
}

// maxActions is more than any store has of a session, so nothing is left out.
const maxActions = 1 << 20

// listed returns a person's live sessions, found by the beginning of an ID or address. A search
// takes a prefix of sessions.MaxPrefix bytes and no NUL, so the listing may have others: is
// decides.
func (p *People) listed(
	ctx context.Context, productID, prefix string, is func(*sessions.Session) bool) (ids []string, err error,
) {
	prefix = strings.ToValidUTF8(prefix[:min(len(prefix), sessions.MaxPrefix)], "")
	if before, _, cut := strings.Cut(prefix, "\x00"); cut {
		prefix = before
	}
	for q := (sessions.Query{Limit: sessions.MaxLimit, Prefix: prefix}); ; {
		listing, err := p.list(ctx, productID, q)
		if err != nil {
			return nil, err
		}
		for i := range listing.Sessions {
			if is(&listing.Sessions[i]) {
				ids = append(ids, listing.Sessions[i].SessionID)
			}
		}
		if listing.Next == nil {
			return ids, nil
		}
		q.After = *listing.Next
	}
}

// open reads the sessions of a person into found. It must come last: whether a session is
// shared depends on all user IDs.
func (p *People) open(ctx context.Context, productID string, f *found, ids []string) error {
	known, err := p.dir.Sessions(ctx, productID, ids...)
	if err != nil {
		return err
	}
	for i, id := range ids {
		s := session{id: id, known: known[i]}
		if s.actions, err = p.log.Activity().Session(ctx, productID, id, maxActions); err != nil {
			return err
		}
		if s.kept = f.keptIn(&s); f.isOthers(&s) {
			f.others = append(f.others, s)
			continue
		}
		for _, said := range f.statements(&s) {
			f.addEmail(said.Email)
		}
		f.sessions = append(f.sessions, s)
	}
	if len(f.others) > 0 && len(f.sessions)+len(f.outside) == 0 { // an address is theirs, too
		f.emails = nil
	}
	return nil
}

// addEmail adds an address of the person, if it is one.
func (f *found) addEmail(email string) {
	if email = strings.ToLower(email); email != "" && !slices.Contains(f.emails, email) {
		f.emails = append(f.emails, email)
	}
}

// statements returns the statements of the person's events in a session. Where others acted, they
// are the ones with a user ID of the person, or of the visitor that the person was.
func (f *found) statements(s *session) []directory.Statement {
	return slices.DeleteFunc(s.known.Stated(), func(said directory.Statement) bool {
		return s.isShared() && !f.hasUser(said.UserID) && !f.wasVisitor(s, said.UserID)
	})
}

// wasVisitor reports whether the person has actions in the session that were appended with the ID.
func (f *found) wasVisitor(s *session, id string) bool {
	return id != "" && slices.ContainsFunc(s.actions,
		func(r recent.Record) bool { return r.As == id && f.hasUser(r.User) })
}

// visitors returns the IDs under which the person acted, or stated an address, before the
// person was known.
func (f *found) visitors() (ids []string) {
	for i := range f.sessions {
		s := &f.sessions[i]
		for _, r := range f.own(s) {
			ids = append(ids, r.As)
		}
		for _, said := range f.statements(s) {
			ids = append(ids, said.UserID)
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" || f.hasUser(id) })
}

// isOthers reports whether all that a user of the person did in a session is somebody else's, who
// was known later, and nothing else there is the person's.
func (f *found) isOthers(s *session) bool {
	return slices.ContainsFunc(s.kept, f.hasUser) && len(f.own(s)) == 0 &&
		!f.hasUser(s.known.UserID) && !slices.ContainsFunc(s.known.Identified(), f.hasUser)
}

// keptIn returns the user IDs of a session's other users, as their actions were appended. An ID
// with an action of the person is nobody else's: it was a visitor's, before the session named
// the person. One that the directory has counts without actions, too: the store may have
// forgotten them, and the log still have them.
func (f *found) keptIn(s *session) (others []string) {
	for _, id := range append(s.known.Identified(), s.known.UserID) {
		if id != "" && !slices.Contains(f.userIDs, id) {
			others = append(others, id)
		}
	}
	for _, r := range s.actions {
		if r.User != "" && !slices.Contains(f.userIDs, r.User) {
			others = append(others, r.As)
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	return slices.DeleteFunc(others, func(id string) bool {
		return f.wasVisitor(s, id)
	})
}

// hasUser reports whether a user ID is the person's.
func (f *found) hasUser(id string) bool { return id != "" && slices.Contains(f.userIDs, id) }

// own returns the session's actions without others'.
func (f *found) own(s *session) (own recent.Records) {
	for _, r := range s.actions {
		if !slices.Contains(s.kept, r.As) {
			own = append(own, r)
		}
	}
	return own
}

// erasure returns the erasure of the person's sessions, without a user ID and however large:
// [People.erasures] divides it.
func (f *found) erasure(productID string) *activity.Erasure {
	e := &activity.Erasure{Type: activity.EraseType, ProductID: productID, SessionIDs: []string{}}
	for i := range f.sessions {
		s := &f.sessions[i]
		e.SessionIDs = append(e.SessionIDs, s.id)
		if s.isShared() {
			if e.Kept == nil {
				e.Kept = map[string][]string{}
			}
			e.Kept[s.id] = s.kept
		}
	}
	return e
}

// maxErasure is about how many bytes of its sessions' IDs an erasure may have, beside the sessions of
// keptAs, of which a store names few: it must fit into an event.
const maxErasure = 24 << 10

// erasures returns the erasures of the person: for each user ID, or one without, as many as the
// sessions need. The erasures of one user ID together name all sessions. Digests of the
// addresses come along where others' actions stay, as their events may state the person's
// address. Each says which actions with the user ID are others'.
func (f *found) erasures(productID string) (all []*activity.Erasure) {
	whole, digests := f.erasure(productID), f.digests()
	userIDs := f.userIDs
	if userIDs == nil {
		userIDs = []string{""}
	}
	for _, userID := range userIDs {
		// One erasure at least, for a user ID without sessions.
		for rest := whole.SessionIDs; len(rest) > 0 || len(all) == 0 || all[len(all)-1].UserID != userID; {
			e := &activity.Erasure{Type: whole.Type, ProductID: productID, UserID: userID, SessionIDs: []string{},
				Kept: f.keptAs(userID)}
			for size := 0; len(rest) > 0 && size < maxErasure; rest = rest[1:] {
				id := rest[0]
				e.SessionIDs = append(e.SessionIDs, id)
				size += len(id)
				if others := whole.Kept[id]; others != nil {
					e.Kept[id], e.EmailsSHA256 = others, digests
					size += len(strings.Join(others, ""))
				}
			}
			all = append(all, e)
		}
	}
	return all
}

// keptAs returns the sessions in which actions with a user ID are others', as an erasure has them.
func (f *found) keptAs(userID string) map[string][]string {
	kept := map[string][]string{}
	for _, s := range slices.Concat(f.sessions, f.others) {
		if userID != "" && slices.Contains(s.kept, userID) {
			kept[s.id] = []string{userID}
		}
	}
	return kept
}

// digests returns the digests of the person's addresses; an entry of the log must not name
// them.
func (f *found) digests() (all []string) {
	for _, email := range f.emails {
		all = append(all, activity.EmailDigest(email))
	}
	return all
}

// links returns the person's sessions and the conversations that they are, or were, linked to
// on the person's behalf. In a shared session, another one's conversation stays.
func (f *found) links() connector.Person {
	links := connector.Person{UserIDs: f.userIDs, Emails: f.emails, Others: map[string][]string{}}
	for i := range f.sessions {
		s := &f.sessions[i]
		links.SessionIDs = append(links.SessionIDs, s.id)
		links.Others[s.id] = s.kept
		conversations := s.known.Conversations()
		if s.isShared() {
			conversations = s.known.ConversationsOf(f.userIDs, f.emails)
		}
		for _, c := range conversations {
			links.Links = append(links.Links, connector.Link{Desk: c.Desk, ConversationID: c.ID})
		}
	}
	return links
}

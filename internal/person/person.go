// Package person finds all data about one person, for an export or an erasure.
package person

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A person is found from two sides. The directory knows users, addresses and sessions even
// after the actions have expired; the list of live sessions and the store of actions know the
// sessions in which a user acted. Several people on one machine may share a session, so a
// person's session can contain actions by others, which are kept. Those are identified by the
// user ID with which an action was appended (As), not by the user of its current attribution
// (User), because the log has only the former.

// Query names a person by a user ID or an email address; the other field is empty. Anything else is
// a *[activity.QueryError].
type Query struct{ UserID, Email string }

// People finds persons. All fields are required. It is safe for concurrent use. Export and erasure
// use the same search.
type People struct {
	Log       eventlog.Log
	Directory *directory.Directory // of the log's sessions
	Desks     *connector.Connector
	// List lists the live sessions, including everything accepted before its call.
	List func(ctx context.Context, productID string, q sessions.Query) (sessions.Listing, error)
}

// found is a person: user IDs and addresses, sessions, and the actions outside any session.
type found struct {
	userIDs, emails []string  // emails in lower case
	address         string    // the one of emails that the query has
	sessions        []session // sorted by ID, without duplicates
	notTheirs       []session // sessions with the person's IDs, but as visitors who were others
	outside         recent.Records
}

// session is a session in which the person acted, with everybody's actions in it.
type session struct {
	id      string
	known   directory.Session
	others  []string // user IDs with which others' actions were appended; sorted
	actions recent.Records
}

// isShared reports whether others also acted in the session.
func (s *session) isShared() bool { return len(s.others) > 0 }

// find finds a person: the sessions of the user ID, or of all users with the address. The
// addresses of those users, and those stated in the sessions, also belong to the person, but
// they do not lead to further users. The result includes the ID or address itself, even if
// nothing is known about it.
func (p *People) find(ctx context.Context, productID string, q Query) (*found, error) {
	f := &found{}
	var ids []string
	var err error
	switch {
	case (q.UserID == "") == (q.Email == ""): // "" would match everybody without an address
		return nil, &activity.QueryError{Param: "email", Problem: "must be given, or else a user ID, and not both"}
	case q.UserID != "":
		f.userIDs = []string{q.UserID}
	default:
		f.address = strings.ToLower(q.Email)
		f.emails = []string{f.address}
		ids, f.userIDs, err = p.byEmail(ctx, productID, q.Email)
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

// byEmail returns an address's sessions, which may repeat, and its users. The sessions are the live
// ones, and those to which the address leads. The users have stated the address or acted in
// these sessions, and the directory knows the address as theirs: others may have acted there as well.
func (p *People) byEmail(ctx context.Context, productID, email string) (ids, theirs []string, err error) {
	ids, err = p.listed(ctx, productID, email,
		func(s *sessions.Session) bool { return strings.EqualFold(s.Email, email) })
	if err != nil {
		return nil, nil, err
	}
	led, users, err := p.Directory.Leads(ctx, productID, email)
	if err != nil {
		return nil, nil, err
	}
	ids = append(ids, led...)
	known, err := p.Directory.Sessions(ctx, productID, ids...)
	if err != nil {
		return nil, nil, err
	}
	for i := range known {
		users = append(append(users, known[i].UserID), known[i].Identified()...)
	}
	slices.Sort(users)
	users = slices.DeleteFunc(slices.Compact(users), func(id string) bool { return id == "" })
	emails, err := p.Directory.EmailsOf(ctx, productID, users...)
	for i := range emails {
		if strings.EqualFold(emails[i], email) {
			theirs = append(theirs, users[i])
		}
	}
	return ids, theirs, err
}

// byUser returns a user's sessions, which may repeat, and adds the user's addresses and actions
// outside any session to f. If nothing is stored about the user's actions in a session, the user
// or an address may still lead to it.
func (p *People) byUser(ctx context.Context, productID string, f *found, userID string) (ids []string, err error) {
	emails, ids, err := p.Directory.LeadsOf(ctx, productID, userID)
	if err != nil {
		return nil, err
	}
	for _, email := range emails {
		f.addEmail(email)
	}
	acted, outside, err := p.Log.Activity().Sessions(ctx, productID, userID)
	if err != nil {
		return nil, err
	}
	f.outside = append(f.outside, outside...)
	live, err := p.listed(ctx, productID, userID, func(s *sessions.Session) bool { return s.UserID == userID })
	return slices.Concat(ids, acted, live), err
}

// listed returns a person's live sessions, found by the start of an ID or address. A search
// takes a prefix of at most sessions.MaxPrefix bytes and without NUL, so it may also list
// others: is makes the final decision.
func (p *People) listed(
	ctx context.Context, productID, prefix string, is func(*sessions.Session) bool) (ids []string, err error,
) {
	prefix = strings.ToValidUTF8(prefix[:min(len(prefix), sessions.MaxPrefix)], "")
	if before, _, cut := strings.Cut(prefix, "\x00"); cut {
		prefix = before
	}
	for q := (sessions.Query{Limit: sessions.MaxLimit, Prefix: prefix}); ; {
		listing, err := p.List(ctx, productID, q)
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

// open reads a person's sessions into found. It must come last, because all user IDs
// decide whether a session is shared.
func (p *People) open(ctx context.Context, productID string, f *found, ids []string) error {
	known, err := p.Directory.Sessions(ctx, productID, ids...)
	if err != nil {
		return err
	}
	recorded, err := p.recorded(ctx, productID, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		s := session{id: id, known: known[i], actions: recorded[i]}
		if s.others = f.othersIn(&s); f.isOthers(&s) {
			f.notTheirs = append(f.notTheirs, s)
			continue
		}
		for _, said := range f.statements(&s) {
			f.addEmail(said.Email)
		}
		f.sessions = append(f.sessions, s)
	}
	if len(f.notTheirs) > 0 && len(f.sessions)+len(f.outside) == 0 { // the addresses belong to those others as well
		f.emails, f.address = nil, ""
	}
	return nil
}

// readsAtOnce is the number of sessions that are read at the same time: there may be thousands.
const readsAtOnce = 32

// recorded returns the actions of each session.
func (p *People) recorded(ctx context.Context, productID string, ids []string) ([]recent.Records, error) {
	all := make([]recent.Records, len(ids))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for i, id := range ids {
		reads.Go(func() error {
			found, err := p.Log.Activity().Recent(ctx, productID, recent.Subject{SessionID: id}, math.MaxInt)
			all[i] = found.Records
			return err
		})
	}
	return all, reads.Wait()
}

// addEmail adds an address of the person, unless it is empty.
func (f *found) addEmail(email string) {
	if email = strings.ToLower(email); email != "" && !slices.Contains(f.emails, email) {
		f.emails = append(f.emails, email)
	}
}

// statements returns the statements made by the person's events in a session. If others acted
// there, these are the ones with one of the person's user IDs, or with an ID of the visitor that
// the person was.
func (f *found) statements(s *session) []directory.Statement {
	return slices.DeleteFunc(s.known.Stated(), func(said directory.Statement) bool {
		return s.isShared() && !f.hasUser(said.UserID) && !f.wasVisitor(s, said.UserID)
	})
}

// wasVisitor reports whether actions by the person in the session were appended with this ID.
func (f *found) wasVisitor(s *session, id string) bool {
	return id != "" && slices.ContainsFunc(s.actions,
		func(r recent.Record) bool { return r.As == id && f.hasUser(r.User) })
}

// visitors returns the IDs under which the person acted, or stated an address, before
// being identified.
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

// isOthers reports whether everything that one of the person's IDs did in a session belongs to
// somebody else, identified later, and nothing else there is the person's.
func (f *found) isOthers(s *session) bool {
	return slices.ContainsFunc(s.others, f.hasUser) && len(f.own(s)) == 0 &&
		!f.hasUser(s.known.UserID) && !slices.ContainsFunc(s.known.Identified(), f.hasUser)
}

// othersIn returns the user IDs with which other users' actions in a session were appended. An ID
// with an action by the person belongs to nobody else: it was a visitor's, before the session
// named the person. An ID that the directory has counts even without actions, because the store
// may have dropped them while the log still has them.
func (f *found) othersIn(s *session) (others []string) {
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

// own returns the session's actions except for others' actions.
func (f *found) own(s *session) (own recent.Records) {
	for _, r := range s.actions {
		if !slices.Contains(s.others, r.As) {
			own = append(own, r)
		}
	}
	return own
}

// maxErasure is the approximate maximum size, in bytes, of the session IDs in an erasure, which
// must fit into an event. It does not count the few sessions of keptAs.
const maxErasure = 24 << 10

// erasures returns the person's erasures: for each user ID, or one without, as many as the
// sessions need. The erasures of one user ID together name all sessions. If others' actions
// stay, they include digests of the addresses, since those events may state the person's
// address. Each states which actions with its user ID belong to others.
func (f *found) erasures(productID string) (all []*feed.Erasure) {
	digests, userIDs := f.digests(), f.userIDs
	if userIDs == nil {
		userIDs = []string{""}
	}
	for _, userID := range userIDs {
		// At least one erasure, for a user ID without sessions.
		for rest := f.sessions; len(rest) > 0 || len(all) == 0 || all[len(all)-1].UserID != userID; {
			e := &feed.Erasure{Type: feed.Erase, ProductID: productID, UserID: userID, SessionIDs: []string{},
				Kept: f.keptAs(userID)}
			for size := 0; len(rest) > 0 && size < maxErasure; rest = rest[1:] {
				s := &rest[0]
				e.SessionIDs = append(e.SessionIDs, s.id)
				size += len(s.id) + len(strings.Join(s.others, ""))
				if s.isShared() {
					e.Kept[s.id] = s.others
				}
			}
			if len(e.Kept) > 0 {
				e.EmailsSHA256 = digests
			}
			all = append(all, e)
		}
	}
	return all
}

// keptAs returns the sessions in which actions with a user ID belong to others, in the form of an
// erasure.
func (f *found) keptAs(userID string) map[string][]string {
	kept := map[string][]string{}
	for _, s := range slices.Concat(f.sessions, f.notTheirs) {
		if userID != "" && slices.Contains(s.others, userID) {
			kept[s.id] = []string{userID}
		}
	}
	return kept
}

// digests returns the digests of the person's addresses; an entry of the log must not
// contain the addresses.
func (f *found) digests() (all []string) {
	for _, email := range f.emails {
		all = append(all, feed.EmailDigest(email))
	}
	return all
}

// links returns the person's sessions and the conversations that are or were linked to them
// on the person's behalf. In a shared session, somebody else's conversation stays.
func (f *found) links() connector.Person {
	links := connector.Person{UserIDs: f.userIDs, Emails: f.emails, Address: f.address,
		Links: map[string][]connector.Link{}, Others: map[string][]string{}}
	for i := range f.sessions {
		s := &f.sessions[i]
		links.SessionIDs = append(links.SessionIDs, s.id)
		links.Others[s.id] = s.others
		conversations := s.known.Conversations()
		if s.isShared() {
			conversations = s.known.ConversationsOf(f.userIDs, f.emails)
		}
		links.Links[s.id] = nil
		for _, c := range conversations {
			links.Links[s.id] = append(links.Links[s.id], connector.Link{Desk: c.Desk, ConversationID: c.ID})
		}
	}
	return links
}

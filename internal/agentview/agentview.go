// Package agentview reads the context about one person that agents receive: from the
// store of actions, the directory of sessions, and the help desks' conversations.
package agentview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/agent"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
)

// View reads contexts. All fields are required. It is safe for concurrent use and keeps nothing
// between calls.
type View struct {
	Store     recent.Store
	Now       func() time.Time // by the log's clock, from which actions take their times
	Directory *directory.Directory
	Desks     *connector.Connector
	// Product returns a product's desks and the prompt for its agents. It is called once for
	// each answer.
	Product   func(productID string) (connector.Product, string, error)
	First     func(productID, sessionID string) float64 // start of a session, in epoch seconds; 0 if unknown
	TTL       time.Duration                             // lifetime of actions
	MaxEvents int                                       // maximum actions kept of a user, and in an answer
}

// reading is the state of one call of Read, filled step by step: findPerson sets subjects,
// readActions seen and upto, readSessions sessions and ids, findLink link; buildAnswer builds the
// answer from them. Each step reads only fields that an earlier one has set.
type reading struct {
	view      *View
	productID string
	product   connector.Product
	query     agent.Query

	subjects []recent.Subject  // the person: a user, a conversation's users, or a session without a user
	userID   string            // the person's, or the first of several; "" for an anonymous visitor
	link     connector.Link    // the one asked for, or from the person's newest session with one
	unproven bool              // the link asked for may be forged
	sure     activity.Standing // of userID where the query found it; no session gives the ID a higher one
	stated   activity.Standing // of the address that the query found it by; perhaps no session states it
	upto     recent.Position   // seen is complete up to it; the next answer begins after it
	seen     recent.Records    // all stored actions of the person, ordered by start
	ids      []string          // sessions, the one seen last at the end of the list
	// sessions has an entry for each of ids and for the requested session.
	sessions map[string]directory.Session
	answer   agent.Context
}

// Read returns a person's context, or an empty one if nothing is known. It includes
// everything accepted before the call. The error is a *[activity.QueryError] for a mistake in
// the query, or storage's. The reads are not a single snapshot: an action that arrives during
// the call is in this answer or the next.
func (v *View) Read(ctx context.Context, productID string, q agent.Query) (*agent.Context, error) {
	r := &reading{view: v, productID: productID, query: q}
	if err := q.Check(); err != nil {
		return nil, err
	}
	after, err := q.After(productID)
	if err != nil {
		return nil, err
	}
	build := func(context.Context) error { return r.buildAnswer(after) }
	steps := []func(context.Context) error{r.findPerson, r.readActions, r.readSessions, r.findLink, build}
	for _, step := range steps {
		err := step(ctx)
		if wrong, ok := errors.AsType[*activity.QueryError](err); ok {
			return nil, wrong
		}
		if err != nil {
			return nil, fmt.Errorf("agentview: %w", err)
		}
	}
	return &r.answer, nil
}

// findPerson finds the person's user, or the session without a user; a conversation may have several
// of one person. If there are none, the answer is empty.
func (r *reading) findPerson(ctx context.Context) (err error) {
	if r.product, r.answer.Prompt, err = r.view.Product(r.productID); err != nil {
		return err
	}
	r.sure = activity.Signed
	switch q := &r.query; {
	case q.UserID != "":
		r.addSubject(q.UserID, "")
	case q.SessionID != "":
		r.subjects = []recent.Subject{{SessionID: q.SessionID}}
	case q.Email != "":
		return r.findEmail(ctx)
	default:
		return r.findConversation(ctx)
	}
	return nil
}

// addSubject adds a user or, if userID is empty, a session, without duplicates. The first user added
// is the person's.
func (r *reading) addSubject(userID, sessionID string) {
	subject := recent.Subject{UserID: userID}
	if userID == "" {
		subject.SessionID = sessionID
	}
	if !slices.Contains(r.subjects, subject) {
		r.subjects = append(r.subjects, subject)
	}
	r.userID = cmp.Or(r.userID, userID)
}

// findEmail finds the user with an address: its user in the session in which it was
// last seen. If there is none, or another user has appeared in that session since, it looks for
// the address among all users who stated it, and the session itself is not the person's.
func (r *reading) findEmail(ctx context.Context) error {
	email := r.query.Email
	id, err := r.view.Directory.SessionOf(ctx, r.view.Store, r.productID, email)
	if err != nil {
		return err
	}
	if id != "" {
		s, _, err := r.view.Directory.Session(ctx, r.productID, id)
		if err != nil {
			return err
		}
		if strings.EqualFold(s.Email, email) {
			r.ids, r.sure, r.stated = []string{id}, s.Standing, s.EmailStanding
			r.addSubject(s.Addressee(), id)
			return nil
		}
	}
	_, users, err := r.view.Directory.Leads(ctx, r.productID, email)
	if err != nil {
		return err
	}
	emails, err := r.view.Directory.EmailsOf(ctx, r.productID, users...)
	// Claims come first, the newest user of a higher standing last. A visitor has most likely signed in since.
	found := ""
	for i, e := range slices.Backward(emails) {
		if strings.EqualFold(e, email) && (found == "" || directory.IsVisitor(found) && !directory.IsVisitor(users[i])) {
			found = users[i]
		}
	}
	if found != "" {
		r.addSubject(found, "")
	}
	return err
}

// findConversation finds the person of a conversation by its sessions. If there are trusted links, it
// ignores all others, which anybody can make.
func (r *reading) findConversation(ctx context.Context) error {
	sessions, err := r.conversation(ctx)
	if err != nil {
		return err
	}
	r.unproven = !slices.ContainsFunc(sessions, func(l connector.Linked) bool { return l.Trusted })
	for _, l := range sessions {
		if l.Trusted || r.unproven {
			r.ids = append(r.ids, l.SessionID)
		}
	}
	known, err := r.view.Directory.Sessions(ctx, r.productID, r.ids...)
	if err != nil {
		return err
	}
	var all []participant
	for i, s := range slices.Backward(known) { // of equal standings the newest link decides
		if user, _, ok := s.LinkedUser(r.link.Desk, r.link.ConversationID); ok {
			p := participant{r.ids[i], cmp.Or(user, s.UserID), activity.Claimed}
			if p.user == s.UserID { // a user who has left the session counts as claimed
				p.standing = s.Standing
			}
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b participant) int { return cmp.Compare(b.standing, a.standing) })
	return r.addOne(ctx, all)
}

// participant is the user of a session that is linked to a conversation.
type participant struct {
	sessionID, user string
	standing        activity.Standing
}

// addOne adds one person's sessions of a conversation: the first named user, which a visitor is not, other
// users with the same address, and visitors.
func (r *reading) addOne(ctx context.Context, all []participant) error {
	users := make([]string, len(all))
	for i := range all {
		users[i] = all[i].user
	}
	emails, err := r.view.Directory.EmailsOf(ctx, r.productID, users...)
	r.ids = nil
	person := -1
	for i := 0; i < len(users) && err == nil; i++ {
		isNamed := users[i] != "" && !directory.IsVisitor(users[i])
		if isNamed && person < 0 {
			person, r.userID, r.sure = i, users[i], all[i].standing
		}
		if !isNamed || users[i] == users[person] || emails[i] != "" && strings.EqualFold(emails[i], emails[person]) {
			r.ids = append(r.ids, all[i].sessionID)
			r.addSubject(users[i], all[i].sessionID)
		}
	}
	return err
}

// conversation reads the sessions of the requested conversation from the desk that has it, and sets link.
// IDs are unique only per desk: if several desks have that ID, the query must name one. A
// conversation that no desk has is no error.
func (r *reading) conversation(ctx context.Context) (found []connector.Linked, err error) {
	q := &r.query
	r.link.ConversationID = q.ConversationID
	var names []string
	for _, desk := range r.product.Desks {
		names = append(names, desk.Name)
	}
	if q.Desk != "" && !slices.Contains(names, q.Desk) {
		return found, &activity.QueryError{Param: "desk", Problem: "must name a desk of the product"}
	}
	for _, name := range names {
		if q.Desk != "" && q.Desk != name {
			continue
		}
		sessions, err := r.view.Desks.Conversation(ctx, r.productID,
			connector.Link{Desk: name, ConversationID: q.ConversationID})
		switch {
		case err != nil:
			return found, err
		case len(sessions) == 0:
		case found != nil:
			return found, &activity.QueryError{Param: "desk", Problem: "must be given: " + strings.Join(names, " and ") +
				" have that conversation_id"}
		default:
			found, r.link.Desk = sessions, name
		}
	}
	return found, nil
}

// readActions reads the person's actions. The first snapshot sets the end for all of them, so later
// arrivals are left for the next answer. seen has each action only once, even if both its user
// and its session were requested.
func (r *reading) readActions(ctx context.Context) error {
	for i, subject := range r.subjects {
		s, err := r.view.Store.Recent(ctx, r.productID, subject, math.MaxInt)
		if err != nil {
			return err
		}
		if i == 0 {
			r.upto = s.Upto
		}
		for _, a := range s.Records {
			// For a session, an action counts from its arrival, even if it was attributed to
			// a user later.
			if subject.UserID == "" {
				a.Since = a.Arrived
			}
			isRead := subject.UserID == "" && slices.Contains(r.subjects, recent.Subject{UserID: a.User})
			if a.Since.Compare(r.upto) <= 0 && !isRead {
				r.seen = append(r.seen, a)
			}
		}
	}
	// Subjects were read one by one, so merge their actions into one order.
	slices.SortStableFunc(r.seen, func(a, b recent.Record) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Session, b.Session))
	})
	return nil
}

// readSessions reads the person's sessions: the sessions in the query, the conversation and the
// actions. It removes others' actions.
func (r *reading) readSessions(ctx context.Context) error {
	ids := r.ids
	if id := r.query.SessionID; id != "" {
		ids = []string{id}
	}
	for i := range slices.Backward(r.seen) {
		if id := r.seen[i].Session; id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	known, err := r.view.Directory.Sessions(ctx, r.productID, ids...)
	if err != nil {
		return err
	}
	r.sessions = make(map[string]directory.Session, len(ids))
	for i, id := range ids {
		r.sessions[id] = known[i]
	}
	// This comes before the order of the sessions, which depends on the remaining actions.
	if r.query.SessionID != "" {
		r.keepOwn(r.sessions[r.query.SessionID])
	}
	r.ids = r.ordered(ids)
	return r.address(ctx)
}

// keepOwn removes the actions of a session's other users: the person is the session's current
// user. In a session whose standing is above claimed, any other user except a mere visitor only
// claims to be there. This call owns seen and may modify it.
func (r *reading) keepOwn(s directory.Session) {
	r.userID = s.UserID
	identified := s.Identified()
	r.seen = slices.DeleteFunc(r.seen, func(a recent.Record) bool {
		return a.User != s.UserID && (slices.Contains(identified, a.User) ||
			s.Standing > activity.Claimed && a.User != "" && !directory.IsVisitor(a.User))
	})
}

// ordered returns the sessions about which anything is known, the one seen last at the
// end. Sessions without actions come first, by ID.
func (r *reading) ordered(ids []string) []string {
	last := make(map[string]int64, len(ids))
	for i := range r.seen {
		// A session's actions form runs: only the end of each run matters, and the last
		// run counts.
		if a := &r.seen[i]; i+1 == len(r.seen) || r.seen[i+1].Session != a.Session {
			last[a.Session] = a.Start
		}
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		s := r.sessions[id]
		return last[id] == 0 && s.UserID == "" && s.Email == "" && s.Actions == 0
	})
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(last[a], last[b]), cmp.Compare(a, b)) })
	return ids
}

// newest returns the newest session of the highest rank, or "" if no rank reaches zero.
func (r *reading) newest(rank func(sessionID string) int) (found string) {
	best := 0
	for _, id := range r.ids {
		if n := rank(id); n >= best {
			found, best = id, n
		}
	}
	return found
}

// address finds the person's address: the requested one, else the one in the user's newest session with an
// address and the highest standing, else the one recorded for the user.
func (r *reading) address(ctx context.Context) error {
	from := r.newest(func(id string) int {
		s := r.sessions[id]
		if s.Email == "" || s.UserID != r.userID {
			return -1
		}
		of := min(s.Standing, r.sure)
		return int(of)<<8 + int(min(of, s.EmailStanding))
	})
	c := &r.answer
	if c.Email = cmp.Or(r.query.Email, r.sessions[from].Email); c.Email != "" || r.userID == "" {
		return nil
	}
	emails, err := r.view.Directory.EmailsOf(ctx, r.productID, r.userID)
	if err == nil {
		c.Email = emails[0]
	}
	return err
}

// findLink finds the person's conversation, unless the query named it, and its summary. Each comes from the
// newest session that has one, among the sessions of the highest standing. The link must be the person's.
func (r *reading) findLink(ctx context.Context) error {
	if r.link.ConversationID == "" {
		s := r.sessions[r.newest(func(id string) int {
			if s := r.sessions[id]; s.ConversationID == "" || !r.isTheirs(&s) {
				return -1
			}
			return int(r.standingIn(id))
		})]
		r.link = connector.Link{Desk: s.Desk, ConversationID: s.ConversationID}
	}
	r.answer.ConversationID = r.link.ConversationID
	if r.link.Desk == "" {
		return nil
	}
	sessions, err := r.view.Desks.Conversation(ctx, r.productID, r.link)
	summaries := make(map[string]string, len(sessions))
	for _, l := range sessions {
		summaries[l.SessionID] = l.Summary
	}
	r.answer.Summary = summaries[r.newest(func(id string) int {
		if s := r.sessions[id]; summaries[id] == "" || r.isSummaryOfAnother(&s) {
			return -1
		}
		return int(r.standingIn(id))
	})]
	return err
}

// isSummaryOfAnother reports whether the session was linked to the conversation for other users only.
func (r *reading) isSummaryOfAnother(s *directory.Session) (isAnothers bool) {
	for _, c := range s.Conversations() {
		if c.Desk != r.link.Desk || c.ID != r.link.ConversationID {
			continue
		}
		isAnothers = true
		if c.UserID == "" || c.UserID == r.userID || slices.Contains(r.subjects, recent.Subject{UserID: c.UserID}) {
			return false
		}
	}
	return isAnothers
}

// isTheirs reports whether a session's link is the person's. If the person is unknown, a link
// without a user is also the person's.
func (r *reading) isTheirs(s *directory.Session) bool {
	user, _, _ := s.LinkedUser(s.Desk, s.ConversationID)
	if r.userID == "" {
		return user == ""
	}
	emails := []string{strings.ToLower(r.answer.Email)}
	return slices.Contains(s.ConversationsOf([]string{r.userID}, emails),
		directory.Conversation{Desk: s.Desk, ID: s.ConversationID, UserID: user})
}

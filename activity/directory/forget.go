package directory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// Person is a person to forget: the user IDs, the IDs of visitors that the person was before,
// which others may share, and the email addresses in lower case.
type Person struct{ UserIDs, Visitors, Emails []string }

// Forget returns the changes that remove a person from the directory: the users, visitors with the
// person's addresses, the sessions, and the addresses that lead to them. A session shared with
// others (see [activity.Erasure].Kept) keeps their part. The changes conflict if one of the sessions
// has changed since. Forget itself writes nothing.
func (d *Directory) Forget(
	ctx context.Context, productID string, who Person, e *activity.Erasure) ([]document.Change, error,
) {
	b, sessions := d.Book(productID), keysOf(ofSession, e.SessionIDs)
	users := keysOf(ofUser, slices.Concat(who.UserIDs, who.Visitors))
	if err := b.load(ctx, slices.Concat(sessions, users, keysOf(ofEmail, who.Emails))...); err != nil {
		return nil, err
	}
	var changes []document.Change
	for key, p := range b.stored {
		isShared := key.kind == sessionKind && len(e.Kept[key.id]) > 0
		goes := key.kind == sessionKind
		switch key.kind {
		case userKind:
			goes = slices.Contains(who.UserIDs, key.id) || slices.Contains(who.Emails, strings.ToLower(p.fact.is()))
		case emailKind:
			goes = slices.Contains(e.SessionIDs, p.fact.is())
		}
		switch {
		case !p.doc.Exists():
			changes = append(changes, document.Check(p.doc))
		case isShared:
			p.session.forget(who.UserIDs, who.Emails)
			b.change(p)
		case goes:
			changes = append(changes, document.Delete(p.doc))
		}
	}
	return append(changes, b.Changes()...), nil
}

// forget removes users and addresses (in lower case) from the session, along with everything
// derived from them.
func (s *Session) forget(userIDs, emails []string) {
	is := func(id string) bool { return slices.Contains(userIDs, id) }
	theirs := s.linksOf(userIDs, emails)
	s.identified = slices.DeleteFunc(slices.Clone(s.identified), is)
	if is(s.UserID) || is(s.userBy.Identified) {
		s.UserID, s.Standing, s.userBy = "", activity.Claimed, provenance{}
	}
	if is(s.emailBy.Identified) || slices.Contains(emails, strings.ToLower(s.statedEmail)) {
		s.statedEmail, s.statedStanding, s.emailBy = "", activity.Claimed, provenance{}
	}
	if theirs(s.link(time.Time{})) {
		s.endLink()
	}
	if s.former != nil && theirs(*s.former) {
		s.former = nil
	}
	s.amendPast(func(p *past) {
		p.Earlier = slices.DeleteFunc(slices.Clone(p.Earlier), theirs)
		p.Stated = slices.DeleteFunc(slices.Clone(p.Stated), func(said Statement) bool {
			return is(said.UserID) || slices.Contains(emails, strings.ToLower(said.Email))
		})
	})
	s.setEmail()
}

// Conversation is a conversation that a session is or was linked to, and the identified user of
// the link, empty for none yet.
type Conversation struct{ Desk, ID, UserID string }

// Conversations returns the session's present and remembered earlier conversations, the present
// one first, then from the newest to the oldest. A conversation is listed once for each user of
// such a link.
func (s *Session) Conversations() []Conversation {
	return s.conversations(func(formerLink) bool { return true })
}

// ConversationsOf returns those Conversations whose link belongs to one of the users or addresses
// (in lower case). A link without a user belongs to the owner of the address it was made by or,
// without an address, to the session's user.
func (s *Session) ConversationsOf(userIDs, emails []string) []Conversation {
	return s.conversations(s.linksOf(userIDs, emails))
}

// conversations returns the conversations whose links takes accepts.
func (s *Session) conversations(takes func(formerLink) bool) (all []Conversation) {
	add := func(f formerLink) {
		c := Conversation{f.Desk, f.ConversationID, f.UserID}
		if c.ID != "" && takes(f) && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	add(s.link(time.Time{}))
	if s.former != nil {
		add(*s.former)
	}
	for _, f := range slices.Backward(s.remembered().Earlier) {
		add(f)
	}
	return all
}

// linksOf returns a function that reports whether a link belongs to a person; see ConversationsOf.
// It uses the session's state at the time of this call.
func (s *Session) linksOf(userIDs, emails []string) func(formerLink) bool {
	user, stated := s.UserID, s.Stated()
	return func(f formerLink) bool {
		switch {
		case f.UserID != "":
			return slices.Contains(userIDs, f.UserID)
		case f.Email != "":
			return slices.Contains(emails, strings.ToLower(f.Email)) || slices.ContainsFunc(stated, func(said Statement) bool {
				return strings.EqualFold(said.Email, f.Email) && slices.Contains(userIDs, said.UserID)
			})
		}
		return user == "" || slices.Contains(userIDs, user)
	}
}

// Identified returns the session's identified users, at most the newest maxIdentified and the
// present one. The caller owns the slice.
func (s *Session) Identified() []string {
	all := slices.Clone(s.identified)
	if user := s.userBy.Identified; user != "" {
		all = append(all, user)
	}
	return all
}

// Stated returns the newest addresses that the session's own events stated, each with its user ID.
// The caller owns the slice.
func (s *Session) Stated() []Statement {
	all := slices.Clone(s.remembered().Stated)
	isIt := func(said Statement) bool { return said.Email == s.statedEmail }
	if s.statedEmail != "" && !slices.ContainsFunc(all, isIt) { // stored by an earlier version
		all = append(all, Statement{s.emailBy.Identified, s.statedEmail})
	}
	return all
}

// StatedEmail returns the address that the session's own events stated last.
func (s *Session) StatedEmail() string { return cmp.Or(s.statedEmail, s.Email) }

package directory

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// Forget returns the changes after which the directory knows nothing of a person: of the users,
// of the sessions, which others may share (see [activity.Erasure].Kept), and of the addresses
// that lead there. They fail where anything happened in one of the sessions meanwhile. Nothing
// is written before the caller writes them.
func (d *Directory) Forget(
	ctx context.Context, productID string, userIDs, emails []string, e *activity.Erasure) ([]document.Change, error,
) {
	b, sessions := d.Book(productID), keysOf(ofSession, e.SessionIDs)
	if err := b.load(ctx, sessions...); err != nil {
		return nil, err
	}
	others := append(keysOf(ofUser, userIDs), keysOf(ofEmail, emails)...)
	for i, id := range e.SessionIDs {
		if s := &b.stored[sessions[i]].session; len(e.Kept[id]) == 0 && s.statedEmail != "" {
			others = append(others, ofEmail(s.statedEmail))
		}
	}
	if err := b.load(ctx, others...); err != nil {
		return nil, err
	}
	var changes []document.Change
	for key, p := range b.stored {
		isShared := key.kind == sessionKind && len(e.Kept[key.id]) > 0
		leads := key.kind != emailKind || slices.Contains(e.SessionIDs, p.fact.is)
		switch {
		case !p.doc.Exists():
			changes = append(changes, document.Check(p.doc))
		case isShared:
			p.session.forget(userIDs, emails)
			b.change(p)
		case leads:
			changes = append(changes, document.Delete(p.doc))
		}
	}
	return append(changes, b.Changes()...), nil
}

// forget removes users, and addresses, which are in lower case, from the session, with
// everything that is known of it through them.
func (s *Session) forget(userIDs, emails []string) {
	is := func(id string) bool { return slices.Contains(userIDs, id) }
	s.identified = slices.DeleteFunc(slices.Clone(s.identified), is)
	if is(s.UserID) || is(s.userBy.Identified) {
		s.UserID, s.Standing, s.userBy = "", activity.Claimed, provenance{}
	}
	if is(s.emailBy.Identified) || slices.Contains(emails, strings.ToLower(s.statedEmail)) {
		s.statedEmail, s.statedStanding, s.emailBy = "", activity.Claimed, provenance{}
	}
	if s.linkedUser == "" || is(s.linkedUser) { // nobody else's
		s.endLink()
	}
	if s.former != nil && (s.former.UserID == "" || is(s.former.UserID)) {
		s.former = nil
	}
	s.setEmail()
}

// Conversation names a conversation of a desk.
type Conversation struct{ Desk, ID string }

// Conversations returns the conversations that the session is linked to, or was before another
// user appeared: none, one, or two, the present one first.
func (s *Session) Conversations() (all []Conversation) {
	if s.ConversationID != "" {
		all = append(all, Conversation{s.Desk, s.ConversationID})
	}
	if s.former != nil {
		all = append(all, Conversation{s.former.Desk, s.former.ConversationID})
	}
	return all
}

// Identified returns the identified users of the session, as far as they are remembered. The
// caller owns the slice.
func (s *Session) Identified() []string {
	all := slices.Clone(s.identified)
	if user := s.userBy.Identified; user != "" {
		all = append(all, user)
	}
	return all
}

// StatedEmail returns the address that the session's own events stated last.
func (s *Session) StatedEmail() string { return cmp.Or(s.statedEmail, s.Email) }

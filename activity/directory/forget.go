package directory

import (
	"context"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// Person is a person to forget: the user IDs, the IDs of visitors that the person was before,
// which others may share, the email addresses in lower case, and the sessions. Address is the one of
// Emails to forget for whatever user owns it, or empty. Others has the other users of a session, none
// for the person's own.
type Person struct {
	UserIDs, Visitors, Emails, SessionIDs []string
	Address                               string
	Others                                map[string][]string // by session
}

// Forget returns the changes that remove a person from the directory: the users, visitors with the
// person's addresses, the sessions, and the addresses that lead to them. A session shared with
// others keeps their part. The changes conflict if one of the sessions has changed since. Forget
// itself writes nothing.
func (d *Directory) Forget(ctx context.Context, productID string, who Person) ([]document.Change, error) {
	b, sessions := d.Book(productID), keysOf(ofSession, who.SessionIDs)
	users := append(keysOf(ofUser, slices.Concat(who.UserIDs, who.Visitors)), keysOf(ofOwned, who.UserIDs)...)
	if err := b.load(ctx, slices.Concat(sessions, users, keysOf(ofEmail, who.Emails))...); err != nil {
		return nil, err
	}
	var further []documentKey
	for _, id := range who.UserIDs { // they may be users of addresses that others own by now
		further = append(further, keysOf(ofEmail, b.stored[ofOwned(id)].owned)...)
	}
	if p := b.stored[ofEmail(who.Address)]; p != nil { // its owner and earlier ones
		further = append(further, keysOf(ofOwned, p.fact.users())...)
	}
	if err := b.load(ctx, further...); err != nil {
		return nil, err
	}
	var changes []document.Change
	for key, p := range b.stored {
		isShared := key.kind == sessionKind && len(who.Others[key.id]) > 0
		goes := key.kind == sessionKind
		switch key.kind {
		case userKind:
			goes = slices.Contains(who.UserIDs, key.id) || slices.Contains(who.Emails, strings.ToLower(p.fact.value()))
		case ownedKind:
			p.owned = slices.DeleteFunc(p.owned, func(email string) bool { return email == who.Address })
			if goes = len(p.owned) == 0 || slices.Contains(who.UserIDs, key.id); !goes {
				b.change(p)
			}
		case emailKind:
			isChanged := p.fact.forget(who, key.id == who.Address)
			if goes = isChanged && p.fact.isEmpty(); isChanged && !goes {
				b.change(p)
			}
		}
		switch {
		case !p.doc.Exists():
			changes = append(changes, document.Check(p.doc))
		case isShared:
			p.session.forget(who)
			b.change(p)
		case goes:
			changes = append(changes, document.Delete(p.doc))
		}
	}
	return append(changes, b.Changes()...), nil
}

// forget removes the person from an email address: as its owner, one of its users and one of its sessions, or all
// of these. It reports whether it changed anything.
func (f *fact) forget(who Person, everybody bool) (isChanged bool) {
	owner := f.Owner
	if owner != nil && (everybody || slices.Contains(who.UserIDs, owner.UserID)) {
		owner, isChanged = nil, true
	}
	users := slices.DeleteFunc(slices.Clone(f.Users), func(id string) bool {
		return everybody || slices.Contains(who.UserIDs, id) || slices.Contains(who.Visitors, id)
	})
	silent := slices.DeleteFunc(slices.Clone(f.Silent), func(id string) bool {
		return everybody || slices.Contains(who.SessionIDs, id)
	})
	isChanged = isChanged || len(users)+len(silent) < len(f.Users)+len(f.Silent)
	if slices.Contains(who.SessionIDs, f.SessionID) {
		*f, isChanged = fact{}, true
	}
	f.Owner, f.Users, f.Silent = owner, users, silent
	return isChanged
}

// forget removes the person from a session, along with everything derived from the person's users and
// addresses. An address that another user stated as well stays theirs, so that an erasure of theirs finds
// it, unless it is the Address.
func (s *Session) forget(who Person) {
	is := func(id string) bool { return slices.Contains(who.UserIDs, id) }
	isTheirs := func(email string) bool { return slices.Contains(who.Emails, strings.ToLower(email)) }
	theirs := s.linksOf(who.UserIDs, who.Emails)
	s.Others = slices.DeleteFunc(slices.Clone(s.Others), is)
	if is(s.UserID) {
		s.UserID, s.Standing, s.UserBy = "", activity.Claimed, provenance{}
	}
	if is(s.EmailBy.Identified) || isTheirs(s.StatedEmail) {
		s.StatedEmail, s.StatedStanding, s.EmailBy = "", activity.Claimed, provenance{}
	}
	s.dropLinks(theirs)
	s.Past.Stated = slices.DeleteFunc(slices.Clone(s.Past.Stated), func(said Statement) bool {
		isOthers := said.UserID != "" && !slices.Contains(who.Visitors, said.UserID) &&
			strings.ToLower(said.Email) != who.Address
		return is(said.UserID) || isTheirs(said.Email) && !isOthers
	})
}

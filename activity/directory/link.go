package directory

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// formerLink is a link that has ended, as another identified user appeared in the
// session: the session remembers the newest. Of those before, and of links that gave way to
// others, it remembers maxEarlier.
type formerLink struct {
	Desk           string    `json:"desk"`
	ConversationID string    `json:"conversation_id"`
	UserID         string    `json:"user_id"`
	Until          time.Time `json:"until"`           // when the other user appeared
	Email          string    `json:"email,omitempty"` // that the session was linked by; empty with a user
}

// Link links the session to a conversation of a help desk for its present identified
// user. Without one, the link is for the user that had the email address or the user
// ID in the session; both may be empty. Otherwise it is for the first one to come whose
// events do not state another address.
func (s *Session) Link(desk, conversationID, email, userID string) {
	s.Desk, s.ConversationID = desk, conversationID
	s.linkedUser, s.linkedEmail = s.userBy.Identified, ""
	switch {
	case s.linkedUser != "":
	case email != "" && strings.EqualFold(email, s.statedEmail):
		if s.linkedUser = s.emailBy.Identified; s.linkedUser == "" {
			s.linkedEmail = email
		}
	case userID != "" && (userID == s.UserID || s.hasIdentified(userID)):
		s.linkedUser = userID
	}
}

// maxEarlier is how many earlier links a session remembers.
const maxEarlier = 4

// GiveWay ends the session's link in favour of another one. No events are its conversation's any
// more, but Conversations still has it.
func (s *Session) GiveWay(at time.Time) {
	s.remember(s.link(at))
	s.endLink()
}

// remember adds an earlier link.
func (s *Session) remember(f formerLink) {
	s.amendPast(func(p *past) {
		p.Earlier = append(slices.Clip(p.Earlier), f)
		p.Earlier = p.Earlier[max(0, len(p.Earlier)-maxEarlier):]
	})
}

// Unlink ends the session's links to a conversation, and reports whether there were any.
func (s *Session) Unlink(desk, conversationID string) (unlinked bool) {
	is := func(f formerLink) bool { return f.Desk == desk && f.ConversationID == conversationID }
	if slices.ContainsFunc(s.remembered().Earlier, is) {
		s.amendPast(func(p *past) { p.Earlier = slices.DeleteFunc(slices.Clone(p.Earlier), is) })
		unlinked = true
	}
	if s.former != nil && is(*s.former) {
		s.former, unlinked = nil, true
	}
	if s.Desk == desk && s.ConversationID == conversationID {
		s.endLink()
		unlinked = true
	}
	return unlinked
}

// keepLink ends the link once another identified user has appeared than the one it is of. A
// link of nobody yet becomes the first identified user's whose address, if one is stated, is
// the link's.
func (s *Session) keepLink() {
	user := s.userBy.Identified
	if s.ConversationID == "" || user == "" {
		return
	}
	isStated := s.linkedEmail != "" && s.emailBy.Identified == user
	isMisfit := isStated && !strings.EqualFold(s.linkedEmail, s.statedEmail)
	if !isMisfit && (s.linkedUser == "" || s.linkedUser == user) {
		s.linkedUser = user
		if isStated {
			s.linkedEmail = ""
		}
		return
	}
	if s.linkedUser == user { // taken for the link's before the address was known
		s.linkedUser = ""
	}
	if s.former != nil {
		s.remember(*s.former)
	}
	former := s.link(s.userBy.At)
	s.former = &former
	s.endLink()
}

// link returns the session's link as one that ends.
func (s *Session) link(until time.Time) formerLink {
	f := formerLink{s.Desk, s.ConversationID, s.linkedUser, until, ""}
	if f.UserID == "" {
		f.Email = s.linkedEmail
	}
	return f
}

// endLink forgets the link. Only keepLink and GiveWay have the session remember it.
func (s *Session) endLink() { s.Desk, s.ConversationID, s.linkedUser, s.linkedEmail = "", "", "", "" }

// tellApart makes an event count as an identified user's whose user ID is signed, that names
// an anonymous visitor as the user, or that names both another user than the session's and
// another email address: these are two persons, also where the source marks neither as
// identified. So they are where an address is known of the session's user, whose ID is no mere
// visitor's, and another user is identified. The session's user then counts as identified, too,
// unless the event stands lower, and owns the address and the link.
func (s *Session) tellApart(e *activity.Event) {
	if e.UserID == "" {
		return
	}
	e.Identified = e.Identified || e.Standing == activity.Signed || e.Anonymous != "" && e.Anonymous != e.UserID
	if s.UserID == "" || e.UserID == s.UserID || e.Anonymous == s.UserID || s.statedEmail == "" {
		return
	}
	switch {
	case e.Email != "" && !strings.EqualFold(e.Email, s.statedEmail):
		e.Identified = true
	case e.Email != "", !e.Identified, e.Visitor == s.UserID, IsVisitor(s.UserID):
		return
	}
	if s.ConversationID != "" && s.linkedUser == "" {
		s.linkedUser = s.UserID
	}
	if e.Standing < s.Standing {
		return
	}
	s.userBy.Identified = s.UserID
	if e.Email == "" && s.emailBy.Identified == "" {
		s.emailBy.Identified = s.UserID
	}
}

// visitorForm is a UUID, or the ID that older SDKs of PostHog make: also five groups of
// hexadecimal digits, "17e5c2b1d6a5f3-0d8c9b1b0c5d47-1f3a6253-1fa400-17e5c2b1d6b9a1".
var visitorForm = regexp.MustCompile(`^[0-9A-Fa-f]{4,}(?:-[0-9A-Fa-f]{4,}){4}$`)

// IsVisitor reports whether a user ID is of the kind that PostHog's SDKs make for a visitor.
func IsVisitor(userID string) bool {
	const shortest = 32 // digits and hyphens
	return len(userID) >= shortest && visitorForm.MatchString(userID)
}

// LinkedUser returns the identified user that the session's link to a conversation is
// or was of, empty while it is nobody's yet, and until when it was; zero for a link that
// goes on. It reports false where there is no such link.
func (s *Session) LinkedUser(desk, conversationID string) (userID string, until time.Time, ok bool) {
	if s.ConversationID != "" && s.Desk == desk && s.ConversationID == conversationID {
		return s.linkedUser, time.Time{}, true
	}
	if f := s.former; f != nil && f.Desk == desk && f.ConversationID == conversationID {
		return f.UserID, f.Until, true
	}
	return "", time.Time{}, false
}

// OtherUsers returns the identified users of the session but for the one that its link
// is of, as far as they are remembered.
func (s *Session) OtherUsers() []string {
	return slices.DeleteFunc(s.Identified(), func(id string) bool { return id == s.linkedUser })
}

// ConversationOf returns the ID of the conversation that an event of the session belongs
// to, empty for none: of the session's link, unless another identified user caused the
// event, also one who only claims to be the session's user, or of the former one for what
// happened before that ended.
func (s *Session) ConversationOf(e *activity.Event) string {
	user := ""
	if e.UserID != "" && (e.Identified || s.hasIdentified(e.UserID)) {
		user = e.UserID
	}
	f := s.former
	claims := user != s.UserID && e.Standing < s.Standing
	switch {
	case user != "" && user == s.linkedUser:
	case f != nil && e.Time.Before(f.Until) && (user == "" || user == f.UserID):
		return f.ConversationID
	case f != nil && e.Time.Before(f.Until), user != "" && (s.linkedUser != "" || claims):
		return ""
	}
	return s.ConversationID
}

// IsOf reports whether the session is the one of a person with that email address or
// user ID, each of which may be empty, and was not taken over by another identified user. A
// session that is more than claimed is nobody's who is only claimed to be there.
func (s *Session) IsOf(email, userID string) bool {
	switch {
	case email == "" && userID == "", len(s.identified) == 0 && max(s.Standing, s.EmailStanding) == activity.Claimed:
		return true
	case email != "" && strings.EqualFold(s.Email, email):
		return true
	}
	return userID != "" && (s.userBy.Identified == userID || len(s.identified) == 0 && s.UserID == userID)
}

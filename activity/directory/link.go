package directory

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// formerLink is a link that has ended. A session remembers the newest one that ended because
// another identified user appeared, and maxEarlier of those before it and of links that gave way
// to another link.
type formerLink struct {
	Desk           string    `json:"desk"`
	ConversationID string    `json:"conversation_id"`
	UserID         string    `json:"user_id"`
	Until          time.Time `json:"until"`           // when the other user appeared
	Email          string    `json:"email,omitempty"` // the address that the link was made by; empty with a user
}

// Link links the session to a conversation of a help desk on behalf of its present identified
// user. Without one, the link belongs to the session's user with that email address or user ID;
// both may be empty. Otherwise it will belong to the next user to be identified whose events do
// not state a different address.
func (s *Session) Link(desk, conversationID, email, userID string) {
	s.Desk, s.ConversationID = desk, conversationID
	s.LinkUser, s.LinkEmail = s.UserBy.Identified, ""
	switch {
	case s.LinkUser != "":
	case email != "" && strings.EqualFold(email, s.StatedEmail):
		s.LinkUser = s.EmailBy.Identified
	case userID != "" && (userID == s.UserID || s.hasIdentified(userID)):
		s.LinkUser = userID
	case email != "" && s.StatedEmail == "": // it is known from the session's user
		s.LinkUser = s.UserID
	}
	if s.LinkUser == "" {
		s.LinkEmail = email
	}
}

// maxEarlier is the number of earlier links that a session remembers.
const maxEarlier = 4

// GiveWay ends the session's link in favor of another one. No events belong to its conversation
// any more, but Conversations still returns it.
func (s *Session) GiveWay(at time.Time) {
	s.Past.Earlier = addNewest(s.Past.Earlier, s.link(at), maxEarlier)
	s.endLink()
}

// Unlink ends the session's links to a conversation, and reports whether there were any.
func (s *Session) Unlink(desk, conversationID string) (unlinked bool) {
	is := func(f formerLink) bool { return f.Desk == desk && f.ConversationID == conversationID }
	if len(s.conversations(is)) == 0 {
		return false
	}
	s.dropLinks(is)
	return true
}

// dropLinks removes the present and earlier links for which drops returns true.
func (s *Session) dropLinks(drops func(formerLink) bool) {
	if drops(s.link(time.Time{})) {
		s.endLink()
	}
	if s.Former != nil && drops(*s.Former) {
		s.Former = nil
	}
	s.Past.Earlier = slices.DeleteFunc(slices.Clone(s.Past.Earlier), drops)
}

// keepLink ends the link if an identified user other than the link's has appeared. A link without
// a user is given to the first identified user with no stated address or with the link's.
func (s *Session) keepLink() {
	user := s.UserBy.Identified
	if s.ConversationID == "" || user == "" {
		return
	}
	isStated := s.LinkEmail != "" && s.EmailBy.Identified == user
	isMisfit := isStated && !strings.EqualFold(s.LinkEmail, s.StatedEmail)
	if !isMisfit && (s.LinkUser == "" || s.LinkUser == user) {
		s.LinkUser = user
		if isStated {
			s.LinkEmail = ""
		}
		return
	}
	if s.LinkUser == user { // assigned before the user's address was known
		s.LinkUser = ""
	}
	if s.Former != nil {
		s.Past.Earlier = addNewest(s.Past.Earlier, *s.Former, maxEarlier)
	}
	former := s.link(time.UnixMicro(s.UserBy.At).UTC())
	s.Former = &former
	s.endLink()
}

// link returns the session's present link as one that ended at until.
func (s *Session) link(until time.Time) formerLink {
	f := formerLink{s.Desk, s.ConversationID, s.LinkUser, until, ""}
	if f.UserID == "" {
		f.Email = s.LinkEmail
	}
	return f
}

// endLink clears the present link. Only keepLink and GiveWay remember it.
func (s *Session) endLink() { s.Desk, s.ConversationID, s.LinkUser, s.LinkEmail = "", "", "", "" }

// tellApart marks an event as identified if its user ID is signed, if it names an anonymous
// visitor, or if both its user and its email address differ from the session's: these are two
// people even if the source marks neither as identified. The same holds if another user is
// identified while the session has an address and a user ID that is not a mere visitor's. Unless
// the event has a lower standing, the session's user then counts as identified and owns the
// address. An unowned link goes to that user in any case. A visitor after the address's identified
// user has no address, and so remains a visitor.
func (s *Session) tellApart(e *activity.Event) {
	if e.UserID == "" {
		return
	}
	e.Identified = e.Identified || e.Standing == activity.Signed || s.hasIdentified(e.UserID) ||
		e.Anonymous != "" && e.Anonymous != e.UserID
	if s.UserID == "" || e.UserID == s.UserID || e.Anonymous == s.UserID || s.StatedEmail == "" {
		return
	}
	isVisitor, owner := e.Visitor == s.UserID || IsVisitor(s.UserID), s.EmailBy.Identified
	switch {
	case e.Email != "" && !strings.EqualFold(e.Email, s.StatedEmail):
		e.Identified = true
		if isVisitor && owner != "" && owner != s.UserID {
			return
		}
	case e.Email != "", !e.Identified, isVisitor:
		return
	}
	if s.ConversationID != "" && s.LinkUser == "" {
		s.LinkUser = s.UserID
	}
	if e.Standing < s.Standing {
		return
	}
	s.UserBy.Identified = s.UserID
	if e.Email == "" && s.EmailBy.Identified == "" {
		s.EmailBy.Identified = s.UserID
	}
}

// visitorForm matches UUIDs and the IDs that older PostHog SDKs generate, which also have five
// groups of hexadecimal digits, "17e5c2b1d6a5f3-0d8c9b1b0c5d47-1f3a6253-1fa400-17e5c2b1d6b9a1".
var visitorForm = regexp.MustCompile(`^[0-9A-Fa-f]{4,}(?:-[0-9A-Fa-f]{4,}){4}$`)

// IsVisitor reports whether a user ID has the form that PostHog's SDKs generate for visitors.
func IsVisitor(userID string) bool {
	const shortest = 32 // digits and hyphens
	return len(userID) >= shortest && visitorForm.MatchString(userID)
}

// LinkedUser returns the identified user of the session's present or former link to a
// conversation, empty if it has none yet, and the end of the link, zero for the present one. It
// reports false if there is no such link.
func (s *Session) LinkedUser(desk, conversationID string) (userID string, until time.Time, ok bool) {
	if s.ConversationID != "" && s.Desk == desk && s.ConversationID == conversationID {
		return s.LinkUser, time.Time{}, true
	}
	if f := s.Former; f != nil && f.Desk == desk && f.ConversationID == conversationID {
		return f.UserID, f.Until, true
	}
	return "", time.Time{}, false
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
	if s.Former != nil {
		add(*s.Former)
	}
	for _, f := range slices.Backward(s.Past.Earlier) {
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

// OtherUsers returns the session's identified users except for the user of its link.
func (s *Session) OtherUsers() []string {
	return slices.DeleteFunc(s.Identified(), func(id string) bool { return id == s.LinkUser })
}

// ConversationOf returns the ID of the conversation that an event of the session belongs to, empty
// for none. It is the conversation of the former link for an event from before the end of that
// link, and otherwise of the present link. Events of other identified users, including claims to
// be the session's user, belong to none.
func (s *Session) ConversationOf(e *activity.Event) string {
	user := ""
	if e.Identified || s.hasIdentified(e.UserID) {
		user = e.UserID
	}
	f := s.Former
	claims := user != s.UserID && e.Standing < s.Standing
	switch {
	case user != "" && user == s.LinkUser:
	case f != nil && e.Time.Before(f.Until) && (user == "" || user == f.UserID):
		return f.ConversationID
	case f != nil && e.Time.Before(f.Until), user != "" && (s.LinkUser != "" || claims):
		return ""
	}
	return s.ConversationID
}

// IsOf reports whether the session belongs to the person with that email address or user ID, each
// of which may be empty, and to no other identified user. If the session has a standing above
// claimed, a merely claimed user does not own it.
func (s *Session) IsOf(email, userID string) bool {
	switch {
	case email == "" && userID == "", len(s.Others) == 0 && max(s.Standing, s.EmailStanding) == activity.Claimed:
		return true
	case email != "" && strings.EqualFold(s.Email, email):
		return true
	}
	return userID != "" && (s.UserBy.Identified == userID || len(s.Others) == 0 && s.UserID == userID)
}

package connector

import (
	"slices"

	"github.com/liveactivity/liveactivity/activity"
)

// belongs decides which actions of a session are its conversation's: a session is
// linked for one person, and others may use it before and after.
//
//	since the link    an action names its conversation
//	before the link   it is the conversation's, unless a claimed user did it; see isAlien
//
// At both times the actions of others are left out.
type belongs struct {
	conversationID string
	userID         string   // the session's identified user at the link, empty for none
	linkedAt       int      // index of the first action since the link: from there on they name their conversation
	own            []string // anonymous visitors that are known to be the link's user
	others         []string // whose actions are left out: identified users, and visitors that are those
}

// belongs returns the rule for the session in the conversation.
func (s *session) belongs(key string) belongs {
	_, id := splitKey(key)
	return belongs{conversationID: id, userID: s.UserID, linkedAt: s.LinkedAt, others: slices.Clip(s.Others)}
}

// has reports whether an action is the conversation's.
func (b *belongs) has(a *activity.BatchAction) bool {
	return (a.Index < b.linkedAt || a.ConversationID == b.conversationID) &&
		(a.UserID == "" || !slices.Contains(b.others, a.UserID))
}

// isAlien reports whether an action before the link is of a user that stands lower than the
// session's: it has neither the user nor the address of its batch. A visitor before the sign-in
// looks the same, so identify can take the word back.
func (b *belongs) isAlien(a *activity.BatchAction, batch *activity.Batch) bool {
	return a.Index < b.linkedAt && a.UserID != "" && batch.UserID != "" && a.UserID != batch.UserID && a.Email == "" &&
		!slices.Contains(b.own, a.UserID)
}

// identify takes an entry that names an anonymous visitor. Of the actions that were found before
// it, it decides whether they are left out: a visitor that turns out to be the link's user gets
// alien actions back, any other one loses all. Actions after it go by own and others. The first
// entry about a visitor counts.
func (w *want) identify(who *activity.Identity) {
	switch visitor := who.AnonymousID; {
	case slices.Contains(w.own, visitor), slices.Contains(w.others, visitor):
	case who.ConversationID == w.conversationID, who.ConversationID == "" && who.UserID == w.userID:
		w.own, w.named = append(w.own, visitor), w.named+1
		for i := range w.found {
			w.found[i].kept = w.found[i].kept || w.found[i].alien && w.found[i].user == visitor
		}
	default:
		w.others, w.named = append(w.others, visitor), w.named+1
		for i := range w.found {
			w.found[i].kept = w.found[i].kept && w.found[i].user != visitor
		}
	}
}

package connector

import (
	"slices"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
)

// membership decides which actions of a session belong to its conversation. A session
// is linked for one person, and others may use it before and after.
//
//	since the link    an action belongs if it names the conversation
//	before the link   an action belongs unless a claimed user did it; see isAlien
//
// In both cases the actions of others are left out.
type membership struct {
	conversationID string
	userID         string   // the session's identified user at the link, empty for none
	linkedAt       int      // index of the first action since the link; later ones name their conversation
	own            []string // anonymous visitors known to be the link's user
	others         []string // users whose actions are left out: identified ones, and visitors known to be others
}

// membership returns the rule for the session's actions in the conversation.
func (s *session) membership(conversationID string) membership {
	return membership{conversationID: conversationID, userID: s.UserID, linkedAt: s.LinkedAt,
		others: slices.Clip(s.Others)}
}

// has reports whether an action belongs to the conversation.
func (b *membership) has(a *activity.BatchAction) bool {
	return (a.Index < b.linkedAt || a.ConversationID == b.conversationID) &&
		(a.UserID == "" || !slices.Contains(b.others, a.UserID))
}

// isAlien reports whether an action before the link is by a user of a lower standing than the
// session's: it has neither the user nor the email address of its batch. A visitor before
// sign-in looks the same, so identify can reverse this.
func (b *membership) isAlien(a *activity.BatchAction, batch *activity.Batch) bool {
	return a.Index < b.linkedAt && a.UserID != "" && batch.UserID != "" && a.UserID != batch.UserID && a.Email == "" &&
		!slices.Contains(b.own, a.UserID)
}

// identify applies an entry that identifies an anonymous visitor. It decides whether the
// visitor's actions found so far are left out: if the visitor is the link's user, alien actions
// are kept after all; otherwise none are kept. Later actions are decided by own and others. Only
// the first entry about a visitor counts.
func (w *want) identify(who *feed.Identity) {
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

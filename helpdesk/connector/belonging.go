package connector

import (
	"slices"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
)

// has reports whether an action belongs to the conversation. A session is linked for one person,
// and others may use it before and after.
//
//	since the link    an action belongs if it names the conversation
//	before the link   an action belongs unless a claimed user did it; see isAlien
//
// In both cases the actions of others are left out.
func (w *want) has(a *activity.BatchAction) bool {
	return (a.Index < w.LinkedAt || a.ConversationID == w.conversationID) &&
		(a.UserID == "" || !slices.Contains(w.Others, a.UserID))
}

// isAlien reports whether an action before the link is by a user of a lower standing than the
// session's: it has neither the link's user nor the user or the email address of its batch. A visitor
// before sign-in looks the same, so identify can reverse this.
func (w *want) isAlien(a *activity.BatchAction, batch *activity.Batch) bool {
	return a.Index < w.LinkedAt && a.UserID != "" && batch.UserID != "" && a.UserID != batch.UserID && a.Email == "" &&
		a.UserID != w.UserID && !slices.Contains(w.own, a.UserID)
}

// identify applies an entry that identifies an anonymous visitor. It decides whether the
// visitor's actions found so far are left out: if the visitor is the link's user, alien actions
// are kept after all; otherwise none are kept. Later actions are decided by own and Others. Only
// the first entry about a visitor counts.
func (w *want) identify(who *feed.Identity) {
	switch visitor := who.AnonymousID; {
	case slices.Contains(w.own, visitor), slices.Contains(w.Others, visitor):
	case who.ConversationID == w.conversationID, who.ConversationID == "" && who.UserID == w.UserID:
		w.own, w.named = append(w.own, visitor), w.named+1
		for i := range w.found {
			w.found[i].kept = w.found[i].kept || w.found[i].alien && w.found[i].user == visitor
		}
	default:
		w.Others, w.named = append(w.Others, visitor), w.named+1
		for i := range w.found {
			w.found[i].kept = w.found[i].kept && w.found[i].user != visitor
		}
	}
}

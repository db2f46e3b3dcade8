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
// before sign-in looks the same; see decide.
func (w *want) isAlien(a *activity.BatchAction, batch *activity.Batch) bool {
	return a.Index < w.LinkedAt && a.UserID != "" && batch.UserID != "" && a.UserID != batch.UserID && a.Email == "" &&
		a.UserID != w.UserID
}

// identify applies an entry that identifies an anonymous visitor. Only the first entry about a
// visitor counts.
func (w *want) identify(who *feed.Identity) {
	if _, known := w.visitors[who.AnonymousID]; known {
		return
	}
	if w.visitors == nil {
		w.visitors = map[string]bool{}
	}
	w.visitors[who.AnonymousID] = who.ConversationID == w.conversationID ||
		who.ConversationID == "" && who.UserID == w.UserID
}

// decide leaves out the actions of others, at the end of the scan. The visitors that turned out to be
// somebody decide first, whenever that was; of anybody else only the alien actions are left out.
func (w *want) decide() {
	for i := range w.found {
		f := &w.found[i]
		if isUser, known := w.visitors[f.user]; known {
			f.kept = f.kept && isUser
		} else {
			f.kept = f.kept && !f.alien
		}
	}
}

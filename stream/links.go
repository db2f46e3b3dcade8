package stream

import (
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/liveactivity/liveactivity/activity"
)

// links holds the conversations that sessions are linked to, and what waits
// for a link. Its writer guards it.
type links struct{ sessions *simplelru.LRU[string, *link] }

// link is the link of one session.
type link struct {
	conversationID string           // empty while unknown
	resume         func()           // resumes the held deliveries; nil if there are none
	waiting        []activity.Batch // the newest actions that wait in memory, in order
	actions        int              // number of actions in waiting
}

func newLinks(size int) links {
	sessions, _ := simplelru.NewLRU[string, *link](size, nil) // fails only for sizes below one
	return links{sessions}
}

func (k links) of(sessionID string) *link {
	l, ok := k.sessions.Get(sessionID)
	if !ok {
		l = &link{}
		k.sessions.Add(sessionID, l)
	}
	return l
}

// set links a session and returns what waited for the link. The first link
// wins.
func (k links) set(sessionID, conversationID string) (freed []activity.Batch, resume func(), err error) {
	l := k.of(sessionID)
	if l.conversationID == "" {
		freed, resume = l.waiting, l.resume
		*l = link{conversationID: conversationID}
	}
	if l.conversationID != conversationID {
		err = &LinkError{SessionID: sessionID, ConversationID: l.conversationID}
	}
	return freed, resume, err
}

// follow returns the conversation of a batch, if it is known, and what has
// waited for a link that the batch itself makes.
func (k links) follow(b activity.Batch) (conversationID string, freed []activity.Batch) {
	if b.ConversationID != "" {
		freed, _, _ = k.set(b.SessionID, b.ConversationID) // an error means that the session is linked already
	}
	if l, ok := k.sessions.Get(b.SessionID); ok {
		conversationID = l.conversationID
	}
	return conversationID, freed
}

// wait keeps a batch until its session is linked, and drops the session's
// oldest actions beyond maxMerged.
func (k links) wait(b activity.Batch) {
	if b.SessionID == "" {
		return
	}
	l := k.of(b.SessionID)
	l.waiting = append(l.waiting, b)
	l.actions += len(b.Actions)
	for excess := l.actions - maxMerged; excess > 0; excess = l.actions - maxMerged {
		oldest := &l.waiting[0]
		drop := min(excess, len(oldest.Actions))
		oldest.Actions = oldest.Actions[drop:]
		l.actions -= drop
		if len(oldest.Actions) == 0 {
			l.waiting = slices.Delete(l.waiting, 0, 1)
		}
	}
}

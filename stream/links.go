package stream

import (
	"slices"
	"unsafe"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
)

// links holds the conversations of sessions, and the batches that wait for a link.
// The writer's mutex guards it.
type links struct{ sessions *fair.Cache[string, *link] }

// link is the link of one session.
type link struct {
	conversationID string           // empty while unknown
	resume         func()           // resumes the held deliveries; nil if there are none
	waiting        []activity.Batch // the newest actions that wait in memory, in order
	actions        int              // number of actions in waiting
}

// newLinks returns links that take so many bytes at most; links that were used longest ago are
// evicted first, with the batches that wait.
func newLinks(maxBytes int64) links {
	return links{fair.New[string, *link](&fair.Options{TotalBytes: maxBytes}, nil)}
}

// of returns the link of a session, created if it is missing. Call put after a
// change.
func (k links) of(sessionID string) *link {
	l, ok := k.sessions.Get(anyProduct, sessionID)
	if !ok {
		l = &link{}
	}
	return l
}

// anyProduct is the product of every link: a session id is linked without one.
const anyProduct = ""

// forget forgets a session, and the batches that wait for its link. Deliveries that are
// held come again, as far as they are left.
func (k links) forget(sessionID string) {
	if l, ok := k.sessions.Get(anyProduct, sessionID); ok {
		k.sessions.Remove(anyProduct, sessionID)
		if l.resume != nil {
			go l.resume() // it takes locks of the consumer
		}
	}
}

// put keeps a link, as the one used last, and evicts others beyond the bound.
func (k links) put(sessionID string, l *link) {
	const resume = 256 // bytes of a function and its closure
	size := fair.Size(unsafe.Sizeof(*l)) + fair.Size(len(sessionID)) + fair.Size(len(l.conversationID)) +
		int64(l.actions)*actionSize
	if l.resume != nil {
		size += resume
	}
	k.sessions.Put(anyProduct, sessionID, l, fair.Item{Bytes: size})
	k.sessions.Trim(anyProduct)
}

// set links a session and returns the batches that waited for the link, and the function that
// resumes held deliveries, nil for none: the caller calls it without the lock. The first link
// wins; another one is a *LinkError.
func (k links) set(sessionID, conversationID string) (freed []activity.Batch, resume func(), err error) {
	l := k.of(sessionID)
	if l.conversationID == "" {
		freed, resume = l.waiting, l.resume
		*l = link{conversationID: conversationID}
	}
	k.put(sessionID, l)
	if l.conversationID != conversationID {
		err = &LinkError{SessionID: sessionID, ConversationID: l.conversationID}
	}
	return freed, resume, err
}

// follow returns the conversation of a batch, if it is known, and of the link which this one makes the
// same as set.
func (k links) follow(b activity.Batch) (conversationID string, freed []activity.Batch, resume func()) {
	if b.ConversationID != "" {
		// An error means that the session is linked already.
		freed, resume, _ = k.set(b.SessionID, b.ConversationID)
	}
	if l, ok := k.sessions.Get(anyProduct, b.SessionID); ok {
		conversationID = l.conversationID
		k.put(b.SessionID, l)
	}
	return conversationID, freed, resume
}

// wait keeps a batch until its session is linked, and drops the session's oldest actions beyond
// maxMerged. It returns the conversation instead where the session was linked meanwhile.
func (k links) wait(b activity.Batch) (conversationID string) {
	if b.SessionID == "" {
		return ""
	}
	l := k.of(b.SessionID)
	if l.conversationID != "" {
		return l.conversationID
	}
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
	k.put(b.SessionID, l)
	return ""
}

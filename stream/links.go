package stream

import (
	"unsafe"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
)

// links holds the conversations of sessions, and how to resume the deliveries held for a link.
// The writer's mutex guards it.
type links struct{ sessions *fair.Cache[string, *link] }

// link is the link of one session.
type link struct {
	conversationID string // empty while unknown
	resume         func() // resumes the held deliveries; nil if there are none
}

// newLinks returns links that take so many bytes at most; links that were used longest ago are
// evicted first.
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

// forget forgets a session. Deliveries that are held come again, as far as they are left.
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
	size := fair.Size(unsafe.Sizeof(*l)) + fair.Size(len(sessionID)) + fair.Size(len(l.conversationID))
	if l.resume != nil {
		size += resume
	}
	k.sessions.Put(anyProduct, sessionID, l, fair.Item{Bytes: size})
	k.sessions.Trim(anyProduct)
}

// set links a session and returns the function that resumes held deliveries, nil for none: the
// caller calls it without the lock. The first link wins; another one is a *LinkError.
func (k links) set(sessionID, conversationID string) (resume func(), err error) {
	l := k.of(sessionID)
	if l.conversationID == "" {
		resume = l.resume
		*l = link{conversationID: conversationID}
	}
	k.put(sessionID, l)
	if l.conversationID != conversationID {
		err = &LinkError{SessionID: sessionID, ConversationID: l.conversationID}
	}
	return resume, err
}

// follow returns the conversation of a batch, if it is known, and the function that resumes the
// deliveries held for the link which this batch makes, nil for none.
func (k links) follow(b activity.Batch) (conversationID string, resume func()) {
	if b.ConversationID != "" {
		resume, _ = k.set(b.SessionID, b.ConversationID) // an error means that the session is linked already
	}
	if l, ok := k.sessions.Get(anyProduct, b.SessionID); ok {
		conversationID = l.conversationID
		k.put(b.SessionID, l)
	}
	return conversationID, resume
}

package stream

import (
	"unsafe"

	"github.com/liveactivity/liveactivity/internal/fair"
)

// links holds the conversations of sessions, and the deliveries that wait for a link.
// The writer's mutex guards it.
type links struct{ sessions *fair.Cache[string, *link] }

// link is the link of one session.
type link struct {
	conversationID string // empty while unknown
	resume         func() // resumes the held deliveries; nil if there are none
}

// newLinks returns links that take up to maxBytes of memory. The least recently used links are
// evicted first.
func newLinks(maxBytes int64) links {
	return links{fair.New[string, *link](&fair.Options{TotalBytes: maxBytes}, nil)}
}

// of returns the link of a session, created if it is missing. Call put after a
// change.
func (k links) of(sessionID string) *link {
	l, ok := k.sessions.Get(fair.NoProduct, sessionID)
	if !ok {
		l = &link{}
	}
	return l
}

// forget drops a session's link. Held deliveries that are still in the log are
// redelivered.
func (k links) forget(sessionID string) {
	if l, ok := k.sessions.Get(fair.NoProduct, sessionID); ok {
		k.sessions.Remove(fair.NoProduct, sessionID)
		if l.resume != nil {
			go l.resume() // it takes the consumer's locks
		}
	}
}

// put stores a link as the most recently used one, and evicts others beyond the
// bound.
func (k links) put(sessionID string, l *link) {
	const resume = 256 // bytes of a function and its closure
	size := fair.Size(unsafe.Sizeof(*l)) + fair.Size(len(sessionID)) + fair.Size(len(l.conversationID))
	if l.resume != nil {
		size += resume
	}
	k.sessions.Put(fair.NoProduct, sessionID, l, fair.Item{Bytes: size})
	k.sessions.Trim(fair.NoProduct)
}

// link returns the conversation of a session, empty while unknown. It links a session without one to
// the conversation, if that is not empty, and then also returns the function that resumes held
// deliveries, nil for none, which the caller calls without the lock.
func (k links) link(sessionID, conversationID string) (linked string, resume func()) {
	l := k.of(sessionID)
	if l.conversationID == "" && conversationID != "" {
		resume = l.resume
		*l = link{conversationID: conversationID}
	}
	if l.conversationID != "" || l.resume != nil {
		k.put(sessionID, l)
	}
	return l.conversationID, resume
}

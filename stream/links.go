package stream

import (
	"unsafe"

	"github.com/liveactivity/liveactivity/internal/fair"
)

// link is the conversation of one session, and the deliveries that wait for it.
type link struct {
	conversationID string // empty while unknown
	resume         func() // resumes the held deliveries; nil if there are none
}

// link returns the conversation of a session, empty while unknown, after linking a session without one to the
// given conversation, if any. A new link resumes the held deliveries. Without a session it returns the given
// conversation.
func (w *Writer) link(sessionID, conversationID string) (linkedTo string) {
	if sessionID == "" {
		return conversationID
	}
	w.mu.Lock()
	var resume func() // takes the consumer's locks
	l := w.linkOf(sessionID)
	if l.conversationID == "" && conversationID != "" {
		resume = l.resume
		*l = link{conversationID: conversationID}
	}
	if linkedTo = l.conversationID; linkedTo != "" || l.resume != nil {
		w.keepLink(sessionID, l)
	}
	w.mu.Unlock()
	if resume != nil {
		resume()
	}
	return linkedTo
}

// linkOf returns the link of a session, created if it is missing. Call keepLink after a
// change. The caller holds mu.
func (w *Writer) linkOf(sessionID string) *link {
	l, ok := w.links.Get(fair.NoProduct, sessionID)
	if !ok {
		l = &link{}
	}
	return l
}

// keepLink stores a link as the most recently used one, and evicts others beyond the
// bound. The caller holds mu.
func (w *Writer) keepLink(sessionID string, l *link) {
	const resume = 256 // bytes of a function and its closure
	size := fair.Size(unsafe.Sizeof(*l)) + fair.Size(len(sessionID)) + fair.Size(len(l.conversationID))
	if l.resume != nil {
		size += resume
	}
	w.links.Put(fair.NoProduct, sessionID, l, fair.Item{Bytes: size})
	w.links.Trim(fair.NoProduct)
}

// unlink drops a session's link. Held deliveries that are still in the log are
// redelivered.
func (w *Writer) unlink(sessionID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resume := w.linkOf(sessionID).resume
	w.links.Remove(fair.NoProduct, sessionID)
	if resume != nil {
		go resume() // it takes the consumer's locks
	}
}

package liveactivity

import (
	"net/http"
	"slices"

	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// listen notifies an MCP client when its users act, until the client disconnects, its key is removed
// or the log is closed.
func (s *Service) listen(w http.ResponseWriter, r *http.Request, l *mcptool.Listening) error {
	return s.streams.ServeForm(w, r, l.ProductID, l.Check, notifications{l})
}

// notifications formats the stream to an MCP client.
type notifications struct{ *mcptool.Listening }

// Frame implements [eventlog.Form]. It has an event for each user with actions, with earlier actions
// that the entry assigns, or with an erasure in the entry, and for the session's user, because a
// visitor's late action may be that user's; it is nil if there are none.
func (n notifications) Frame(e *eventlog.Entry) (frame []byte) {
	if who, err := e.DecodeIdentity(); err == nil && who != nil {
		return n.Acted(who.UserID)
	}
	if erased, err := e.DecodeErasure(); err == nil && erased != nil {
		return n.Acted(erased.UserID)
	}
	b, err := e.Decode()
	if err != nil || b == nil {
		return nil
	}
	users := []string{b.UserID}
	frame = n.Acted(b.UserID)
	for i := range b.Actions {
		if id := b.Actions[i].UserID; !slices.Contains(users, id) {
			users = append(users, id)
			frame = append(frame, n.Acted(id)...)
		}
	}
	return frame
}

// Gap implements [eventlog.Form]: any user may have acted.
func (n notifications) Gap(eventlog.ID) []byte { return n.All() }
